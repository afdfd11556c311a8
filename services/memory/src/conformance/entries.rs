//! Entries of session memory: their metadata and their times.

use super::copies::{completing, copy, source};
use super::memory::{remove, set};
use super::support::*;
use crate::port::{Commit, Limit, MemoryEntry, MemoryWrite, Metadata, SessionKey, StoreError};
use cairn_proto::event::{Event, event::Kind};
use prost::Message as _;

pub(super) fn metadata(notes: &[(&str, &str)]) -> Metadata {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    notes.iter().map(owned).collect()
}

pub(super) fn set_with(key: &str, value: &str, notes: &[(&str, &str)]) -> MemoryWrite {
    MemoryWrite::Set {
        key: key.to_owned(),
        value: value.to_owned(),
        metadata: metadata(notes),
        at_unix_ms: None,
    }
}

/// As an owner sets it, which decided it at that time.
pub(super) fn set_at(key: &str, value: &str, at_unix_ms: i64) -> MemoryWrite {
    MemoryWrite::Set {
        key: key.to_owned(),
        value: value.to_owned(),
        metadata: Metadata::new(),
        at_unix_ms: Some(at_unix_ms),
    }
}

impl Subject {
    /// An entry of session memory, which a list has as well.
    async fn entry(&self, session: &SessionKey, key: &str) -> Option<MemoryEntry> {
        let entry = self.store.get_memory(session, key).await.unwrap();
        let list = self.store.list_memory(session).await.unwrap();
        let listed = list.entries.into_iter().find(|listed| listed.key == key);
        assert_eq!(listed, entry);
        entry
    }

    /// The times of an entry, in milliseconds since 1970.
    async fn times(&self, session: &SessionKey, key: &str) -> (i64, i64) {
        let entry = self.entry(session, key).await.unwrap();
        (
            entry.created_unix_ms.unwrap(),
            entry.updated_unix_ms.unwrap(),
        )
    }

    /// Changes session memory a moment after the change before; answers the time of the event.
    async fn remember_later(&self, session: &SessionKey, change: MemoryWrite) -> i64 {
        self.pass(5).await;
        let seq = self.remember(session, change).await;
        let page = self.store.read(session, seq - 1, 1).await.unwrap();
        let event = Event::decode(page.events[0].event.clone()).unwrap();
        event.at_unix_ms
    }
}

pub async fn metadata_is_set_and_replaced(subject: &Subject) {
    let session = subject.parked("a").await;
    let of = async || subject.entry(&session, "k").await.unwrap().metadata;
    subject.remember(&session, set("k", "1")).await;
    assert_eq!(of().await, Metadata::new());
    let notes = [("source", "mail"), ("Ort \"\n", "Zürich\0")];
    subject.remember(&session, set_with("k", "1", &notes)).await;
    assert_eq!(of().await, metadata(&notes));
    let page = subject.store.read(&session, 3, 1).await.unwrap();
    let event = Event::decode(page.events[0].event.clone()).unwrap();
    let Some(Kind::MemorySet(stored)) = event.kind else {
        panic!("the event sets a key");
    };
    assert_eq!(stored.metadata, metadata(&notes));
    let other = [("topic", "")];
    subject.remember(&session, set_with("k", "1", &other)).await;
    assert_eq!(of().await, metadata(&other));
    subject.remember(&session, set("k", "2")).await;
    assert_eq!(of().await, Metadata::new());
}

pub async fn a_key_has_its_creation_time_until_it_is_absent(subject: &Subject) {
    let session = subject.parked("a").await;
    let times = async || subject.times(&session, "k").await;
    let first = subject.remember_later(&session, set("k", "1")).await;
    assert_eq!(times().await, (first, first));
    let second = subject.remember_later(&session, set("k", "1")).await;
    assert_eq!(times().await, (first, second));
    subject.remember_later(&session, set("other", "1")).await;
    assert_eq!(times().await, (first, second));

    subject.remember_later(&session, remove("k")).await;
    assert_eq!(subject.entry(&session, "k").await, None);
    let third = subject.remember_later(&session, set("k", "1")).await;
    assert_eq!(times().await, (third, third));

    subject.remember_later(&session, MemoryWrite::Clear).await;
    let fourth = subject.remember_later(&session, set("k", "1")).await;
    assert_eq!(times().await, (fourth, fourth));
    assert!(first < second && second < third && third < fourth);
}

pub async fn an_owners_writes_have_the_times_of_its_decisions(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let (session, now) = (owner.key.clone(), subject.store.now().await.unwrap());
    let commit = Commit {
        memory_writes: vec![
            set_at("early", "1", now - 90),
            set_at("again", "1", now - 90),
            remove("again"),
            set_at("again", "2", now - 80),
            // A version before says no time.
            set("untimed", "1"),
        ],
        ..owner.next("x")
    };
    owner.make(commit).await.unwrap();
    assert_eq!(subject.times(&session, "early").await, (now - 90, now - 90));
    assert_eq!(subject.times(&session, "again").await, (now - 80, now - 80));
    let (created, updated) = subject.times(&session, "untimed").await;
    assert!(created >= now && updated == created);

    let notes = [("source", "mail")];
    let by_client = set_with("early", "2", &notes);
    let at = subject.remember_later(&session, by_client).await;
    assert_eq!(subject.times(&session, "early").await, (now - 90, at));
    let commit = Commit {
        memory_writes: vec![
            set_at("early", "3", at + 1),
            set_at("untimed", "2", now - 1),
        ],
        ..owner.next("y")
    };
    owner.make(commit).await.unwrap();
    let entry = subject.entry(&session, "early").await.unwrap();
    assert_eq!(entry.metadata, Metadata::new());
    assert_eq!(subject.times(&session, "early").await, (now - 90, at + 1));
    // What was decided before the key was created counts as set then.
    let times = subject.times(&session, "untimed").await;
    assert_eq!(times, (created, created));
}

pub async fn a_child_has_the_entries_that_it_is_given(subject: &Subject) {
    let owner = source(subject).await;
    let child = key("child");
    let copy = copy(&owner.key, &child, 0);
    subject.copy_all(&copy).await.unwrap();
    let given = MemoryEntry {
        key: "k".to_owned(),
        value: "1".to_owned(),
        metadata: metadata(&[("source", "mail")]),
        created_unix_ms: Some(1_700_000_000_000),
        updated_unix_ms: Some(1_700_000_000_001),
    };
    let untimed = MemoryEntry {
        key: "untimed".to_owned(),
        value: "1".to_owned(),
        ..MemoryEntry::default()
    };
    let mut last = completing(&copy, "forked");
    if let Some(completion) = &mut last.completion {
        completion.memory = vec![given.clone(), untimed.clone()];
    }
    subject.store.copy_events(last).await.unwrap();
    assert_eq!(subject.entry(&child, "k").await, Some(given));
    assert_eq!(subject.entry(&child, "untimed").await, Some(untimed));

    let at = subject.remember_later(&child, set("k", "2")).await;
    assert_eq!(subject.times(&child, "k").await, (1_700_000_000_000, at));
    let at = subject.remember_later(&child, set("untimed", "2")).await;
    let entry = subject.entry(&child, "untimed").await.unwrap();
    assert_eq!(entry.created_unix_ms, None);
    assert_eq!(entry.updated_unix_ms, Some(at));
}

pub async fn metadata_counts_for_the_limits_of_memory(subject: &Subject) {
    let session = subject.parked("a").await;
    let text = |bytes: usize| "x".repeat(bytes);
    // The service takes at most 1 KiB in one text.
    let notes: Vec<String> = (10..26).map(|name| name.to_string()).collect();
    let long = text(1022);
    let notes: Vec<_> = notes.iter().map(|name| (name.as_str(), &*long)).collect();
    // 16 KiB of metadata.
    let largest = text(48 << 10);
    let refused = subject
        .try_remember(&session, set_with("a", &format!("{largest}x"), &notes))
        .await;
    assert_eq!(refused, Err(StoreError::limit(Limit::ValueBytes, 64 << 10)));
    subject
        .remember(&session, set_with("a", &largest, &notes))
        .await;
    let rest = text((48 << 10) - 2);
    let change = |value: &str| set_with("b", value, &notes);
    subject.remember(&session, change(&rest[1..])).await;
    let refused = subject
        .try_remember(&session, change(&format!("{rest}x")))
        .await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::MemoryBytes, 128 << 10))
    );
    subject.remember(&session, change(&rest)).await;
    let refused = subject.try_remember(&session, set("c", "")).await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::MemoryBytes, 128 << 10))
    );
    // What goes is counted with its metadata.
    subject.remember(&session, set("a", &largest)).await;
    subject
        .remember(&session, set("c", &text((16 << 10) - 1)))
        .await;
    let refused = subject.try_remember(&session, set("d", "")).await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::MemoryBytes, 128 << 10))
    );
    subject.remember(&session, remove("b")).await;
    subject.remember(&session, change(&rest)).await;
}
