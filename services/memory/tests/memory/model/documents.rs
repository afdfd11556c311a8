//! Random writes of documents, and watchers that come and go.

use super::place::Place;
use crate::support::reference::documents::Shelf;
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_rpc::ManualClock;
use futures::StreamExt as _;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const KINDS: [DocumentKind; 2] = [DocumentKind::Agent, DocumentKind::Allowance];
const WATCHERS: usize = 3;

#[derive(Debug, Clone)]
pub(super) enum Act {
    Write {
        kind: usize,
        id: u8,
        /// `None` deletes.
        value: Option<u8>,
        expected: What,
    },
    /// An earlier write is sent once more.
    Repeat {
        back: usize,
    },
    /// The operation of an earlier write comes with another value.
    Clash {
        back: usize,
    },
    Watch {
        watcher: usize,
        /// Whether the watcher stays when it has caught up.
        stays: bool,
    },
    Pass {
        days: u8,
    },
    Purge,
    Reopen,
}

/// The version that a write expects.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Any,
    Absent,
    Present,
    Stale,
}

fn act() -> impl Strategy<Value = Act> {
    let what = prop_oneof![
        4 => Just(What::Any),
        1 => Just(What::Absent),
        2 => Just(What::Present),
        1 => Just(What::Stale),
    ];
    let value = proptest::option::weighted(0.7, any::<u8>());
    prop_oneof![
        12 => (0..KINDS.len(), 0..4_u8, value, what).prop_map(|(kind, id, value, expected)| {
            Act::Write { kind, id, value, expected }
        }),
        2 => (0..8_usize).prop_map(|back| Act::Repeat { back }),
        1 => (0..8_usize).prop_map(|back| Act::Clash { back }),
        6 => (0..WATCHERS, any::<bool>()).prop_map(|(watcher, stays)| Act::Watch { watcher, stays }),
        2 => (0..20_u8).prop_map(|days| Act::Pass { days }),
        2 => Just(Act::Purge),
        1 => Just(Act::Reopen),
    ]
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(act(), 1..60)
}

/// A watcher of one of the collections, and what it was given.
#[derive(Default)]
struct Watcher {
    stream: Option<DocumentStream>,
    position: Option<Position>,
    /// In which opening of the store it got its position.
    opening: u64,
    documents: BTreeMap<String, Bytes>,
}

impl Watcher {
    /// Whether the store can give all changes since the watcher's position.
    fn continues(&self, shelf: &Shelf, opening: u64) -> bool {
        let known = self.position.as_ref();
        known.is_none_or(|it| self.opening == opening && it.counter.max(it.since) >= shelf.floor)
    }

    fn take(&mut self, changes: DocumentChanges) {
        let mut last = self.position.as_ref().map_or(0, |it| it.counter);
        for document in changes.documents {
            assert!(document.version > last, "{document:?} after {last}");
            last = document.version;
            match document.value {
                None => self.documents.remove(&document.id),
                Some(value) => self.documents.insert(document.id, value),
            };
        }
        assert!(changes.position.counter >= last);
        self.position = Some(changes.position);
    }

    /// Reads until it knows all changes up to this one.
    async fn catch_up(&mut self, counter: u64) -> StoreResult<()> {
        let is_behind = |position: &Option<Position>| {
            let known = position.as_ref();
            known.is_none_or(|position| position.counter < counter)
        };
        while is_behind(&self.position) {
            let stream = self.stream.as_mut().unwrap();
            let next = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
            let changes = next.unwrap().unwrap()?;
            self.take(changes);
        }
        Ok(())
    }
}

struct Run {
    place: Place,
    store: Option<Arc<dyn Store>>,
    clock: Arc<ManualClock>,
    now: i64,
    shelves: [Shelf; 2],
    sent: Vec<DocumentWrite>,
    watchers: [Watcher; WATCHERS],
    /// How often the data became another, for a store that has a new incarnation each time.
    opening: u64,
}

fn collection(kind: usize) -> Collection {
    Collection::new("space", KINDS[kind])
}

impl Run {
    async fn new(place: Place) -> Self {
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let store = super::open(&place, &clock).await;
        Self {
            place,
            store: Some(store),
            clock,
            now: 1_800_000_000_000,
            shelves: Default::default(),
            sent: Vec::new(),
            watchers: Default::default(),
            opening: 0,
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    async fn apply(&mut self, act: Act) {
        match act {
            Act::Write {
                kind,
                id,
                value,
                expected,
            } => self.write(kind, id, value, expected).await,
            Act::Repeat { back } => {
                if let Some(write) = self.sent.iter().rev().nth(back).cloned() {
                    self.send(write).await;
                }
            }
            Act::Clash { back } => {
                if let Some(write) = self.sent.iter().rev().nth(back).cloned() {
                    let value = Some(Bytes::from("clash"));
                    self.send(DocumentWrite { value, ..write }).await;
                }
            }
            Act::Watch { watcher, stays } => self.watch(watcher, stays).await,
            Act::Pass { days } => {
                let time = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
                self.clock.advance(time);
                self.now += i64::from(days) * 24 * 60 * 60 * 1000;
            }
            Act::Purge => {
                let now = self.now;
                let want: usize = self.shelves.iter_mut().map(|it| it.purge(now)).sum();
                assert_eq!(self.store().purge_documents(100).await, Ok(want));
            }
            Act::Reopen => self.reopen().await,
        }
    }

    async fn write(&mut self, kind: usize, id: u8, value: Option<u8>, expected: What) {
        let id = format!("d{id}");
        let present = self.shelves[kind].version(&id);
        let expected = match (expected, present, value) {
            (What::Absent, _, Some(_)) | (What::Present, 0, Some(_)) => Expected::Absent,
            (What::Present, 1.., _) => Expected::Version(present),
            (What::Stale, 2.., _) => Expected::Version(present - 1),
            _ => Expected::Any,
        };
        let number = self.sent.len();
        self.send(DocumentWrite {
            collection: collection(kind),
            id,
            value: value.map(|value| Bytes::from(format!("{number} {value}"))),
            expected,
            operation_id: format!("write-{number}"),
        })
        .await;
    }

    async fn send(&mut self, write: DocumentWrite) {
        let kind = usize::from(write.collection == collection(1));
        let want = self.shelves[kind].write(&write, self.now);
        let store = self.store();
        assert_eq!(store.write_document(write.clone()).await, want);
        let found = store.get_document(&write.collection, &write.id).await;
        assert_eq!(found, Ok(self.shelves[kind].get(&write.id).cloned()));
        self.sent.push(write);
    }

    async fn watch(&mut self, number: usize, stays: bool) {
        let (store, kind, opening) = (self.store(), number % KINDS.len(), self.opening);
        let (shelf, watcher) = (&self.shelves[kind], &mut self.watchers[number]);
        let continues = watcher.continues(shelf, opening);
        if watcher.stream.is_none() {
            let position = watcher.position.clone();
            let opened = store.watch_documents(&collection(kind), position).await;
            assert_eq!(opened.is_ok(), continues);
            watcher.stream = opened.ok();
        }
        if watcher.stream.is_none() || watcher.catch_up(shelf.counter).await.is_err() {
            assert!(!continues, "nothing was missing");
            *watcher = Watcher::default();
            let anew = store.watch_documents(&collection(kind), None).await;
            watcher.stream = Some(anew.unwrap());
            watcher.catch_up(shelf.counter).await.unwrap();
        }
        watcher.opening = opening;
        assert_eq!(watcher.documents, shelf.values());
        if !stays {
            watcher.stream = None;
        }
    }

    async fn reopen(&mut self) {
        match self.place {
            Place::Memory | Place::Grpc => return,
            Place::Disk(_) => self.opening += 1,
            // The servers are the same.
            #[cfg(target_os = "linux")]
            Place::Redis(_) => {}
        }
        for watcher in &mut self.watchers {
            watcher.stream = None;
        }
        self.store = None;
        self.store = Some(super::open(&self.place, &self.clock).await);
    }

    /// Everything that can be read is as the reference has it.
    async fn compare(&self) {
        for (kind, shelf) in self.shelves.iter().enumerate() {
            let store = self.store();
            let page = store.list_documents(&collection(kind), 0, 1000).await;
            let page = page.unwrap();
            assert_eq!((page.documents, page.is_last), (shelf.list(), true));
            let head = (page.head.counter, page.head.floor);
            assert_eq!(head, (shelf.counter, shelf.floor));
        }
    }
}

pub(super) fn check(place: Place, acts: Vec<Act>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut run = Run::new(place).await;
        for act in acts {
            run.apply(act).await;
            run.compare().await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn documents_in_memory_are_as_the_reference(acts in acts()) {
        check(Place::Memory, acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn documents_on_disk_are_as_the_reference(acts in acts()) {
        let folder = tempfile::tempdir().unwrap();
        check(Place::Disk(folder.path().join("cairn.db")), acts);
    }

    #[test]
    fn documents_behind_a_link_are_as_the_reference(acts in acts()) {
        check(Place::Grpc, acts);
    }
}
