//! The owner's transitions.

use super::support::*;
use crate::port::{Commit, Header, SessionStatus, StoreError};

pub async fn a_commit_appends_contiguously(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let committed = owner.commit("x y z").await;
    assert_eq!((committed.duplicate, committed.first_seq), (false, 3));
    assert!(committed.others.is_empty());
    assert_eq!(owner.commit("u").await.first_seq, 6);
    let journal = subject.journal(&owner.key).await;
    assert_eq!(journal, "1:made 2:first 3:x 4:y 5:z 6:u");
}

pub async fn a_commit_without_events_changes_the_header(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let header = Header {
        status: SessionStatus::Running,
        handled_through: 2,
        title: "a goal".to_owned(),
        ..Header::default()
    };
    let commit = Commit {
        header: header.clone(),
        ..owner.next("")
    };
    let committed = owner.make(commit).await.unwrap();
    assert_eq!(committed.first_seq, 3);
    let page = subject.store.read(&owner.key, 0, 10).await.unwrap();
    assert_eq!((page.last_seq, page.version, page.header), (2, 1, header));
    assert_eq!(owner.commit("x").await.first_seq, 3);
}

pub async fn a_repeated_commit_is_answered_as_before(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "by-somebody").await;
    let commit = owner.next("x y");
    let first = subject.store.commit(commit.clone()).await.unwrap();
    for _ in 0..3 {
        let again = subject.store.commit(commit.clone()).await.unwrap();
        assert!(again.duplicate);
        assert_eq!(again.first_seq, 4);
        assert_eq!(again.others, first.others);
        assert_eq!(again.lease_until_unix_ms, first.lease_until_unix_ms);
    }
    let journal = subject.journal(&owner.key).await;
    assert_eq!(journal, "1:made 2:first 3:by-somebody 4:x 5:y");
}

pub async fn a_repeated_commit_is_answered_as_before_though_others_appended_since(
    subject: &Subject,
) {
    let owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "before").await;
    let commit = owner.next("x");
    subject.store.commit(commit.clone()).await.unwrap();
    subject.append(&owner.key, "after").await;
    let again = subject.store.commit(commit).await.unwrap();
    assert_eq!((again.duplicate, again.first_seq), (true, 4));
    assert_eq!(shown(&again.others), "3:before");
}

pub async fn a_repeated_commit_says_whether_the_epoch_still_holds(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let commit = owner.next("x");
    subject.store.commit(commit.clone()).await.unwrap();
    subject.outlive_leases().await;
    let before = subject.store.commit(commit.clone()).await.unwrap();
    assert!(before.duplicate && before.owned());
    subject.claim_one("two").await;
    let after = subject.store.commit(commit).await.unwrap();
    assert_eq!((after.duplicate, after.first_seq), (true, 3));
    assert!(!after.owned());
}

pub async fn only_the_last_commit_is_known_by_its_operation(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let old = owner.next("x");
    owner.make(old.clone()).await.unwrap();
    owner.commit("y").await;
    assert_eq!(owner.error(old).await, StoreError::Conflict);
    // The same name for another transition makes it no repeat.
    let mut named = owner.next("z");
    named.operation_id = "twice".to_owned();
    owner.make(named.clone()).await.unwrap();
    named.version = owner.version;
    named.seen_seq = owner.seen;
    assert!(!owner.make(named).await.unwrap().duplicate);
    assert_eq!(
        subject.journal(&owner.key).await,
        "1:made 2:first 3:x 4:y 5:z 6:z"
    );
}

pub async fn a_commit_of_another_version_is_a_conflict(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x").await;
    owner.commit("y").await;
    for version in [0, 1] {
        let commit = Commit {
            version,
            ..owner.next("z")
        };
        assert_eq!(owner.error(commit).await, StoreError::Conflict, "{version}");
    }
    assert_eq!(subject.journal(&owner.key).await, "1:made 2:first 3:x 4:y");
}

pub async fn a_commit_after_more_than_the_store_has_tells_that_it_went_back(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x").await;
    owner.commit("y").await;
    // Whether the caller still owns the session does not matter: what is lost is lost.
    for (known, name) in [(3, "one"), (100, "one"), (3, "two")] {
        let commit = Commit {
            version: known,
            owner: name.to_owned(),
            ..owner.next("z")
        };
        let want = StoreError::WentBack { known, stored: 2 };
        assert_eq!(owner.error(commit).await, want);
    }
    assert_eq!(subject.journal(&owner.key).await, "1:made 2:first 3:x 4:y");
    owner.commit("z").await;
}

pub async fn a_commit_by_somebody_else_is_fenced(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let stranger = Commit {
        owner: "two".to_owned(),
        ..owner.next("x")
    };
    assert_eq!(owner.error(stranger).await, StoreError::Fenced);
    for epoch in [0, 2] {
        let commit = Commit {
            epoch,
            ..owner.next("x")
        };
        assert_eq!(owner.error(commit).await, StoreError::Fenced, "{epoch}");
    }
    let key = subject.parked("b").await;
    let unowned = Commit {
        key,
        epoch: 0,
        ..owner.next("x")
    };
    assert_eq!(owner.error(unowned).await, StoreError::Fenced);
}

pub async fn a_commit_after_parking_is_fenced(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.park(None).await;
    assert_eq!(owner.error(owner.next("x")).await, StoreError::Fenced);
}

pub async fn a_frozen_owner_is_fenced_for_ever(subject: &Subject) {
    let mut frozen = subject.owned("a", "one").await;
    frozen.commit("x").await;
    subject.outlive_leases().await;
    let mut second = subject.claim_one("two").await;
    assert_eq!(second.epoch, frozen.epoch + 1);
    assert_eq!(frozen.error(frozen.next("late")).await, StoreError::Fenced);
    second.commit("y").await;
    second.park(None).await;
    assert_eq!(frozen.error(frozen.next("late")).await, StoreError::Fenced);
    // Even when it is the owner again: the old epoch is over.
    subject.append(&frozen.key, "wake").await;
    let third = subject.claim_one("one").await;
    let late = Commit {
        version: third.version,
        seen_seq: third.seen,
        ..frozen.next("late")
    };
    assert_eq!(frozen.error(late).await, StoreError::Fenced);
    let journal = subject.journal(&frozen.key).await;
    assert_eq!(journal, "1:made 2:first 3:x 4:y 5:parked 6:wake");
}

pub async fn an_expired_lease_admits_its_owner_until_somebody_claims(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.outlive_leases().await;
    let committed = owner.commit("x").await;
    let until = committed.now_unix_ms + i64::from(LEASE);
    assert_eq!(committed.lease_until_unix_ms, Some(until));
    assert_eq!(subject.claimed("two").await, [""; 0]);
}

pub async fn a_commit_brings_what_others_appended(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x").await;
    subject.append(&owner.key, "c1").await;
    subject.append(&owner.key, "c2").await;
    let partly = Commit {
        seen_seq: 4,
        ..owner.next("y z")
    };
    let committed = owner.make(partly).await.unwrap();
    assert_eq!(committed.first_seq, 6);
    assert_eq!(shown(&committed.others), "5:c2");
    assert!(owner.commit("u").await.others.is_empty());
    subject.append(&owner.key, "c3").await;
    let committed = owner.commit("").await;
    assert_eq!(
        (committed.first_seq, shown(&committed.others).as_str()),
        (10, "9:c3")
    );
}

pub async fn a_commit_that_has_not_seen_its_last_transition_is_a_conflict(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x y").await;
    let blind = Commit {
        seen_seq: 3,
        ..owner.next("z")
    };
    assert_eq!(owner.error(blind).await, StoreError::Conflict);
}

pub async fn a_commit_that_has_not_seen_what_there_was_at_the_claim_is_a_conflict(
    subject: &Subject,
) {
    let key = subject.parked("a").await;
    subject.append(&key, "c1").await;
    let mut owner = subject.claim_one("one").await;
    subject.append(&key, "c2").await;
    let blind = Commit {
        seen_seq: 2,
        ..owner.next("x")
    };
    assert_eq!(owner.error(blind).await, StoreError::Conflict);
    assert_eq!(owner.seen, 3);
    assert_eq!(shown(&owner.commit("x").await.others), "4:c2");
}

pub async fn a_commit_that_has_seen_too_much_is_a_conflict(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let ahead = Commit {
        seen_seq: 3,
        ..owner.next("x")
    };
    assert_eq!(owner.error(ahead).await, StoreError::Conflict);
}

pub async fn a_refused_commit_leaves_nothing(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x").await;
    let before = subject.store.read(&owner.key, 0, 10).await.unwrap();
    let refused = Commit {
        version: 7,
        header: Header {
            status: SessionStatus::Waiting,
            handled_through: 1,
            title: "refused".to_owned(),
            ..Header::default()
        },
        ..owner.parking(Some(1))
    };
    owner.error(refused).await;
    assert_eq!(subject.store.read(&owner.key, 0, 10).await.unwrap(), before);
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert!(!owner.commit("y").await.duplicate);
}

pub async fn concurrent_commits_of_one_version_happen_once(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let commits = (0..8).map(|_| subject.store.commit(owner.next("x")));
    let outcomes = futures::future::join_all(commits).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let conflicts = outcomes.iter().filter(|o| **o == Err(StoreError::Conflict));
    assert_eq!(conflicts.count(), 7);
    assert_eq!(subject.journal(&owner.key).await, "1:made 2:first 3:x");
}

pub async fn many_sessions_commit_at_once(subject: &Subject) {
    let work = (0..100).map(|number| async move {
        let mut owner = subject.owned(number, "one").await;
        for _ in 0..5 {
            owner.commit("x y").await;
        }
        // A neighbour that is refused disturbs nobody.
        owner
            .error(Commit {
                version: 99,
                ..owner.next("z")
            })
            .await;
        owner
    });
    for owner in futures::future::join_all(work).await {
        let page = subject.store.read(&owner.key, 0, 100).await.unwrap();
        assert_eq!((page.last_seq, page.version), (12, 5));
        let seqs: Vec<_> = page.events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=12).collect::<Vec<_>>());
    }
}

pub async fn a_commit_on_nothing_is_not_found(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let commit = Commit {
        key: key("b"),
        ..owner.next("x")
    };
    assert_eq!(owner.error(commit).await, StoreError::NotFound);
}
