//! Watching documents.

use super::documents::{A_MONTH, agents, shown_documents, write};
use super::support::*;
use crate::port::{
    Collection, DocumentChanges, DocumentStream, DocumentWrite, Expected, Position, StoreError,
};
use bytes::Bytes;
use futures::StreamExt as _;
use std::collections::BTreeMap;

/// A watcher that checks on its way that versions rise, and keeps what it was given.
pub(super) struct Watcher {
    stream: DocumentStream,
    position: Option<Position>,
    pub(super) documents: BTreeMap<String, Bytes>,
}

impl Watcher {
    pub(super) async fn open(subject: &Subject, after: Option<Position>) -> Self {
        let stream = subject
            .store
            .watch_documents(&agents(), after.clone())
            .await;
        Self {
            stream: stream.unwrap(),
            position: after,
            documents: BTreeMap::new(),
        }
    }

    async fn batch(&mut self) -> DocumentChanges {
        let changes = self.stream.next().await.unwrap().unwrap();
        let mut last = self.position.as_ref().map_or(0, |it| it.counter);
        for document in &changes.documents {
            assert!(document.version > last, "{changes:?} after {last}");
            last = document.version;
            match &document.value {
                None => self.documents.remove(&document.id),
                Some(value) => (self.documents).insert(document.id.clone(), value.clone()),
            };
        }
        assert!(changes.position.counter >= last, "{changes:?}");
        self.position = Some(changes.position.clone());
        changes
    }

    /// Reads until the stream says that it has caught up, and gives what came as text.
    pub(super) async fn catch_up(&mut self) -> String {
        let mut all = Vec::new();
        loop {
            let changes = self.batch().await;
            if changes.documents.is_empty() {
                return shown_documents(&all);
            }
            all.extend(changes.documents);
        }
    }

    /// Reads until it knows all changes up to this one.
    async fn until(&mut self, counter: u64) -> String {
        let mut all = Vec::new();
        while self.counter() < counter {
            all.extend(self.batch().await.documents);
        }
        shown_documents(&all)
    }

    pub(super) fn counter(&self) -> u64 {
        self.position.as_ref().map_or(0, |it| it.counter)
    }

    fn shown(&self) -> String {
        let show =
            |(id, value): (&String, &Bytes)| format!("{id}={}", String::from_utf8_lossy(value));
        self.documents
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// What watching from a position is answered at once, if it cannot continue from there.
async fn refused(subject: &Subject, position: Position) -> Option<StoreError> {
    let watched = subject
        .store
        .watch_documents(&agents(), Some(position))
        .await;
    watched.err()
}

pub async fn watching_documents_begins_with_all_of_them(subject: &Subject) {
    let mut early = Watcher::open(subject, None).await;
    assert_eq!(early.catch_up().await, "");
    subject.write_agent("b", Some("1")).await;
    subject.write_agent("a", Some("1")).await;
    subject.write_agent("gone", Some("1")).await;
    subject.write_agent("gone", None).await;
    let mut late = Watcher::open(subject, None).await;
    assert_eq!(late.catch_up().await, "1:b=1 2:a=1 4:-gone");
    early.until(4).await;
    for watcher in [&early, &late] {
        assert_eq!(watcher.shown(), "a=1 b=1");
        assert_eq!(watcher.counter(), 4);
    }
}

pub async fn watching_documents_goes_on_with_every_change(subject: &Subject) {
    subject.write_agent("a", Some("1")).await;
    let mut watcher = Watcher::open(subject, None).await;
    assert_eq!(watcher.catch_up().await, "1:a=1");
    for (value, seen) in [(Some("2"), "2:a=2"), (None, "3:-a"), (Some("4"), "4:a=4")] {
        let version = subject.write_agent("a", value).await;
        assert_eq!(watcher.until(version).await, seen);
    }
    // What happens elsewhere is not seen.
    let elsewhere = DocumentWrite {
        collection: Collection::new("elsewhere", agents().kind()),
        ..write("b", Some("1"), Expected::Any)
    };
    subject.store.write_document(elsewhere).await.unwrap();
    subject.write_agent("c", Some("1")).await;
    assert_eq!(watcher.until(5).await, "5:c=1");
}

pub async fn a_watcher_that_was_away_goes_on_or_begins_anew(subject: &Subject) {
    for id in ["a", "b", "c"] {
        subject.write_agent(id, Some("1")).await;
    }
    let (_, position) = subject.documents(&agents()).await;
    let mut watcher = Watcher::open(subject, Some(position.clone())).await;
    assert_eq!(watcher.catch_up().await, "");
    drop(watcher);
    subject.write_agent("b", None).await;
    subject.write_agent("a", Some("2")).await;
    subject.write_agent("a", Some("3")).await;
    let mut again = Watcher::open(subject, Some(position.clone())).await;
    assert_eq!(again.catch_up().await, "4:-b 6:a=3");
    // In the middle of a listing, too.
    let after = |counter| Position {
        counter,
        ..position.clone()
    };
    let mut middle = Watcher::open(subject, Some(after(4))).await;
    assert_eq!(middle.catch_up().await, "6:a=3");
    for counter in [7, 1 << 40, u64::MAX] {
        assert_eq!(
            refused(subject, after(counter)).await,
            Some(StoreError::Relist)
        );
    }
    for incarnation in ["another", &format!("{}x", position.incarnation)] {
        let other = Position {
            incarnation: incarnation.to_owned(),
            ..position.clone()
        };
        assert_eq!(refused(subject, other).await, Some(StoreError::Relist));
    }
    assert_eq!(again.until(6).await, "");
    let version = subject.write_agent("d", Some("1")).await;
    assert_eq!(again.until(version).await, "7:d=1");
}

pub async fn a_watcher_that_falls_behind_the_floor_begins_anew(subject: &Subject) {
    for id in ["a", "b"] {
        subject.write_agent(id, Some("1")).await;
    }
    let (_, away) = subject.documents(&agents()).await;
    let mut present = Watcher::open(subject, None).await;
    assert_eq!(present.catch_up().await, "1:a=1 2:b=1");
    subject.write_agent("a", None).await;
    assert_eq!(present.until(3).await, "3:-a");
    subject.pass(A_MONTH + 1).await;
    assert_eq!(subject.store.purge_documents(10).await, Ok(1));
    assert_eq!(refused(subject, away).await, Some(StoreError::Relist));
    // It knows of the deletion.
    let known = present.position.clone().unwrap();
    assert_eq!(refused(subject, known).await, None);
    subject.write_agent("c", Some("1")).await;
    assert_eq!(present.until(4).await, "4:c=1");
    let mut anew = Watcher::open(subject, None).await;
    assert_eq!(anew.catch_up().await, "2:b=1 4:c=1");
    // A reader that never had the document misses nothing in the middle of its listing.
    let begun = Position {
        counter: 2,
        ..anew.position.clone().unwrap()
    };
    let mut goes_on = Watcher::open(subject, Some(begun)).await;
    assert_eq!(goes_on.catch_up().await, "4:c=1");
}

pub async fn a_slow_watcher_of_documents_holds_up_nobody(subject: &Subject) {
    let mut slow = Watcher::open(subject, None).await;
    let mut quick = Watcher::open(subject, None).await;
    let large = "x".repeat(100 << 10);
    for number in 0..40 {
        let id = format!("d{}", number % 4);
        let version = subject.write_agent(&id, Some(&large)).await;
        quick.until(version).await;
    }
    // It is given the last of each at least.
    assert_eq!(slow.catch_up().await, "");
    slow.until(40).await;
    assert_eq!(slow.documents.len(), 4);
    assert_eq!((slow.counter(), quick.counter()), (40, 40));
}

/// Whenever a watcher begins, what there was and what came add up to what there is.
pub async fn watchers_of_documents_add_up_to_what_is_stored(subject: &Subject) {
    const WRITES: u64 = 120;
    let writes = async {
        let mut last = 0;
        for number in 0..WRITES {
            let id = format!("d{}", number * 7 % 11);
            let value = number.to_string();
            let value = (number % 5 != 4).then_some(&*value);
            last = last.max(subject.write_agent(&id, value).await);
        }
        last
    };
    let watching = async {
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut watcher = Watcher::open(subject, None).await;
            watcher.batch().await;
            all.push(watcher);
            // Some go away and come back.
            let after = all[0].position.clone();
            let documents = std::mem::take(&mut all[0].documents);
            let mut back = Watcher::open(subject, after).await;
            back.documents = documents;
            all[0] = back;
        }
        all
    };
    let (last, watchers) = tokio::join!(writes, watching);
    let stored = subject.documents(&agents()).await.0.into_iter();
    let stored = stored.filter_map(|document| Some((document.id, document.value?)));
    let stored: BTreeMap<_, _> = stored.collect();
    for mut watcher in watchers {
        watcher.until(last).await;
        assert_eq!(watcher.documents, stored);
    }
}
