//! Sessions that need a reader of a higher level than some of the claimers have.

use super::copies::{completing, copy, source};
use super::leases::release;
use super::support::*;
use super::taking::taking;
use crate::port::{
    AppendCommand, Appended, ClaimRequest, Claims, Create, End, Header, Level, ListQuery,
    ReleaseRequest, SessionKey, StoreError,
};
use futures::future::join_all;
use std::time::Duration;

/// Longer than the case takes: the claimer is woken, or the case hangs.
const LONG: Duration = Duration::from_secs(30);

fn level(number: u32) -> Level {
    Level::of_number(number).unwrap()
}

fn request_at(owner: &str, at: u32) -> ClaimRequest {
    ClaimRequest {
        level: level(at),
        ..claim_request(owner)
    }
}

fn ids(claims: &Claims) -> Vec<String> {
    let claims = claims.claims.iter();
    claims.map(|it| it.key.session().to_owned()).collect()
}

fn header(needs: u32) -> Header {
    Header {
        needs: level(needs),
        ..Header::default()
    }
}

impl Subject {
    /// What a claimer of this level can claim now, by id; it is claimed by this.
    async fn claimed_at(&self, owner: &str, at: u32) -> Vec<String> {
        let mut claimed = ids(&self.store.claim(request_at(owner, at)).await.unwrap());
        claimed.sort_unstable();
        claimed
    }

    /// The owner after a claim of the one session that a claimer of this level can claim.
    async fn claim_one_at(&self, owner: &str, at: u32) -> Owner {
        let claims = self.store.claim(request_at(owner, at)).await.unwrap();
        let [claim] = &claims.claims[..] else {
            panic!("one session can be claimed, not {claims:?}");
        };
        self.owner_of(claim, owner).await
    }

    async fn append_needing(&self, key: &SessionKey, id: &str, needs: u32) -> Appended {
        let command = AppendCommand {
            needs: level(needs),
            ..command(key, id)
        };
        self.store.append_command(command).await.unwrap()
    }

    async fn needs(&self, key: &SessionKey) -> u16 {
        let page = self.store.read(key, u64::MAX, 1).await.unwrap();
        page.header.needs.number()
    }

    /// Makes a queued copy of the session's first two events; answers what it needs.
    async fn child_needing(&self, source: &SessionKey, id: &str, needs: u32) -> u16 {
        let copy = copy(source, &key(id), 2);
        self.copy_all(&copy).await.unwrap();
        let mut last = completing(&copy, "forked");
        if let Some(completion) = &mut last.completion {
            completion.header = header(needs);
            completion.due_unix_ms = Some(1);
        }
        self.store.copy_events(last).await.unwrap();
        self.needs(&key(id)).await
    }

    async fn is_quarantined(&self, key: &SessionKey) -> bool {
        let page = self.store.read(key, u64::MAX, 1).await.unwrap();
        page.quarantined.is_some()
    }

    /// A queued session that needs this level.
    async fn waiting_for(&self, id: &str, needs: u32) -> SessionKey {
        let key = key(id);
        let create = Create {
            last_command_seq: 2,
            header: header(needs),
            ..creation(&key)
        };
        self.store.create(create).await.unwrap();
        key
    }
}

pub async fn a_session_is_claimed_at_its_level_and_above(subject: &Subject) {
    for (id, needs) in [("one", 0), ("two", 2), ("three", 3)] {
        subject.waiting_for(id, needs).await;
    }
    assert_eq!(subject.claimed_at("low", 0).await, ["one"]);
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(subject.claimed_at("middle", 2).await, ["two"]);
    assert_eq!(subject.claimed_at("middle", 2).await, [""; 0]);
    assert_eq!(subject.claimed_at("high", 4).await, ["three"]);
    // And so it is with leases that run out.
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, ["one"]);
    assert_eq!(subject.claimed_at("high", 3).await, ["three", "two"]);
    assert_eq!(subject.claimed_at("high", 3).await, [""; 0]);
}

pub async fn one_session_above_the_level_is_not_given_by_its_name(subject: &Subject) {
    let only = |at| ClaimRequest {
        only: Some(key("a")),
        ..request_at("one", at)
    };
    let a = subject.waiting_for("a", 2).await;
    let waits = ClaimRequest {
        wait: Duration::from_millis(20),
        ..only(1)
    };
    for request in [only(1), waits] {
        let claims = subject.store.claim(request).await.unwrap();
        assert_eq!(claims.claims, []);
    }
    assert_eq!(ids(&subject.store.claim(only(2)).await.unwrap()), ["a"]);
    subject.outlive_leases().await;
    assert_eq!(subject.store.claim(only(1)).await.unwrap().claims, []);
    assert_eq!(ids(&subject.store.claim(only(2)).await.unwrap()), ["a"]);
    subject.store.delete(&a).await.unwrap();
    let ended = Err(StoreError::Terminal(End::Deleted));
    assert_eq!(subject.store.claim(only(1)).await, ended);
}

pub async fn a_command_raises_what_its_session_needs(subject: &Subject) {
    let a = subject.parked("a").await;
    assert_eq!(subject.needs(&a).await, 1);
    subject.append_needing(&a, "c", 2).await;
    assert_eq!(subject.needs(&a).await, 2);
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    // It rises while it waits for another level, too.
    subject.append_needing(&a, "d", 3).await;
    assert_eq!(subject.claimed_at("middle", 2).await, [""; 0]);
    // A repeat is answered as before, and raises nothing.
    let repeat = subject.append_needing(&a, "d", 9).await;
    assert_eq!((repeat.duplicate, repeat.seq), (true, 4));
    subject.append_needing(&a, "e", 1).await;
    assert_eq!(subject.needs(&a).await, 3);
    assert_eq!(subject.claimed_at("high", 3).await, ["a"]);
}

pub async fn a_command_above_the_level_takes_no_lease(subject: &Subject) {
    let a = subject.parked("a").await;
    let takes = async |id: &str, needs, at| {
        let command = AppendCommand {
            needs: level(needs),
            level: level(at),
            ..taking(&a, id, "one")
        };
        subject.store.append_command(command).await.unwrap()
    };
    let appended = takes("c", 2, 1).await;
    assert_eq!((appended.seq, appended.taken), (3, None));
    // Nor does one that the caller can read, in a session that it cannot.
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(takes("d", 1, 1).await.taken, None);
    let taken = takes("e", 1, 2).await.taken;
    assert!(taken.is_some(), "no lease runs");
    assert_eq!(
        takes("e", 1, 2).await.taken,
        taken,
        "nothing is taken twice"
    );
    assert_eq!(
        subject.claimed_at("high", 3).await,
        [""; 0],
        "it is in no queue"
    );
    subject.outlive_leases().await;
    assert_eq!(takes("f", 3, 2).await.taken, None);
    assert_eq!(subject.claimed_at("high", 3).await, ["a"]);
}

pub async fn nothing_lowers_what_a_session_needs(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for (needs, want) in [(2, 2), (1, 2), (3, 3), (0, 3)] {
        let mut commit = owner.next("x");
        commit.header = header(needs);
        owner.make(commit).await.unwrap();
        assert_eq!(subject.needs(&owner.key).await, want);
    }
    // What was appended since the owner looked counts as well.
    subject.append_needing(&owner.key, "c", 4).await;
    let mut commit = owner.next("y");
    commit.header = header(2);
    owner.make(commit).await.unwrap();
    assert_eq!(subject.needs(&owner.key).await, 4);
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("two", 3).await, [""; 0]);
    assert_eq!(subject.claimed_at("two", 4).await, ["a"]);
}

pub async fn a_copy_needs_what_its_source_needs(subject: &Subject) {
    let mut owner = source(subject).await;
    let mut commit = owner.next("x");
    assert_eq!(subject.child_needing(&owner.key, "low", 0).await, 1);
    assert_eq!(subject.child_needing(&owner.key, "high", 3).await, 3);
    commit.header = header(2);
    owner.make(commit).await.unwrap();
    let raised = subject.child_needing(&owner.key, "raised", 0).await;
    assert_eq!(
        raised, 2,
        "though the event that raised it is behind the cut"
    );
    let higher = subject.child_needing(&owner.key, "higher", 3).await;
    assert_eq!(higher, 3);
    assert_eq!(subject.claimed_at("two", 1).await, ["low"]);
    assert_eq!(subject.claimed_at("two", 2).await, ["raised"]);
    assert_eq!(subject.claimed_at("two", 3).await, ["high", "higher"]);
}

pub async fn what_a_session_needs_is_listed(subject: &Subject) {
    subject.waiting_for("a", 2).await;
    let b = subject.parked("b").await;
    let listed = async || {
        let page = subject.store.list(SPACE, &ListQuery::newest(10)).await;
        let entries = page.unwrap().sessions.into_iter();
        let needs = entries.map(|entry| (entry.session, entry.needs.number()));
        needs.collect::<Vec<_>>()
    };
    let want = |b: u16| vec![("b".to_owned(), b), ("a".to_owned(), 2)];
    assert_eq!(listed().await, want(1));
    subject.append_needing(&b, "c", 3).await;
    assert_eq!(listed().await, want(3));
}

/// More of them wait than one look takes in, all in one partition of a store that has some.
pub async fn sessions_above_the_level_keep_no_other_waiting(subject: &Subject) {
    let keys = neighbours(SPACE, 262);
    let (readable, above) = keys.split_at(2);
    let create = async |key: &SessionKey, needs| {
        let create = Create {
            last_command_seq: 2,
            header: header(needs),
            ..creation(key)
        };
        subject.store.create(create).await.unwrap();
    };
    join_all(above.iter().map(|key| create(key, 2))).await;
    // And one whose lease ran out.
    let mut owner = subject.owned("expired", "one").await;
    let mut commit = owner.next("x");
    commit.header = header(2);
    owner.make(commit).await.unwrap();
    subject.outlive_leases().await;
    for key in readable {
        create(key, 1).await;
        let request = ClaimRequest {
            max_sessions: 1,
            ..request_at("low", 1)
        };
        let claims = subject.store.claim(request).await.unwrap();
        assert_eq!(ids(&claims), [key.session()]);
    }
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    let all = ClaimRequest {
        max_sessions: 300,
        ..request_at("high", 2)
    };
    let claims = subject.store.claim(all).await.unwrap().claims;
    assert_eq!(claims.len(), above.len() + 1);
}

pub async fn no_claim_counts_of_a_session_above_the_level(subject: &Subject) {
    let a = subject.waiting_for("a", 2).await;
    for _ in 0..7 {
        assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    }
    for epoch in 1..=5 {
        let owner = subject.claim_one_at("high", 2).await;
        assert_eq!(owner.epoch, epoch, "only what is given is counted");
        owner.renew().await;
        subject.outlive_leases().await;
    }
    // The next claim sets it aside, and only one that could have it.
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert!(!subject.is_quarantined(&a).await);
    assert_eq!(subject.claimed_at("high", 2).await, [""; 0]);
    assert!(subject.is_quarantined(&a).await);
    subject.store.release_quarantine(&a, false).await.unwrap();
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(subject.claimed_at("high", 2).await, ["a"]);
}

pub async fn an_owner_keeps_a_session_that_rises_above_its_level(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append_needing(&owner.key, "c", 2).await;
    owner.renew().await;
    owner.commit("x").await;
    assert_eq!(subject.claimed_at("two", 2).await, [""; 0]);
    // Its lease may even run out, and a claimer come that cannot have the session.
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    owner.renew().await;
    assert_eq!(subject.claimed_at("two", 2).await, [""; 0]);
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    owner.commit("y").await;
    assert_eq!(subject.claimed_at("two", 2).await, [""; 0]);
    // It ends without being given back.
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    let next = subject.claim_one_at("two", 2).await;
    assert_eq!(next.epoch, owner.epoch + 1);
    assert_eq!(owner.error(owner.next("late")).await, StoreError::Fenced);
}

pub async fn a_session_given_back_waits_for_a_higher_level(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.append_needing(&owner.key, "c", 2).await;
    let parked = owner.park(None).await;
    assert!(parked.owned(), "nobody has handled the command");
    // Also if another claimer has met it meanwhile, it is given back for later.
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    let later = ReleaseRequest {
        delay_ms: 500,
        ..release(&owner)
    };
    subject.store.release(later).await.unwrap();
    assert_eq!(subject.claimed_at("two", 2).await, [""; 0]);
    subject.pass(501).await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    let mut next = subject.claim_one_at("two", 2).await;
    // And so it is when it parks.
    subject.outlive_leases().await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    let now = subject.store.now().await.unwrap();
    let mut parking = next.parking(Some(now + 500));
    parking.header.handled_through = next.seen;
    assert!(!next.make(parking).await.unwrap().owned());
    assert_eq!(subject.claimed_at("three", 2).await, [""; 0]);
    subject.pass(501).await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(subject.claimed_at("three", 2).await, ["a"]);
}

pub async fn a_waiting_claimer_of_a_higher_level_gets_the_session(subject: &Subject) {
    let a = subject.parked("a").await;
    let waits = ClaimRequest {
        wait: LONG,
        ..request_at("high", 2)
    };
    let event = async {
        // Goes through the same store after the first look.
        subject.claims("somebody").await;
        subject.append_needing(&a, "c", 2).await;
        subject.claimed_at("low", 1).await
    };
    let (claims, low) = tokio::join!(subject.store.claim(waits), event);
    assert_eq!((ids(&claims.unwrap()), low), (vec!["a".to_owned()], vec![]));
    // One who asks later gets at once what another could not have.
    let b = subject.parked("b").await;
    subject.append_needing(&b, "c", 2).await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(subject.claimed_at("high", 2).await, ["b"]);
}

pub async fn what_can_be_claimed_is_counted_by_level(subject: &Subject) {
    let queued = async |at| subject.store.queued(level(at)).await.unwrap();
    let mut owner = subject.owned("expired", "one").await;
    let mut commit = owner.next("x");
    commit.header = header(2);
    owner.make(commit).await.unwrap();
    subject.waiting_for("due", 3).await;
    subject.outlive_leases().await;
    assert_eq!(queued(3).await, 2);
    // A shared store knows it once a claimer of too low a level has met them.
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(
        [queued(1).await, queued(2).await, queued(3).await],
        [0, 1, 2]
    );
    subject.waiting_for("readable", 1).await;
    assert_eq!(
        [queued(1).await, queued(2).await, queued(3).await],
        [1, 2, 3]
    );
    assert_eq!(subject.claimed_at("high", 3).await.len(), 3);
    assert_eq!(queued(3).await, 0);
}

pub async fn a_session_that_waits_for_a_higher_level_does_not_go(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let now = subject.store.now().await.unwrap();
    let mut parking = owner.parking(Some(now));
    parking.header = header(2);
    owner.make(parking).await.unwrap();
    subject.pass(1000).await;
    assert_eq!(subject.claimed_at("low", 1).await, [""; 0]);
    assert_eq!(subject.idle(Some(0)).await, [""; 0]);
    let (a, end) = (&owner.key, End::Expired);
    let gone = subject.store.delete_unchanged(a, owner.seen, end).await;
    assert_eq!(gone, Ok(false));
    subject.store.delete(a).await.unwrap();
    assert_eq!(subject.claimed_at("high", 2).await, [""; 0]);
}
