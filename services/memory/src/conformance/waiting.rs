//! Sessions that wait for what no resource has.

use super::copies::{completing, copy};
use super::leases::release;
use super::support::*;
use crate::port::{
    ClaimRequest, Commit, Create, End, Header, LeaseChange, Level, ReleaseRequest, SessionKey,
    StoreError, WaitingSession,
};
use futures::future::join_all;
use std::time::Duration;

/// Longer than the case takes: the claimer is woken, or the case hangs.
const LONG: Duration = Duration::from_secs(30);

fn needs(needs: &[&str]) -> Vec<String> {
    needs.iter().map(|&need| need.to_owned()).collect()
}

/// The next transition of the owner, which parks and names these needs.
fn parking(owner: &Owner, waits_for: &[&str]) -> Commit {
    Commit {
        header: Header {
            handled_through: owner.seen,
            waits_for: needs(waits_for),
            ..Header::default()
        },
        ..owner.parking(None)
    }
}

impl Owner {
    /// Parks with these needs. Answers when.
    async fn waits(&mut self, waits_for: &[&str]) -> i64 {
        let parked = self.make(parking(self, waits_for)).await.unwrap();
        assert!(!parked.owned());
        parked.now_unix_ms
    }

    /// The same without an event, as an owner that found nothing.
    async fn finds_nothing(&mut self, waits_for: &[&str]) {
        let commit = Commit {
            events: Vec::new(),
            ..parking(self, waits_for)
        };
        assert!(!self.make(commit).await.unwrap().owned());
    }
}

impl Subject {
    async fn waiting(&self, max: usize) -> Vec<WaitingSession> {
        self.store.waiting(max).await.unwrap()
    }

    /// Sessions that wait, with the time since when they do.
    async fn since(&self) -> Vec<(String, i64)> {
        let waiting = self.waiting(100).await.into_iter();
        waiting
            .map(|it| (it.key.session().to_owned(), it.since_unix_ms))
            .collect()
    }

    async fn waiting_ids(&self) -> Vec<String> {
        self.since().await.into_iter().map(|(id, _)| id).collect()
    }

    async fn wake(&self, key: &SessionKey) -> bool {
        self.store.wake(key).await.unwrap()
    }

    /// A session that waits, since when it does, and the owner that parked it.
    async fn waits(&self, id: &str, waits_for: &[&str]) -> (Owner, i64) {
        let mut owner = self.owned(id, "one").await;
        let since = owner.waits(waits_for).await;
        (owner, since)
    }
}

pub async fn sessions_that_wait_are_listed_the_longest_first(subject: &Subject) {
    let mut want = Vec::new();
    for (id, waits_for) in [
        ("b", &["gpu"][..]),
        ("c", &["gpu", "web_search>=5"]),
        ("a", &["tpu"]),
    ] {
        let (owner, since_unix_ms) = subject.waits(id, waits_for).await;
        want.push(WaitingSession {
            key: owner.key,
            since_unix_ms,
            waits_for: needs(waits_for),
        });
        subject.pass(5).await;
    }
    subject.waits("nothing", &[]).await;
    subject.parked("parked").await;
    assert_eq!(subject.waiting(100).await, want);
    assert_eq!(subject.waiting(2).await, want[..2]);
    assert_eq!(subject.waiting(0).await, []);
    let page = subject.store.read(&want[1].key, 0, 1).await.unwrap();
    assert_eq!(page.header.waits_for, want[1].waits_for);
}

pub async fn sessions_of_all_namespaces_are_listed(subject: &Subject) {
    for namespace in [SPACE, "elsewhere"] {
        let create = Create {
            header: Header {
                waits_for: needs(&[namespace]),
                ..Header::default()
            },
            ..creation(&SessionKey::new(namespace, "a"))
        };
        let made = subject.store.create(create).await.unwrap();
        let listed = subject.waiting(100).await.pop().unwrap();
        assert_eq!(listed.key.namespace(), namespace);
        assert_eq!(listed.since_unix_ms, made.now_unix_ms);
        assert_eq!(listed.waits_for, [namespace]);
        subject.pass(5).await;
    }
    assert_eq!(subject.waiting(100).await.len(), 2);
}

pub async fn a_session_waits_since_its_needs_became_these(subject: &Subject) {
    let (mut owner, first) = subject.waits("a", &["gpu"]).await;
    for round in 0..3 {
        subject.pass(10).await;
        assert!(subject.wake(&owner.key).await);
        owner = subject.claim_one("two").await;
        subject.pass(10).await;
        if round == 1 {
            // Also with progress, and over several transitions.
            let commit = Commit {
                lease: LeaseChange::Renew,
                ..parking(&owner, &["gpu"])
            };
            owner.make(commit).await.unwrap();
            owner.waits(&["gpu"]).await;
        } else {
            owner.finds_nothing(&["gpu"]).await;
        }
        assert_eq!(subject.since().await, [("a".to_owned(), first)]);
    }
    for waits_for in [&["gpu", "tpu"][..], &["tpu"]] {
        subject.wake(&owner.key).await;
        owner = subject.claim_one("two").await;
        subject.pass(10).await;
        let since = owner.waits(waits_for).await;
        assert!(since > first);
        assert_eq!(subject.since().await, [("a".to_owned(), since)]);
    }
    // It had what it waited for, and waits for the same once more.
    subject.wake(&owner.key).await;
    owner = subject.claim_one("two").await;
    owner.commit("found").await;
    subject.pass(10).await;
    let since = owner.waits(&["tpu"]).await;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
}

pub async fn a_repeated_commit_keeps_the_time_of_waiting(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let commit = parking(&owner, &["gpu"]);
    let first = subject.store.commit(commit.clone()).await.unwrap();
    subject.pass(10).await;
    let again = subject.store.commit(commit).await.unwrap();
    assert!(again.duplicate);
    assert_eq!(subject.since().await, [("a".to_owned(), first.now_unix_ms)]);
    let refused = Commit {
        version: 7,
        ..parking(&owner, &["tpu"])
    };
    subject.store.commit(refused).await.unwrap_err();
    assert_eq!(subject.waiting(1).await[0].waits_for, ["gpu"]);
}

pub async fn a_session_that_waits_is_woken_once(subject: &Subject) {
    let (owner, since) = subject.waits("a", &["gpu"]).await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let wakes = join_all((0..5).map(|_| subject.wake(&owner.key))).await;
    assert_eq!(wakes.into_iter().filter(|woken| *woken).count(), 1);
    assert_eq!(subject.waiting_ids().await, [""; 0], "it is queued");
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(1));
    let mut next = subject.claim_one("two").await;
    assert_eq!((next.epoch, next.version), (owner.epoch + 1, owner.version));
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(0));
    assert!(!subject.wake(&owner.key).await, "it has an owner");
    assert_eq!(owner.error(owner.next("late")).await, StoreError::Fenced);
    next.finds_nothing(&["gpu"]).await;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
    assert!(subject.wake(&owner.key).await);
}

pub async fn a_woken_session_has_the_place_of_a_command(subject: &Subject) {
    let mut keys = Vec::new();
    for id in ["late", "middle", "first"] {
        keys.push(subject.waits(id, &["gpu"]).await.0.key);
        subject.pass(5).await;
    }
    assert!(subject.wake(&keys[2]).await);
    subject.pass(5).await;
    subject.append(&keys[1], "c").await;
    subject.pass(5).await;
    assert!(subject.wake(&keys[0]).await);
    for want in ["first", "middle", "late"] {
        let request = ClaimRequest {
            max_sessions: 1,
            ..claim_request("two")
        };
        let claims = subject.store.claim(request).await.unwrap().claims;
        assert_eq!(claims[0].key.session(), want);
    }
}

pub async fn waking_brings_a_later_time_forward(subject: &Subject) {
    let now = subject.store.now().await.unwrap();
    let mut owner = subject.owned("a", "one").await;
    let later = Commit {
        lease: LeaseChange::Park {
            due_unix_ms: Some(now + 1_000_000),
        },
        ..parking(&owner, &["gpu"])
    };
    owner.make(later).await.unwrap();
    assert_eq!(subject.waiting_ids().await, ["a"]);
    assert!(subject.wake(&owner.key).await);
    assert!(!subject.wake(&owner.key).await);
    let next = subject.claim_one("two").await;
    // And so it is with one that was given back for later.
    let later = ReleaseRequest {
        delay_ms: 3000,
        ..release(&next)
    };
    subject.store.release(later).await.unwrap();
    assert_eq!(subject.claimed("three").await, [""; 0]);
    assert!(subject.wake(&owner.key).await);
    assert_eq!(subject.claimed("three").await, ["a"]);
}

pub async fn a_session_that_is_due_is_not_woken(subject: &Subject) {
    let now = subject.store.now().await.unwrap();
    let mut owner = subject.owned("a", "one").await;
    let soon = Commit {
        lease: LeaseChange::Park {
            due_unix_ms: Some(now + 500),
        },
        ..parking(&owner, &["gpu"])
    };
    owner.make(soon).await.unwrap();
    assert_eq!(subject.waiting_ids().await, ["a"]);
    subject.pass(500).await;
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    assert!(!subject.wake(&owner.key).await);
    let (b, _) = subject.waits("b", &["gpu"]).await;
    subject.append(&b.key, "c").await;
    assert!(!subject.wake(&b.key).await);
    assert_eq!(subject.waiting_ids().await, [""; 0]);
}

pub async fn a_session_with_an_owner_is_not_woken(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let works = Commit {
        lease: LeaseChange::Renew,
        ..parking(&owner, &["gpu"])
    };
    let since = owner.make(works).await.unwrap().now_unix_ms;
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    assert!(!subject.wake(&owner.key).await);
    // One whose lease has run out is claimed anyway.
    subject.outlive_leases().await;
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    assert!(!subject.wake(&owner.key).await);
    let mut next = subject.claim_one("two").await;
    // A command that nobody has handled keeps the lease.
    subject.append(&next.key, "c").await;
    let kept = next.make(parking(&next, &["gpu"])).await.unwrap();
    assert!(kept.owned());
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    next.finds_nothing(&["gpu"]).await;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
}

pub async fn a_session_that_waits_for_nothing_is_not_woken(subject: &Subject) {
    let parked = subject.parked("parked").await;
    assert!(!subject.wake(&parked).await);
    let (mut owner, _) = subject.waits("a", &["gpu"]).await;
    subject.wake(&owner.key).await;
    owner = subject.claim_one("two").await;
    owner.waits(&[]).await;
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    assert!(!subject.wake(&owner.key).await);
    assert_eq!(subject.claimed("three").await, [""; 0]);
    let unknown = subject.store.wake(&key("unknown")).await;
    assert_eq!(unknown, Err(StoreError::NotFound));
}

pub async fn a_deleted_session_is_not_woken(subject: &Subject) {
    let (a, _) = subject.waits("a", &["gpu"]).await;
    let (b, since) = subject.waits("b", &["gpu"]).await;
    subject.store.delete(&a.key).await.unwrap();
    assert_eq!(subject.since().await, [("b".to_owned(), since)]);
    let gone = Err(StoreError::Terminal(End::Deleted));
    assert_eq!(subject.store.wake(&a.key).await, gone);
    subject.wake(&b.key).await;
    subject.store.delete(&b.key).await.unwrap();
    assert_eq!(subject.claimed("two").await, [""; 0]);
    assert_eq!(subject.waiting_ids().await, [""; 0]);
}

pub async fn a_session_set_aside_is_not_woken(subject: &Subject) {
    let (owner, since) = subject.waits("a", &["gpu"]).await;
    subject.store.quarantine(&owner.key, None).await.unwrap();
    assert_eq!(subject.waiting_ids().await, [""; 0]);
    assert!(!subject.wake(&owner.key).await);
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let released = subject.store.release_quarantine(&owner.key, true).await;
    released.unwrap();
    assert!(!subject.wake(&owner.key).await, "its release queued it");
    let mut next = subject.claim_one("two").await;
    next.finds_nothing(&["gpu"]).await;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
}

pub async fn claims_that_find_nothing_set_no_session_aside(subject: &Subject) {
    let (owner, since) = subject.waits("a", &["gpu"]).await;
    for round in 0..12 {
        assert!(subject.wake(&owner.key).await);
        let mut next = subject.claim_one("two").await;
        next.renew().await;
        if round % 2 == 0 {
            // A transition that is marked so is none either.
            let commit = Commit {
                lease: LeaseChange::Renew,
                no_progress: true,
                ..parking(&next, &["gpu"])
            };
            next.make(commit).await.unwrap();
        }
        next.finds_nothing(&["gpu"]).await;
        assert_eq!(subject.since().await, [("a".to_owned(), since)]);
    }
    // Those of owners that die still count.
    assert!(subject.wake(&owner.key).await);
    for _ in 0..5 {
        subject.claim_one("mortal").await.renew().await;
        subject.outlive_leases().await;
    }
    assert_eq!(subject.claimed("mortal").await, [""; 0]);
    let page = subject.store.read(&owner.key, 0, 1).await.unwrap();
    assert!(page.quarantined.is_some());
}

pub async fn a_copy_waits_for_what_its_own_notes_name(subject: &Subject) {
    let (owner, since) = subject.waits("source", &["gpu"]).await;
    subject.pass(10).await;
    let (child, _) = subject.child(&owner.key, "child", 0).await;
    assert_eq!(subject.since().await, [("source".to_owned(), since)]);
    assert!(!subject.wake(&child).await);
    let copy = copy(&owner.key, &key("waits"), 0);
    subject.copy_all(&copy).await.unwrap();
    let mut last = completing(&copy, "forked");
    if let Some(completion) = &mut last.completion {
        completion.header.waits_for = needs(&["tpu"]);
    }
    let made = subject.store.copy_events(last).await.unwrap().now_unix_ms;
    let want = [("source".to_owned(), since), ("waits".to_owned(), made)];
    assert_eq!(subject.since().await, want);
    assert!(subject.wake(&key("waits")).await);
    let page = subject.store.read(&child, 0, 1).await.unwrap();
    assert_eq!(page.header.waits_for, [""; 0]);
    // The owner of the child says what it waits for.
    subject.append(&child, "c").await;
    let claims = subject.claims("two").await.claims;
    let claim = claims.iter().find(|claim| claim.key == child);
    let mut heir = subject.owner_of(claim.unwrap(), "two").await;
    heir.waits(&["gpu"]).await;
    assert_eq!(subject.waiting_ids().await, ["source", "child"]);
}

/// Those in front have owners, and all are in as many partitions as a store has.
pub async fn sessions_with_owners_hide_none_that_waits(subject: &Subject) {
    let create = async |create: Create| {
        let create = Create {
            header: Header {
                waits_for: needs(&["gpu"]),
                ..Header::default()
            },
            ..create
        };
        subject.store.create(create).await.unwrap();
    };
    for group in 0..30 {
        let owned = (0..50).map(|number| key(format!("owned-{group}-{number}")));
        join_all(owned.map(|key| create(creation_by(&key, "one")))).await;
    }
    let mut want = Vec::new();
    for number in 0..30 {
        subject.pass(1).await;
        let parked = format!("parked-{number}");
        create(creation(&key(&parked))).await;
        want.push(parked);
    }
    assert_eq!(subject.waiting_ids().await, want);
    let few = subject.waiting(3).await;
    let few: Vec<_> = few.iter().map(|it| it.key.session()).collect();
    assert_eq!(few, want[..3]);
}

/// More of them wait than are looked at together, all in one partition of a store that has some.
pub async fn many_sessions_of_one_partition_wait_in_their_order(subject: &Subject) {
    let keys = neighbours(SPACE, 40);
    let mut want = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let create = Create {
            header: Header {
                waits_for: needs(&["gpu"]),
                ..Header::default()
            },
            ..creation(key)
        };
        subject.store.create(create).await.unwrap();
        if number % 4 == 0 {
            assert!(subject.wake(key).await);
        } else {
            want.push(key.session().to_owned());
        }
        // Several begin at one time.
        if number % 2 == 0 {
            subject.pass(1).await;
        }
    }
    let since = subject.since().await;
    assert!(since.is_sorted_by_key(|(_, since)| *since));
    let mut listed: Vec<_> = since.into_iter().map(|(id, _)| id).collect();
    listed.sort_unstable();
    want.sort_unstable();
    assert_eq!(listed, want);
    for max in [1, 7, 29] {
        assert_eq!(subject.waiting(max).await.len(), max);
    }
}

pub async fn a_woken_session_above_the_level_stays(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let mut commit = parking(&owner, &["gpu"]);
    let level = Level::of_number(2).unwrap();
    commit.header.needs = level;
    let since = owner.make(commit).await.unwrap().now_unix_ms;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
    assert!(subject.wake(&owner.key).await);
    // Before and after a claimer has met it.
    for _ in 0..2 {
        assert_eq!(subject.claimed("low").await, [""; 0]);
        assert!(!subject.wake(&owner.key).await);
        assert_eq!(subject.waiting_ids().await, [""; 0]);
    }
    let high = ClaimRequest {
        level,
        ..claim_request("high")
    };
    let claims = subject.store.claim(high).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    let mut next = subject.owner_of(&claims[0], "high").await;
    next.finds_nothing(&["gpu"]).await;
    assert_eq!(subject.since().await, [("a".to_owned(), since)]);
}

pub async fn a_waiting_claimer_gets_a_woken_session(subject: &Subject) {
    let (owner, _) = subject.waits("a", &["gpu"]).await;
    let waits = ClaimRequest {
        wait: LONG,
        ..claim_request("two")
    };
    let event = async {
        // Goes through the same store after the first look.
        subject.claims("somebody").await;
        subject.wake(&owner.key).await
    };
    let (claims, woken) = tokio::join!(subject.store.claim(waits), event);
    assert!(woken);
    assert_eq!(claims.unwrap().claims[0].key, owner.key);
}
