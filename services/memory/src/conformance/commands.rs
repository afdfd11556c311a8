//! Commands, which need no ownership.

use super::support::*;
use crate::port::{AppendCommand, Create, Header, RequestId, StoreError, StoreResult};
use std::collections::HashSet;

pub async fn a_command_is_appended_once(subject: &Subject) {
    let key = subject.parked("a").await;
    let first = subject.append(&key, "c").await;
    assert_eq!((first.duplicate, first.seq), (false, 3));
    subject.append(&key, "d").await;
    let mut repeat = command(&key, "c");
    repeat.event = bytes("encoded at another time");
    let again = subject.store.append_command(repeat).await.unwrap();
    assert_eq!((again.duplicate, again.seq), (true, 3));
    assert_eq!(subject.journal(&key).await, "1:made 2:first 3:c 4:d");
}

/// Whoever takes no new work still answers for what was accepted.
pub async fn what_is_only_to_be_repeated_is_not_appended(subject: &Subject) {
    let key = subject.parked("a").await;
    let repeat = |id: &str| AppendCommand {
        repeat_only: true,
        ..command(&key, id)
    };
    let unknown = subject.store.append_command(repeat("r")).await.unwrap();
    assert_eq!((unknown.duplicate, unknown.seq), (false, 0));
    assert_eq!(subject.journal(&key).await, "1:made 2:first");
    assert_eq!(subject.claimed("one").await, [""; 0]);
    subject.append(&key, "r").await;
    let known = subject.store.append_command(repeat("r")).await.unwrap();
    assert_eq!((known.duplicate, known.seq), (true, 3));
    let other = AppendCommand {
        request: RequestId {
            digest: bytes("other"),
            ..request("r")
        },
        ..repeat("r")
    };
    let refused = subject.store.append_command(other).await;
    assert_eq!(refused, Err(StoreError::RequestMismatch));
}

pub async fn a_request_id_with_another_digest_is_refused(subject: &Subject) {
    let key = subject.parked("a").await;
    subject.append(&key, "c").await;
    let mut other = command(&key, "c");
    other.request.digest = bytes("another");
    let refused = subject.store.append_command(other).await;
    assert_eq!(refused, Err(StoreError::RequestMismatch));
    assert_eq!(subject.journal(&key).await, "1:made 2:first 3:c");
}

pub async fn request_ids_belong_to_one_session(subject: &Subject) {
    let (one, two) = (subject.parked("a").await, subject.parked("b").await);
    assert!(!subject.append(&one, "c").await.duplicate);
    assert!(!subject.append(&two, "c").await.duplicate);
    let missing = subject.store.append_command(command(&key("x"), "c")).await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn the_creating_request_is_known_to_commands(subject: &Subject) {
    let create = Create {
        last_command_seq: 2,
        ..creation(&key("a"))
    };
    subject.store.create(create).await.unwrap();
    let again = subject.append(&key("a"), "creation").await;
    assert_eq!((again.duplicate, again.seq), (true, 2));
    let mut other = command(&key("a"), "creation");
    other.request.digest = bytes("another");
    let refused = subject.store.append_command(other).await;
    assert_eq!(refused, Err(StoreError::RequestMismatch));
    // And the other way round: a command's request is known to creation.
    subject.append(&key("a"), "later").await;
    let late = Create {
        request: request("later"),
        ..creation(&key("a"))
    };
    assert!(subject.store.create(late).await.unwrap().duplicate);
}

pub async fn a_command_wakes_a_parked_session(subject: &Subject) {
    let key = subject.parked("a").await;
    subject.append(&key, "c").await;
    let owner = subject.claim_one("one").await;
    assert_eq!((owner.epoch, owner.version, owner.seen), (1, 0, 3));
}

pub async fn a_command_brings_a_later_time_forward(subject: &Subject) {
    let now = subject.store.now().await.unwrap();
    let mut owner = subject.owned("a", "one").await;
    owner.park(Some(now + 1_000_000)).await;
    subject.append(&owner.key, "c").await;
    assert_eq!(subject.claimed("two").await, ["a"]);
}

pub async fn a_command_does_not_queue_a_leased_session(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let mut handled = owner.parking(None);
    handled.seen_seq = 3;
    handled.header = Header {
        handled_through: 3,
        ..Header::default()
    };
    owner.make(handled).await.unwrap();
    assert_eq!(subject.claimed("two").await, [""; 0]);
}

pub async fn a_command_for_an_expired_owner_makes_the_session_claimable(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    subject.outlive_leases().await;
    subject.append(&owner.key, "c").await;
    let next = subject.claim_one("two").await;
    assert_eq!((next.epoch, next.seen), (2, 3));
}

pub async fn concurrent_repeats_of_a_command_append_once(subject: &Subject) {
    let key = subject.parked("a").await;
    let repeats = (0..16).map(|_| subject.store.append_command(command(&key, "c")));
    let appended = futures::future::join_all(repeats).await;
    let appended: Vec<_> = appended.into_iter().map(StoreResult::unwrap).collect();
    assert!(appended.iter().all(|appended| appended.seq == 3));
    assert_eq!(
        appended
            .iter()
            .filter(|appended| !appended.duplicate)
            .count(),
        1
    );
    assert_eq!(subject.journal(&key).await, "1:made 2:first 3:c");
}

pub async fn concurrent_commands_get_distinct_numbers(subject: &Subject) {
    let key = subject.parked("a").await;
    let ids: Vec<_> = (0..100).map(|number| format!("c{number}")).collect();
    let commands = ids.iter().map(|id| subject.append(&key, id));
    let appended = futures::future::join_all(commands).await;
    let seqs: HashSet<_> = appended.iter().map(|appended| appended.seq).collect();
    assert_eq!(seqs, (3..103).collect());
    let page = subject.store.read(&key, 0, 1000).await.unwrap();
    for (appended, id) in appended.iter().zip(&ids) {
        let place = usize::try_from(appended.seq - 1).unwrap();
        assert_eq!(page.events[place].event, id.as_bytes());
    }
}
