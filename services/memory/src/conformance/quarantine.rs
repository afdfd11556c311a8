//! Claims without progress.

use super::support::*;
use crate::port::{Commit, ListQuery, Quarantine, ReleaseRequest, StoreError};

/// Claims, confirms and lets the lease run out, as owners that die of the session.
async fn die(subject: &Subject, times: usize) {
    for _ in 0..times {
        subject.claim_one("mortal").await.renew().await;
        subject.outlive_leases().await;
    }
}

/// Claims and lets the lease run out, as claimers that never get the answer.
async fn lose_answers(subject: &Subject, times: usize) {
    for _ in 0..times {
        assert_eq!(subject.claimed("unlucky").await.len(), 1);
        subject.outlive_leases().await;
    }
}

/// Why the one session is quarantined, if it is; the listing and its journal say the same.
async fn set_aside_for(subject: &Subject) -> Option<Quarantine> {
    let listed = subject
        .store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap();
    let entry = &listed.sessions[0];
    let key = key(&entry.session);
    for after_seq in [0, u64::MAX] {
        let page = subject.store.read(&key, after_seq, 1).await.unwrap();
        assert_eq!(page.quarantined, entry.quarantined);
    }
    entry.quarantined
}

async fn is_set_aside(subject: &Subject) -> bool {
    set_aside_for(subject).await.is_some()
}

async fn queued(subject: &Subject) -> crate::port::SessionKey {
    let key = subject.parked("a").await;
    subject.append(&key, "wake").await;
    key
}

pub async fn five_claims_without_progress_set_a_session_aside(subject: &Subject) {
    queued(subject).await;
    die(subject, 5).await;
    assert!(!is_set_aside(subject).await);
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
    assert!(is_set_aside(subject).await);
}

pub async fn claims_whose_answers_are_lost_do_not_count(subject: &Subject) {
    queued(subject).await;
    lose_answers(subject, 7).await;
    die(subject, 4).await;
    lose_answers(subject, 2).await;
    assert!(!is_set_aside(subject).await);
    die(subject, 1).await;
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
    assert!(is_set_aside(subject).await);
}

pub async fn a_claim_counts_once_however_often_it_is_renewed(subject: &Subject) {
    queued(subject).await;
    let owner = subject.claim_one("one").await;
    for _ in 0..6 {
        owner.renew().await;
    }
    subject.outlive_leases().await;
    die(subject, 4).await;
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
    assert!(is_set_aside(subject).await);
}

pub async fn progress_resets_the_count_of_claims(subject: &Subject) {
    queued(subject).await;
    die(subject, 4).await;
    let mut owner = subject.claim_one("one").await;
    owner.commit("x").await;
    subject.outlive_leases().await;
    die(subject, 5).await;
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
}

pub async fn empty_commits_are_no_progress(subject: &Subject) {
    queued(subject).await;
    die(subject, 4).await;
    let mut owner = subject.claim_one("one").await;
    owner.commit("").await;
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert!(is_set_aside(subject).await);
}

pub async fn commits_marked_so_are_no_progress(subject: &Subject) {
    queued(subject).await;
    for _ in 0..5 {
        let mut owner = subject.claim_one("one").await;
        let commit = Commit {
            no_progress: true,
            ..owner.next("continued")
        };
        owner.make(commit).await.unwrap();
        subject.outlive_leases().await;
    }
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert!(is_set_aside(subject).await);
}

pub async fn clean_ends_are_not_counted(subject: &Subject) {
    let key = queued(subject).await;
    for round in 0..7 {
        let mut owner = subject.claim_one("one").await;
        if round % 3 == 0 {
            owner.renew().await;
        }
        if round % 2 == 0 {
            let release = ReleaseRequest {
                key: key.clone(),
                owner: owner.owner.clone(),
                epoch: owner.epoch,
                delay_ms: 0,
            };
            subject.store.release(release).await.unwrap();
        } else {
            let mut parking = owner.parking(Some(1));
            parking.events.clear();
            parking.header.handled_through = owner.seen;
            owner.make(parking).await.unwrap();
        }
    }
    die(subject, 5).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
}

pub async fn a_session_set_aside_takes_commands_and_is_not_claimed(subject: &Subject) {
    let key = queued(subject).await;
    die(subject, 5).await;
    subject.claimed("mortal").await;
    for duplicate in [false, true] {
        let appended = subject.append(&key, "please").await;
        assert_eq!(
            (appended.duplicate, appended.quarantined),
            (duplicate, true)
        );
    }
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert_eq!(
        subject.journal(&key).await,
        "1:made 2:first 3:wake 4:please"
    );
}

pub async fn a_session_set_aside_is_released_by_hand(subject: &Subject) {
    let key = queued(subject).await;
    die(subject, 5).await;
    subject.claimed("mortal").await;
    for _ in 0..2 {
        subject.store.release_quarantine(&key, false).await.unwrap();
    }
    assert!(!is_set_aside(subject).await);
    for id in ["wake", "again"] {
        assert!(!subject.append(&key, id).await.quarantined);
    }
    die(subject, 5).await;
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
    assert!(subject.append(&key, "wake").await.quarantined);
}

pub async fn releasing_a_healthy_session_from_quarantine_does_nothing(subject: &Subject) {
    let key = subject.parked("a").await;
    subject.store.release_quarantine(&key, false).await.unwrap();
    assert_eq!(subject.claimed("one").await, [""; 0]);
    let mut owner = subject.owned("b", "one").await;
    subject
        .store
        .release_quarantine(&owner.key, false)
        .await
        .unwrap();
    owner.commit("x").await;
}

pub async fn a_session_is_set_aside_whoever_owns_it(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    for _ in 0..2 {
        subject.store.quarantine(&owner.key, None).await.unwrap();
    }
    assert!(is_set_aside(subject).await);
    assert_eq!(owner.error(owner.next("x")).await, StoreError::Fenced);
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert!(subject.append(&owner.key, "wake").await.quarantined);
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject
        .store
        .release_quarantine(&owner.key, true)
        .await
        .unwrap();
    let mut second = subject.claim_one("two").await;
    second.commit("y").await;
    assert!(!is_set_aside(subject).await);
}

pub async fn why_a_session_is_set_aside_is_told(subject: &Subject) {
    let key = queued(subject).await;
    assert_eq!(set_aside_for(subject).await, None);
    die(subject, 5).await;
    subject.claimed("mortal").await;
    assert_eq!(set_aside_for(subject).await, Some(Quarantine::Claims));
    // It may be found out later that something is lost as well.
    subject.store.quarantine(&key, None).await.unwrap();
    assert_eq!(set_aside_for(subject).await, Some(Quarantine::WritesLost));
    subject.store.release_quarantine(&key, true).await.unwrap();
    die(subject, 5).await;
    subject.claimed("mortal").await;
    assert_eq!(set_aside_for(subject).await, Some(Quarantine::Claims));
    subject.store.release_quarantine(&key, false).await.unwrap();
    assert_eq!(set_aside_for(subject).await, None);
}

pub async fn a_loss_is_accepted_before_its_session_goes_on(subject: &Subject) {
    let key = queued(subject).await;
    subject.store.quarantine(&key, None).await.unwrap();
    let unaware = subject.store.release_quarantine(&key, false).await;
    assert_eq!(unaware, Err(StoreError::WritesLost));
    assert!(is_set_aside(subject).await);
    assert_eq!(subject.claimed("one").await, [""; 0]);
    subject.store.release_quarantine(&key, true).await.unwrap();
    // May be repeated, also by whoever does not know of a loss any more.
    subject.store.release_quarantine(&key, false).await.unwrap();
    assert_eq!(subject.claimed("one").await.len(), 1);
}

pub async fn a_loss_that_was_accepted_is_no_reason_to_set_a_session_aside(subject: &Subject) {
    let key = queued(subject).await;
    let accepted = async || {
        let page = subject.store.read(&key, u64::MAX, 1).await;
        page.unwrap().accepted_losses
    };
    // Nothing was lost.
    die(subject, 5).await;
    subject.claimed("mortal").await;
    subject.store.release_quarantine(&key, true).await.unwrap();
    assert_eq!(accepted().await, 0);
    for losses in 0..2 {
        for _ in 0..2 {
            let quarantine = subject.store.quarantine(&key, Some(losses)).await;
            assert_eq!(quarantine, Ok(true));
        }
        for _ in 0..2 {
            subject.store.release_quarantine(&key, true).await.unwrap();
            assert_eq!(accepted().await, losses + 1);
        }
        // Who has not heard of that finds the same once more.
        let quarantine = subject.store.quarantine(&key, Some(losses)).await;
        assert_eq!(quarantine, Ok(false));
        assert_eq!(set_aside_for(subject).await, None);
    }
    subject.claim_one("one").await.commit("x").await;
    assert_eq!(accepted().await, 2);
    let quarantine = subject.store.quarantine(&key, None).await;
    assert_eq!(quarantine, Ok(true));
    assert!(is_set_aside(subject).await);
}

pub async fn a_queued_session_that_is_set_aside_is_not_claimed(subject: &Subject) {
    let key = queued(subject).await;
    subject.store.quarantine(&key, None).await.unwrap();
    assert_eq!(subject.claimed("one").await, [""; 0]);
    let unknown = super::support::key("unknown");
    let refused = subject.store.quarantine(&unknown, None).await;
    assert_eq!(refused, Err(StoreError::NotFound));
}
