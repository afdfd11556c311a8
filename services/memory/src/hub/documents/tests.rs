use super::*;
use crate::port::{DocumentKind, Head};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use std::sync::Mutex;

fn collection() -> Collection {
    Collection::new("space", DocumentKind::Agent)
}

/// A store whose collection is what a test puts there.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Contents>>);

struct Contents {
    head: Head,
    versions: Vec<u64>,
    reads: usize,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            head: Head {
                incarnation: "one".to_owned(),
                counter: 0,
                floor: 0,
            },
            versions: Vec::new(),
            reads: 0,
        }
    }
}

impl Store {
    fn put(&self) {
        let mut contents = locked(&self.0);
        contents.head.counter += 1;
        let version = contents.head.counter;
        contents.versions.push(version);
    }

    fn reads(&self) -> usize {
        locked(&self.0).reads
    }

    /// Reads pages of two documents.
    fn reader(&self) -> ReadDocuments {
        let store = self.clone();
        Box::new(move |after| {
            let mut contents = locked(&store.0);
            contents.reads += 1;
            let mut versions = contents.versions.clone();
            versions.retain(|version| *version > after);
            let documents = versions.iter().take(2).map(|version| Document {
                id: version.to_string(),
                version: *version,
                changed_unix_ms: 0,
                value: Some(Bytes::new()),
            });
            let page = DocumentPage {
                head: contents.head.clone(),
                documents: documents.collect(),
                is_last: versions.len() <= 2,
            };
            std::future::ready(Ok(page)).boxed()
        })
    }
}

/// The versions of the next batch; `None` if there is none yet.
fn next(stream: &mut DocumentStream) -> Option<StoreResult<Vec<u64>>> {
    let changes = stream.next().now_or_never()?;
    let versions = |changes: DocumentChanges| {
        let documents = changes.documents.into_iter();
        documents.map(|document| document.version).collect()
    };
    Some(changes.expect("a batch").map(versions))
}

#[tokio::test]
async fn a_watcher_reads_pages_and_then_once_after_each_hint() {
    let (hub, store) = (Arc::new(Hub::new()), Store::default());
    (0..3).for_each(|_| store.put());
    let stream = watch(&hub, &collection(), None, store.reader()).await;
    let mut stream = stream.unwrap();
    assert_eq!(next(&mut stream), Some(Ok(vec![1, 2])));
    assert_eq!(next(&mut stream), Some(Ok(vec![3])));
    assert_eq!(next(&mut stream), Some(Ok(vec![])));
    assert_eq!((next(&mut stream), store.reads()), (None, 2));
    store.put();
    assert_eq!((next(&mut stream), store.reads()), (None, 2));
    hub.documents_changed(&collection());
    assert_eq!(next(&mut stream), Some(Ok(vec![4])));
    assert_eq!((next(&mut stream), store.reads()), (None, 3));
    hub.documents_changed(&Collection::new("space", DocumentKind::Hook));
    assert_eq!((next(&mut stream), store.reads()), (None, 3));
    // A hint without a change.
    hub.documents_changed(&collection());
    assert_eq!((next(&mut stream), store.reads()), (None, 4));
}

#[tokio::test]
async fn a_look_that_finds_what_the_last_one_found_is_no_hint() {
    let (hub, store) = (Arc::new(Hub::new()), Store::default());
    let stream = watch(&hub, &collection(), None, store.reader()).await;
    let mut stream = stream.unwrap();
    assert_eq!(next(&mut stream), Some(Ok(vec![])));
    for (vouched, counter, reads) in [(1, 0, 2), (1, 0, 2), (1, 1, 3), (1, 1, 3), (2, 1, 4)] {
        hub.documents_looked(&collection(), vouched, counter);
        assert_eq!((next(&mut stream), store.reads()), (None, reads));
    }
}

#[tokio::test]
async fn a_watcher_ends_where_the_store_cannot_continue() {
    let (hub, store) = (Arc::new(Hub::new()), Store::default());
    store.put();
    let stream = watch(&hub, &collection(), None, store.reader()).await;
    let mut stream = stream.unwrap();
    assert_eq!(next(&mut stream), Some(Ok(vec![1])));
    assert_eq!(next(&mut stream), Some(Ok(vec![])));
    locked(&store.0).head.incarnation = "two".to_owned();
    hub.documents_changed(&collection());
    assert_eq!(next(&mut stream), Some(Err(StoreError::Relist)));
    assert!(stream.next().await.is_none());
    let position = Position {
        incarnation: "one".to_owned(),
        counter: 1,
        since: 0,
    };
    let refused = watch(&hub, &collection(), Some(position), store.reader()).await;
    assert_eq!(refused.err(), Some(StoreError::Relist));
}

#[tokio::test]
async fn a_watcher_ends_with_the_store() {
    let (hub, store) = (Arc::new(Hub::new()), Store::default());
    let stream = watch(&hub, &collection(), None, store.reader()).await;
    let mut stream = stream.unwrap();
    assert_eq!(next(&mut stream), Some(Ok(vec![])));
    assert_eq!(next(&mut stream), None);
    hub.closed();
    assert_eq!(next(&mut stream), Some(Err(StoreError::closed())));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn nothing_is_kept_for_a_collection_without_watchers() {
    let (hub, store) = (Arc::new(Hub::new()), Store::default());
    let collection = collection();
    let open = || watch(&hub, &collection, None, store.reader());
    let (one, two) = (open().await.unwrap(), open().await.unwrap());
    drop(one);
    assert_eq!(locked(&hub.watched).0.len(), 1);
    drop(two);
    assert_eq!(locked(&hub.watched).0.len(), 0);
}
