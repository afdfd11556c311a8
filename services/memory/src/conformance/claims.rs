//! Claiming sessions, and being told of commands.

use super::support::*;
use crate::port::{
    ClaimRequest, Claims, Commit, Create, End, Header, Level, ReleaseRequest, StoreError,
};
use std::collections::HashSet;
use std::time::Duration;

/// Longer than any case takes: whoever waits is woken, or the case hangs.
const LONG: Duration = Duration::from_secs(30);

fn waiting(owner: &str) -> ClaimRequest {
    ClaimRequest {
        wait: LONG,
        ..claim_request(owner)
    }
}

fn woken(claims: &Claims) -> Vec<&str> {
    claims.woken.iter().map(|key| key.session()).collect()
}

/// Starts to wait, and continues as soon as the claimer has had time to look once.
async fn while_waiting<T>(
    subject: &Subject,
    owner: &str,
    event: impl Future<Output = T>,
) -> (Claims, T) {
    let claim = subject.store.claim(waiting(owner));
    let event = async {
        // A claim of somebody else goes through the same store after the first look.
        subject.claims("somebody").await;
        event.await
    };
    let (claims, value) = tokio::join!(claim, event);
    (claims.unwrap(), value)
}

pub async fn a_running_lease_is_not_claimed(subject: &Subject) {
    subject.owned("a", "one").await;
    subject.pass(600).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert_eq!(subject.claimed("one").await, [""; 0]);
}

pub async fn an_expired_lease_is_claimed_with_a_higher_epoch(subject: &Subject) {
    subject.owned("a", "one").await;
    subject.outlive_leases().await;
    let claims = subject.claims("two").await;
    let [claim] = &claims.claims[..] else {
        panic!("{claims:?}");
    };
    assert_eq!(claim.key, key("a"));
    assert_eq!(claim.lease.epoch, 2);
    let until = claims.now_unix_ms + i64::from(LEASE);
    assert_eq!(claim.lease.until_unix_ms, until);
    subject.outlive_leases().await;
    assert_eq!(subject.claim_one("one").await.epoch, 3);
}

pub async fn a_queued_session_is_claimed_when_due(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let now = subject.store.now().await.unwrap();
    owner.park(Some(now - 1)).await;
    let next = subject.claim_one("two").await;
    assert_eq!((next.epoch, next.version, next.seen), (2, 1, 3));
    assert_eq!(subject.claimed("three").await, [""; 0]);
}

pub async fn no_more_is_claimed_than_asked_for(subject: &Subject) {
    for number in 0..5 {
        subject.owned(number, "one").await;
    }
    for number in 5..10 {
        let key = subject.parked(number).await;
        subject.append(&key, "wake").await;
    }
    subject.outlive_leases().await;
    let mut claimed = HashSet::new();
    for want in [3, 3, 3, 1, 0] {
        let request = ClaimRequest {
            max_sessions: 3,
            ..claim_request("two")
        };
        let claims = subject.store.claim(request).await.unwrap().claims;
        assert_eq!(claims.len(), want);
        claimed.extend(claims.into_iter().map(|claim| claim.key));
    }
    assert_eq!(claimed.len(), 10);
}

pub async fn what_is_due_first_is_claimed_first(subject: &Subject) {
    let now = subject.store.now().await.unwrap();
    for (id, due) in [("late", 300), ("first", 100), ("middle", 200)] {
        let mut owner = subject.owned(id, "one").await;
        owner.park(Some(now + due)).await;
    }
    subject.pass(301).await;
    for want in ["first", "middle", "late"] {
        let request = ClaimRequest {
            max_sessions: 1,
            ..claim_request("two")
        };
        let claims = subject.store.claim(request).await.unwrap().claims;
        assert_eq!(claims[0].key.session(), want);
    }
}

/// Queues a session of each of the ids, all in one partition of a store that has some.
async fn queue(subject: &Subject, namespace: &str, count: usize) {
    let keys = neighbours(namespace, count);
    let creations = keys.iter().map(|key| {
        subject.store.create(Create {
            last_command_seq: 2,
            ..creation(key)
        })
    });
    for created in futures::future::join_all(creations).await {
        created.unwrap();
    }
    subject.pass(5).await;
}

/// Whoever asks for eight gets the four of the small tenants, though they were queued last.
pub async fn a_tenant_that_queues_much_keeps_no_other_waiting(subject: &Subject) {
    queue(subject, "large", 200).await;
    queue(subject, "small", 2).await;
    queue(subject, "third", 2).await;
    let request = ClaimRequest {
        max_sessions: 8,
        ..claim_request("one")
    };
    let claims = subject.store.claim(request).await.unwrap().claims;
    let of = |namespace: &str| {
        let claims = claims.iter();
        claims.filter(|it| it.key.namespace() == namespace).count()
    };
    assert_eq!([of("large"), of("small"), of("third")], [4, 2, 2]);
}

pub async fn turns_go_on_from_claim_to_claim(subject: &Subject) {
    queue(subject, "large", 20).await;
    queue(subject, "small", 2).await;
    // Whoever has room for one at a time is as fair.
    let mut namespaces = Vec::new();
    for _ in 0..5 {
        let request = ClaimRequest {
            max_sessions: 1,
            ..claim_request("one")
        };
        let claims = subject.store.claim(request).await.unwrap().claims;
        namespaces.extend(claims.into_iter().map(|it| it.key.namespace().to_owned()));
    }
    assert_eq!(namespaces, ["large", "small", "large", "small", "large"]);
}

pub async fn who_wants_no_session_is_told_of_its_own(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let other = subject.parked("b").await;
    subject.append(&other, "wake").await;
    let full = ClaimRequest {
        max_sessions: 0,
        ..waiting("one")
    };
    let event = async {
        subject.claims("somebody").await;
        subject.append(&owner.key, "c").await
    };
    let (claims, _) = tokio::join!(subject.store.claim(full), event);
    let claims = claims.unwrap();
    assert!(claims.claims.is_empty(), "{claims:?}");
    assert_eq!(woken(&claims), ["a"]);
}

pub async fn what_can_be_claimed_is_counted(subject: &Subject) {
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(0));
    subject.owned("expired", "one").await;
    let key = subject.parked("due").await;
    subject.append(&key, "wake").await;
    subject.parked("asleep").await;
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(1));
    subject.outlive_leases().await;
    subject.owned("owned", "one").await;
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(2));
    subject.claims("two").await;
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(0));
}

pub async fn one_session_can_be_claimed_and_no_other(subject: &Subject) {
    let only = |session: &str| ClaimRequest {
        max_sessions: 10,
        only: Some(key(session)),
        ..claim_request("one")
    };
    for session in ["a", "b", "c"] {
        let key = subject.parked(session).await;
        subject.append(&key, "wake").await;
    }
    subject.parked("idle").await;
    let claims = subject.store.claim(only("b")).await.unwrap().claims;
    assert_eq!((claims.len(), &claims[0].key), (1, &key("b")));
    // Neither one that is owned, nor one that is not there, nor one that needs no owner.
    for session in ["b", "nowhere", "idle"] {
        let claims = subject.store.claim(only(session)).await.unwrap();
        assert_eq!(claims.claims, [], "{session}");
    }
    // One whose lease has run out.
    subject.outlive_leases().await;
    let claims = subject.store.claim(only("b")).await.unwrap().claims;
    assert_eq!((claims.len(), claims[0].lease.epoch), (1, 2));
    // The others are there for whoever asks for any.
    let mut others = subject.claimed("two").await;
    others.sort_unstable();
    assert_eq!(others, ["a", "c"]);
}

pub async fn one_session_is_waited_for(subject: &Subject) {
    subject.parked("a").await;
    subject.parked("b").await;
    let waits = ClaimRequest {
        only: Some(key("b")),
        ..waiting("one")
    };
    let claim = subject.store.claim(waits);
    let commands = async {
        subject.claims("somebody").await;
        subject.append(&key("a"), "c").await;
        subject.append(&key("b"), "c").await;
    };
    let (claims, ()) = tokio::join!(claim, commands);
    let keys: Vec<_> = claims
        .unwrap()
        .claims
        .into_iter()
        .map(|it| it.key)
        .collect();
    assert_eq!(keys, [key("b")]);
}

pub async fn a_claim_of_a_session_that_ended_says_so(subject: &Subject) {
    let only = |session: &str| ClaimRequest {
        only: Some(key(session)),
        ..waiting("one")
    };
    subject.parked("deleted").await;
    assert_eq!(subject.store.delete(&key("deleted")).await, Ok(true));
    let ended = Err(StoreError::Terminal(End::Deleted));
    assert_eq!(subject.store.claim(only("deleted")).await, ended);
    // Also if it ends while it is waited for.
    subject.owned("waited", "two").await;
    let deletion = async {
        subject.claims("somebody").await;
        subject.store.delete(&key("waited")).await
    };
    let (claimed, deleted) = tokio::join!(subject.store.claim(only("waited")), deletion);
    assert_eq!((claimed, deleted), (ended, Ok(true)));
}

pub async fn concurrent_claimers_never_get_the_same_session(subject: &Subject) {
    for number in 0..40 {
        let key = subject.parked(number).await;
        subject.append(&key, "wake").await;
    }
    let names: Vec<_> = (0..8).map(|number| format!("owner-{number}")).collect();
    let claims = names.iter().map(|name| subject.claimed(name));
    let claimed: Vec<_> = futures::future::join_all(claims).await.concat();
    assert_eq!(claimed.len(), 40);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 40);
}

pub async fn a_waiting_claimer_gets_a_new_command(subject: &Subject) {
    let key = subject.parked("a").await;
    let event = async { subject.append(&key, "wake").await };
    let (claims, _) = while_waiting(subject, "one", event).await;
    assert_eq!(claims.claims[0].key, key);
}

pub async fn a_waiting_claimer_gets_a_released_session(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let release = ReleaseRequest {
        key: owner.key.clone(),
        owner: owner.owner.clone(),
        epoch: owner.epoch,
        delay_ms: 0,
    };
    let event = subject.store.release(release);
    let (claims, released) = while_waiting(subject, "two", event).await;
    released.unwrap();
    assert_eq!(claims.claims[0].key, owner.key);
}

pub async fn a_waiting_owner_is_told_of_a_command(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let event = async { subject.append(&owner.key, "c").await };
    let (claims, _) = while_waiting(subject, "one", event).await;
    assert!(claims.claims.is_empty());
    assert_eq!(woken(&claims), ["a"]);
}

pub async fn an_owner_is_told_of_a_command_that_came_before_it_asked(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c1").await;
    subject.append(&owner.key, "c2").await;
    assert_eq!(woken(&subject.claims("one").await), ["a"]);
}

pub async fn an_owner_is_not_told_of_handled_commands(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    let handled = Commit {
        seen_seq: 3,
        header: Header {
            handled_through: 3,
            ..Header::default()
        },
        ..owner.next("x")
    };
    owner.make(handled).await.unwrap();
    assert!(woken(&subject.claims("one").await).is_empty());
}

pub async fn only_the_owner_is_told_of_a_command(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    subject.append(&owner.key, "c").await;
    let claims = subject.claims("two").await;
    assert!(claims.claims.is_empty() && claims.woken.is_empty());
    subject.outlive_leases().await;
    subject.claim_one("two").await;
    assert!(woken(&subject.claims("one").await).is_empty());
}

pub async fn a_claim_without_waiting_comes_back_with_nothing(subject: &Subject) {
    subject.owned("a", "one").await;
    let claims = subject.claims("two").await;
    assert!(claims.claims.is_empty() && claims.woken.is_empty());
    assert!(claims.now_unix_ms > 0);
}

pub async fn a_claim_tells_nothing_about_the_dead_by_itself(subject: &Subject) {
    subject.owned("a", "one").await;
    subject.outlive_leases().await;
    let claims = subject.claims("two").await.claims;
    assert!(!claims[0].previous_holder_dead);
}
