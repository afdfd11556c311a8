//! Leases that are taken with a command.

use super::support::*;
use crate::port::{AppendCommand, Appended, Claim, LeaseRequest, Level, SessionKey, StoreError};
use futures::future::join_all;

/// A command by which `owner` takes the lease if none runs.
pub(super) fn taking(session: &SessionKey, id: &str, owner: &str) -> AppendCommand {
    AppendCommand {
        lease: Some(LeaseRequest {
            owner: owner.to_owned(),
            lease_ms: LEASE,
        }),
        operation_id: format!("{owner}-{id}"),
        ..command(session, id)
    }
}

impl Subject {
    async fn takes(&self, id: &str, owner: &str) -> Appended {
        self.store
            .append_command(taking(&key("a"), id, owner))
            .await
            .unwrap()
    }

    /// The owner after its command took the lease.
    async fn taker(&self, id: &str, owner: &str) -> Owner {
        let taken = self.takes(id, owner).await.taken.expect("no lease runs");
        let claim = Claim {
            key: key("a"),
            lease: taken.lease,
            previous_holder_dead: taken.previous_holder_dead,
        };
        self.owner_of(&claim, owner).await
    }
}

pub async fn a_command_takes_the_lease_where_none_runs(subject: &Subject) {
    subject.parked("a").await;
    let appended = subject.takes("c", "one").await;
    assert_eq!(
        (appended.duplicate, appended.seq, appended.quarantined),
        (false, 3, false)
    );
    let taken = appended.taken.expect("no lease runs");
    assert_eq!((taken.lease.epoch, taken.previous_holder_dead), (1, false));
    let lease = taken.lease.until_unix_ms - appended.now_unix_ms;
    assert_eq!(lease, i64::from(LEASE));
    assert_eq!(subject.store.queued(Level::FIRST).await, Ok(0));
    assert!(subject.claimed("two").await.is_empty(), "it is in no queue");
    let claims = subject.claims("one").await;
    assert_eq!((claims.claims, claims.woken), (vec![], vec![]));

    let claim = Claim {
        key: key("a"),
        lease: taken.lease,
        previous_holder_dead: false,
    };
    let mut owner = subject.owner_of(&claim, "one").await;
    owner.renew().await;
    let mut commit = owner.parking(None);
    commit.header.handled_through = 3;
    let committed = owner.make(commit).await.unwrap();
    assert!(!committed.owned());
    assert_eq!(
        subject.journal(&key("a")).await,
        "1:made 2:first 3:c 4:parked"
    );
}

pub async fn a_command_takes_the_lease_of_a_session_that_is_queued(subject: &Subject) {
    let key = subject.parked("a").await;
    subject.append(&key, "before").await;
    let owner = subject.taker("c", "one").await;
    assert_eq!((owner.epoch, owner.seen), (1, 4));
    assert!(subject.claimed("two").await.is_empty(), "it is in no queue");
}

pub async fn a_command_takes_a_lease_that_has_run_out(subject: &Subject) {
    let mut before = subject.owned("a", "one").await;
    subject.outlive_leases().await;
    let mut owner = subject.taker("c", "two").await;
    assert_eq!(owner.epoch, before.epoch + 1);
    let late = before.next("late");
    assert_eq!(before.error(late).await, StoreError::Fenced);
    owner.commit("x").await;
    assert!(subject.claimed("three").await.is_empty());
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("three").await, ["a"], "as after a claim");
    before.version += 1;
    assert_eq!(before.error(before.next("late")).await, StoreError::Fenced);
}

pub async fn a_command_takes_no_lease_that_runs(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for other in ["two", "one"] {
        let appended = subject.takes(other, other).await;
        assert_eq!((appended.duplicate, appended.taken), (false, None));
        let claims = subject.claims("one").await;
        assert_eq!(claims.woken, [key("a")], "its owner is woken");
    }
    assert!(subject.claimed("two").await.is_empty());
    let committed = owner.commit("x").await;
    assert_eq!(shown(&committed.others), "3:two 4:one");
}

pub async fn a_repeated_command_gets_the_lease_that_it_took(subject: &Subject) {
    subject.parked("a").await;
    let first = subject.takes("c", "one").await;
    let again = subject.takes("c", "one").await;
    assert_eq!((again.duplicate, again.seq), (true, first.seq));
    assert_eq!(again.taken, first.taken, "nothing is taken twice");
    for (other, owner, operation) in [
        ("another attempt", "one", "another"),
        ("somebody else", "two", "one-c"),
    ] {
        let mut repeat = taking(&key("a"), "c", owner);
        repeat.operation_id = operation.to_owned();
        let again = subject.store.append_command(repeat).await.unwrap();
        assert_eq!((again.duplicate, again.taken), (true, None), "{other}");
    }
    let repeat = subject.append(&key("a"), "c").await;
    assert_eq!((repeat.duplicate, repeat.taken), (true, None));
    let claim = Claim {
        key: key("a"),
        lease: first.taken.unwrap().lease,
        previous_holder_dead: false,
    };
    subject.owner_of(&claim, "one").await.commit("x").await;
    let late = subject.takes("c", "one").await;
    assert_eq!(
        (late.duplicate, late.taken),
        (true, None),
        "it has moved on"
    );
}

pub async fn a_repeated_command_gets_no_lease_that_somebody_else_has(subject: &Subject) {
    subject.parked("a").await;
    subject.takes("c", "one").await;
    subject.outlive_leases().await;
    let again = subject.takes("c", "one").await.taken;
    assert!(again.is_some(), "nobody has claimed it yet");
    assert_eq!(subject.claimed("two").await, ["a"]);
    let again = subject.takes("c", "one").await;
    assert_eq!((again.duplicate, again.taken), (true, None));
}

pub async fn a_repeated_command_takes_nothing_new(subject: &Subject) {
    let key = subject.parked("a").await;
    subject.append(&key, "c").await;
    let again = subject.takes("c", "one").await;
    assert_eq!((again.duplicate, again.taken), (true, None));
    assert_eq!(
        subject.claimed("two").await,
        ["a"],
        "it is queued as it was"
    );
    let only = AppendCommand {
        repeat_only: true,
        ..taking(&key, "new", "one")
    };
    let nothing = subject.store.append_command(only).await.unwrap();
    assert_eq!((nothing.seq, nothing.taken), (0, None));
}

pub async fn a_command_takes_nothing_of_a_session_set_aside(subject: &Subject) {
    let session = subject.parked("a").await;
    subject.store.quarantine(&session, None).await.unwrap();
    let appended = subject.takes("c", "one").await;
    assert_eq!((appended.quarantined, appended.taken), (true, None));
    subject
        .store
        .release_quarantine(&session, true)
        .await
        .unwrap();
    assert_eq!(subject.claimed("two").await, ["a"]);
    subject.store.delete(&session).await.unwrap();
    let gone = subject
        .store
        .append_command(taking(&session, "d", "one"))
        .await;
    assert!(matches!(gone, Err(StoreError::Terminal(_))), "{gone:?}");
}

pub async fn leases_taken_with_commands_count_as_claims(subject: &Subject) {
    subject.parked("a").await;
    for lost in 0..7 {
        let taken = subject.takes(&format!("lost-{lost}"), "one").await.taken;
        assert!(taken.is_some(), "lost answers do not count");
        subject.outlive_leases().await;
    }
    for number in 0..5 {
        subject
            .taker(&format!("c{number}"), "one")
            .await
            .renew()
            .await;
        subject.outlive_leases().await;
    }
    let sixth = subject.takes("sixth", "one").await;
    assert_eq!((sixth.quarantined, sixth.taken), (false, None));
    assert!(subject.claimed("two").await.is_empty());
    let page = subject.store.read(&key("a"), u64::MAX, 1).await.unwrap();
    assert!(page.quarantined.is_some(), "the claim sets it aside");
}

pub async fn of_concurrent_commands_one_takes_the_lease(subject: &Subject) {
    subject.parked("a").await;
    let takes = (0..16).map(async |number: usize| {
        let id = format!("c{number}");
        subject.takes(&id, &format!("owner-{number}")).await.taken
    });
    let taken = join_all(takes).await;
    assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
    assert!(subject.claimed("another").await.is_empty());
}
