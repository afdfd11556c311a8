//! Leases that are kept, parked and released.

use super::support::*;
use crate::port::{
    Commit, Header, OwnedSession, ReleaseRequest, RenewRequest, Renewed, StoreError,
};

pub(super) fn release(owner: &Owner) -> ReleaseRequest {
    ReleaseRequest {
        key: owner.key.clone(),
        owner: owner.owner.clone(),
        epoch: owner.epoch,
        delay_ms: 0,
    }
}

fn owned(owner: &Owner) -> OwnedSession {
    OwnedSession {
        key: owner.key.clone(),
        epoch: owner.epoch,
    }
}

async fn renew(subject: &Subject, owner: &str, sessions: Vec<OwnedSession>) -> Renewed {
    let request = RenewRequest {
        owner: owner.to_owned(),
        sessions,
        lease_ms: LEASE,
    };
    subject.store.renew(request).await.unwrap()
}

pub async fn a_commit_renews_the_lease(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.pass(600).await;
    let committed = owner.commit("x").await;
    let until = committed.now_unix_ms + i64::from(LEASE);
    assert_eq!(committed.lease_until_unix_ms, Some(until));
    subject.pass(600).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject.pass(500).await;
    assert_eq!(subject.claimed("two").await, ["a"]);
}

pub async fn parking_queues_for_the_time(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let now = subject.store.now().await.unwrap();
    let parked = owner.park(Some(now + 3000)).await;
    assert_eq!((parked.owned(), parked.lease_until_unix_ms), (false, None));
    subject.pass(1500).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject.pass(1501).await;
    assert_eq!(subject.claimed("two").await, ["a"]);
}

pub async fn parking_without_a_time_waits_for_a_command(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.park(None).await;
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject.append(&owner.key, "wake").await;
    assert_eq!(subject.claimed("two").await, ["a"]);
}

pub async fn parking_with_an_unhandled_command_keeps_the_lease(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    let parked = owner.park(None).await;
    assert!(parked.owned());
    assert_eq!(shown(&parked.others), "3:c");
    let until = parked.now_unix_ms + i64::from(LEASE);
    assert_eq!(parked.lease_until_unix_ms, Some(until));
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert_eq!(
        subject.journal(&owner.key).await,
        "1:made 2:first 3:c 4:parked"
    );
    owner.commit("x").await;
}

pub async fn parking_after_handling_lets_go(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    let handled = Commit {
        seen_seq: 3,
        header: Header {
            handled_through: 3,
            ..Header::default()
        },
        ..owner.parking(None)
    };
    assert!(!owner.make(handled).await.unwrap().owned());
}

pub async fn a_repeated_parking_says_that_it_let_go(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let parking = owner.parking(None);
    owner.make(parking.clone()).await.unwrap();
    let again = subject.store.commit(parking.clone()).await.unwrap();
    assert!(again.duplicate && !again.owned());
    subject.append(&owner.key, "wake").await;
    subject.claim_one("one").await;
    let again = subject.store.commit(parking).await.unwrap();
    assert!(again.duplicate && !again.owned());
}

pub async fn renewing_keeps_leases(subject: &Subject) {
    let owners = [
        subject.owned("a", "one").await,
        subject.owned("b", "one").await,
    ];
    subject.pass(600).await;
    let renewed = renew(subject, "one", owners.iter().map(owned).collect()).await;
    assert!(renewed.lost.is_empty() && renewed.woken.is_empty());
    let until = renewed.now_unix_ms + i64::from(LEASE);
    assert_eq!(renewed.lease_until_unix_ms, until);
    subject.pass(600).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject.pass(500).await;
    assert_eq!(subject.claimed("two").await.len(), 2);
}

pub async fn renewing_tells_what_is_lost(subject: &Subject) {
    let gone = subject.owned("deleted", "one").await;
    subject.store.delete(&gone.key).await.unwrap();
    let stolen = subject.owned("stolen", "one").await;
    subject.outlive_leases().await;
    subject.claimed("two").await;
    let mut parked = subject.owned("parked", "one").await;
    parked.park(None).await;
    let foreign = subject.owned("foreign", "three").await;
    let mine = subject.owned("mine", "one").await;
    let unknown = OwnedSession {
        key: key("unknown"),
        epoch: 1,
    };
    let mut all: Vec<_> = [&gone, &stolen, &parked, &foreign, &mine].map(owned).into();
    all.push(unknown);
    let renewed = renew(subject, "one", all).await;
    let lost: Vec<_> = renewed.lost.iter().map(|key| key.session()).collect();
    assert_eq!(lost, ["deleted", "stolen", "parked", "foreign", "unknown"]);
}

pub async fn renewing_tells_of_commands_until_they_are_handled(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    for _ in 0..2 {
        let renewed = renew(subject, "one", vec![owned(&owner)]).await;
        assert_eq!(renewed.woken, [owner.key.clone()]);
    }
    let handled = Commit {
        seen_seq: 3,
        header: Header {
            handled_through: 3,
            ..Header::default()
        },
        ..owner.next("x")
    };
    owner.make(handled).await.unwrap();
    let renewed = renew(subject, "one", vec![owned(&owner)]).await;
    assert!(renewed.woken.is_empty());
}

pub async fn a_released_session_is_claimable_at_once(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    subject.store.release(release(&owner)).await.unwrap();
    assert_eq!(owner.error(owner.next("x")).await, StoreError::Fenced);
    let next = subject.claim_one("two").await;
    assert_eq!(next.epoch, owner.epoch + 1);
}

pub async fn releasing_may_be_repeated(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    for _ in 0..3 {
        subject.store.release(release(&owner)).await.unwrap();
    }
    assert_eq!(subject.claimed("two").await, ["a"]);
}

pub async fn releasing_what_somebody_else_owns_is_fenced(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let stranger = Owner {
        owner: "two".to_owned(),
        ..owner.clone()
    };
    let fenced = Err(StoreError::Fenced);
    assert_eq!(subject.store.release(release(&stranger)).await, fenced);
    subject.outlive_leases().await;
    subject.claim_one("two").await;
    assert_eq!(subject.store.release(release(&owner)).await, fenced);
    assert_eq!(subject.claimed("three").await, [""; 0]);
    let unknown = Owner {
        key: key("unknown"),
        ..owner
    };
    let missing = subject.store.release(release(&unknown)).await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn a_session_may_be_given_back_for_later(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let later = ReleaseRequest {
        delay_ms: 3000,
        ..release(&owner)
    };
    subject.store.release(later).await.unwrap();
    subject.pass(1500).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    subject.pass(1501).await;
    let second = subject.claim_one("two").await;
    let later = ReleaseRequest {
        delay_ms: 3000,
        ..release(&second)
    };
    subject.store.release(later).await.unwrap();
    // A command is worth looking at in any case.
    subject.append(&owner.key, "wake").await;
    assert_eq!(subject.claimed("three").await, ["a"]);
}
