//! What copies of sessions are once they are complete, and what becomes of those that are not.

use super::copies::{completing, copy, source};
use super::memory::set;
use super::support::*;
use crate::port::{CopyEvents, Header, LeaseChange, MemoryEntry, SessionStatus, StoreError};

/// A little more than the time after which a copy is removed.
const AN_HOUR: u64 = 60 * 60 * 1000 + 1;

pub async fn a_child_is_a_session_of_its_own(subject: &Subject) {
    let mut owner = source(subject).await;
    subject.remember(&owner.key, set("k", "now")).await;
    let child = key("child");
    let copy = copy(&owner.key, &child, 6);
    subject.copy_all(&copy).await.unwrap();
    let mut last = completing(&copy, "forked doubted");
    let now = subject.store.now().await.unwrap();
    if let Some(completion) = &mut last.completion {
        completion.memory = vec![MemoryEntry {
            key: "k".to_owned(),
            value: "then".to_owned(),
            ..MemoryEntry::default()
        }];
        completion.due_unix_ms = Some(now);
        completion.header = Header {
            status: SessionStatus::Running,
            handled_through: 6,
            title: "A fork".to_owned(),
            ..Header::default()
        };
    }
    subject.store.copy_events(last).await.unwrap();
    assert_eq!(subject.memory(&child).await, "k=then");
    assert_eq!(subject.memory(&owner.key).await, "k=now");
    let page = subject.store.read(&child, 0, 100).await.unwrap();
    assert_eq!((page.version, page.last_seq), (0, 8));
    assert_eq!(page.header.title, "A fork");
    assert_eq!(page.header.status, SessionStatus::Running);

    let mut heir = subject.claim_one("two").await;
    assert_eq!((&heir.key, heir.epoch, heir.version), (&child, 1, 0));
    heir.commit("of the child").await;
    owner.seen = 9;
    owner.commit("of the source").await;
    assert!(subject.journal(&child).await.ends_with("11:child"));
    assert!(subject.journal(&owner.key).await.ends_with("12:source"));
    let changed = subject.remember(&child, set("k", "later")).await;
    assert_eq!(changed, 12);
    assert_eq!(subject.memory(&owner.key).await, "k=now");
}

pub async fn commands_and_requests_are_not_the_childs(subject: &Subject) {
    let owner = source(subject).await;
    let (child, _) = subject.child(&owner.key, "child", 6).await;
    // The command at 6 was never handled, and wakes nobody; the child parks as it likes.
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let appended = subject.append(&child, "from-outside").await;
    assert_eq!((appended.duplicate, appended.seq), (false, 8));
    let mut heir = subject.claim_one("two").await;
    heir.seen = 8;
    let mut parks = heir.parking(None);
    parks.lease = LeaseChange::Park { due_unix_ms: None };
    parks.header.handled_through = 8;
    assert!(!heir.make(parks).await.unwrap().owned());
    // Its own request is known to it.
    let known = subject.store.append_command(command(&child, "copy")).await;
    assert!(known.unwrap().duplicate);
}

pub async fn a_child_has_the_time_to_live_of_its_source(subject: &Subject) {
    let brief = subject.with_ttl("brief", 5000).await;
    let lasting = subject.parked("lasting").await;
    subject.pass(4000).await;
    subject.child(&brief, "brief-child", 0).await;
    subject.child(&lasting, "lasting-child", 0).await;
    subject.pass(2000).await;
    assert_eq!(subject.idle(None).await, ["brief"]);
    subject.pass(4000).await;
    assert_eq!(subject.idle(None).await, ["brief", "brief-child"]);
}

pub async fn a_session_set_aside_is_copied_and_its_child_is_well(subject: &Subject) {
    let owner = source(subject).await;
    subject.store.quarantine(&owner.key, None).await.unwrap();
    let (child, cut) = subject.child(&owner.key, "child", 0).await;
    assert_eq!(cut, 8);
    let page = subject.store.read(&child, 0, 1).await.unwrap();
    assert_eq!(page.quarantined, None);
    subject.append(&child, "c").await;
    assert_eq!(subject.claimed("two").await, ["child"]);
}

pub async fn a_copy_that_is_given_up_is_removed(subject: &Subject) {
    let owner = source(subject).await;
    let (left, going) = (key("left"), key("going"));
    let given_up = copy(&owner.key, &left, 5);
    let goes_on = copy(&owner.key, &going, 5);
    subject.copy_all(&given_up).await.unwrap();
    subject.copy_all(&goes_on).await.unwrap();
    subject.pass(AN_HOUR / 2).await;
    subject.copy_all(&goes_on).await.unwrap();
    assert_eq!(subject.store.drop_unfinished(10).await, Ok(0));
    subject.pass(AN_HOUR / 2 + 1).await;
    assert_eq!(subject.store.drop_unfinished(0).await, Ok(0));
    assert_eq!(subject.store.drop_unfinished(10).await, Ok(1));
    assert_eq!(subject.store.drop_unfinished(10).await, Ok(0));
    let late = subject.refused(completing(&given_up, "forked")).await;
    assert_eq!(late, StoreError::Conflict);
    subject
        .store
        .copy_events(completing(&goes_on, "forked"))
        .await
        .unwrap();
    // The name is free again, for any request.
    let again = CopyEvents {
        request: request("again"),
        ..copy(&owner.key, &left, 2)
    };
    assert_eq!(subject.copy_all(&again).await.unwrap().0, 2);
    subject
        .store
        .copy_events(completing(&again, "forked"))
        .await
        .unwrap();
    assert_eq!(subject.journal(&left).await, "1:made 2:first 3:forked");
    subject.pass(2 * AN_HOUR).await;
    assert_eq!(subject.store.drop_unfinished(10).await, Ok(0));
    assert_eq!(subject.journal(&left).await, "1:made 2:first 3:forked");
}

pub async fn a_full_journal_can_be_copied(subject: &Subject) {
    let mut owner = subject.owned("source", "one").await;
    let mut commit = owner.next("");
    commit.events = (0..1000).map(|_| bytes("x")).collect();
    owner.make(commit).await.unwrap();
    let mut commit = owner.next("");
    commit.events = (0..998).map(|_| bytes("x")).collect();
    owner.make(commit).await.unwrap();
    let (child, cut) = subject.child(&owner.key, "child", 0).await;
    assert_eq!(cut, 2000);
    assert_eq!(
        subject.store.read(&child, 2000, 1).await.unwrap().last_seq,
        2001
    );
    let copy = copy(&owner.key, &key("more"), 0);
    subject.copy_all(&copy).await.unwrap();
    let words = "x ".repeat(21);
    let refused = subject.refused(completing(&copy, &words)).await;
    assert!(matches!(refused, StoreError::Limit { .. }), "{refused}");
}
