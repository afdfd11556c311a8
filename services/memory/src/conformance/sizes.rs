//! Limits of journals.

use super::support::*;
use crate::port::{Commit, Limit, MemoryWrite, SessionKey, StoreError};
use bytes::Bytes;

pub async fn an_event_is_limited_in_bytes(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let of = |size| Commit {
        events: vec![bytes("x"), vec![1; size].into()],
        ..owner.next("")
    };
    let refused = StoreError::limit(Limit::EventBytes, 65 << 10);
    assert_eq!(owner.error(of((65 << 10) + 1)).await, refused);
    let fits = of(65 << 10);
    owner.make(fits).await.unwrap();
    let mut large = command(&owner.key, "c");
    large.event = vec![1; (65 << 10) + 1].into();
    assert_eq!(subject.store.append_command(large).await, Err(refused));
    assert_eq!(
        subject
            .store
            .read(&owner.key, 2, 10)
            .await
            .unwrap()
            .last_seq,
        4
    );
}

pub async fn a_transition_is_limited_in_events(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let of = |count| Commit {
        events: vec![bytes("x"); count],
        ..owner.next("")
    };
    let refused = StoreError::limit(Limit::EventsPerCommit, 1024);
    assert_eq!(owner.error(of(1025)).await, refused);
    let fits = of(1024);
    owner.make(fits).await.unwrap();
}

/// What still goes into a journal that has reached its limit `full`, of which the whole reserve
/// is `reserve` and of which commands get half. Answers how many commands went in.
async fn fill_reserve(subject: &Subject, owner: &mut Owner, what: Limit, event: &Bytes) -> usize {
    let with = |owner: &Owner, from_reserve| Commit {
        events: vec![event.clone()],
        from_reserve,
        ..owner.next("")
    };
    let is_limit =
        |error: StoreError| matches!(error, StoreError::Limit { what: w, .. } if w == what);
    assert!(is_limit(owner.error(with(owner, false)).await));
    let set = MemoryWrite::set("k", "x".repeat(event.len()));
    assert!(is_limit(
        subject.try_remember(&owner.key, set).await.unwrap_err()
    ));
    let mut commands = 0;
    loop {
        let mut command = command(&owner.key, &format!("c{commands}"));
        command.event = event.clone();
        match subject.store.append_command(command).await {
            Ok(_) => commands += 1,
            Err(error) => {
                assert!(is_limit(error));
                break;
            }
        }
    }
    owner.make(with(owner, true)).await.unwrap();
    while let Ok(committed) = subject.store.commit(with(owner, true)).await {
        owner.version += 1;
        owner.seen = committed.first_seq;
    }
    assert!(is_limit(owner.error(with(owner, true)).await));
    commands
}

async fn last_seq(subject: &Subject, key: &SessionKey) -> u64 {
    subject.store.read(key, u64::MAX, 1).await.unwrap().last_seq
}

pub async fn a_journal_is_limited_in_events_but_for_the_reserve(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for count in [1000, 998] {
        let commit = Commit {
            events: vec![bytes("x"); count],
            ..owner.next("")
        };
        owner.make(commit).await.unwrap();
    }
    assert_eq!(last_seq(subject, &owner.key).await, 2000);
    let event = bytes("x");
    let commands = fill_reserve(subject, &mut owner, Limit::JournalEvents, &event).await;
    assert_eq!(commands, 10);
    assert_eq!(last_seq(subject, &owner.key).await, 2020);
}

pub async fn a_journal_is_limited_in_bytes_but_for_the_reserve(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let event = Bytes::from(vec![1; 64 << 10]);
    let mut written = 0;
    loop {
        let commit = Commit {
            events: vec![event.clone(); 4],
            ..owner.next("")
        };
        if owner.make(commit).await.is_err() {
            break;
        }
        written += 4;
    }
    // 4 MiB hold 64 such events, but for the few bytes of the first two.
    assert_eq!(written, 60);
    let commit = Commit {
        events: vec![event.clone(); 3],
        ..owner.next("")
    };
    owner.make(commit).await.unwrap();
    let commands = fill_reserve(subject, &mut owner, Limit::JournalBytes, &event).await;
    assert_eq!(commands, 2);
}

async fn permille(subject: &Subject, key: &SessionKey) -> u32 {
    let page = subject.store.read(key, u64::MAX, 1).await.unwrap();
    page.journal_permille
}

/// The journal may have 2000 events and 64 times 64 KiB.
pub async fn a_commit_and_a_page_say_how_full_the_journal_is(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    assert_eq!(permille(subject, &owner.key).await, 1);
    let commit = Commit {
        events: vec![bytes("x"); 898],
        ..owner.next("")
    };
    assert_eq!(owner.make(commit).await.unwrap().journal_permille, 450);
    // What others append counts as well.
    for id in ["c", "d"] {
        subject.append(&owner.key, id).await;
    }
    assert_eq!(permille(subject, &owner.key).await, 451);
    assert_eq!(owner.commit("").await.journal_permille, 451);

    // Bytes are the larger share now.
    let event = Bytes::from(vec![1; 64 << 10]);
    let mut last = 0;
    for _ in 0..12 {
        let commit = Commit {
            events: vec![event.clone(); 4],
            ..owner.next("")
        };
        last = owner.make(commit).await.unwrap().journal_permille;
    }
    assert_eq!(last, 750);

    let repeated = owner.next("x");
    owner.make(repeated.clone()).await.unwrap();
    let mut large = command(&owner.key, "large");
    large.event = event.clone();
    subject.store.append_command(large).await.unwrap();
    let again = subject.store.commit(repeated).await.unwrap();
    assert_eq!((again.duplicate, again.journal_permille), (true, 765));

    for (count, from_reserve) in [(14, false), (2, true)] {
        let commit = Commit {
            events: vec![event.clone(); count],
            from_reserve,
            ..owner.next("")
        };
        last = owner.make(commit).await.unwrap().journal_permille;
    }
    assert_eq!(last, 1015);
    assert_eq!(permille(subject, &owner.key).await, 1015);
}

pub async fn a_full_journal_still_takes_empty_transitions(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for count in [1000, 998] {
        let commit = Commit {
            events: vec![bytes("x"); count],
            ..owner.next("")
        };
        owner.make(commit).await.unwrap();
    }
    assert!(owner.commit("").await.owned());
    let mut parking = owner.parking(None);
    parking.events.clear();
    assert!(!owner.make(parking).await.unwrap().owned());
}

pub async fn what_an_owner_has_not_seen_is_limited(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let append = |number: usize| {
        let mut command = command(&owner.key, &format!("c{number}"));
        command.event = vec![1; 60 << 10].into();
        subject.store.append_command(command)
    };
    for number in 0..4 {
        append(number).await.unwrap();
    }
    let refused = StoreError::limit(Limit::UnseenBytes, 256 << 10);
    assert_eq!(append(4).await, Err(refused.clone()));
    let set = MemoryWrite::set("k", "x".repeat(60 << 10));
    assert_eq!(subject.try_remember(&owner.key, set).await, Err(refused));
    // The owner's next transition is not in the way of anybody, and makes room.
    let seen = owner.clone();
    assert_eq!(owner.commit("x").await.others.len(), 4);
    let mut again = command(&seen.key, "c4");
    again.event = vec![1; 60 << 10].into();
    subject.store.append_command(again).await.unwrap();
}

pub async fn what_nobody_owns_is_not_limited_by_what_was_seen(subject: &Subject) {
    let key = subject.parked("a").await;
    for number in 0..10 {
        let mut command = command(&key, &format!("c{number}"));
        command.event = vec![1; 60 << 10].into();
        subject.store.append_command(command).await.unwrap();
    }
    let mut owner = subject.claim_one("one").await;
    subject.append(&key, "after").await;
    assert_eq!(shown(&owner.commit("x").await.others), "13:after");
}
