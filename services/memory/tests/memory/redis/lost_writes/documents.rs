//! Documents whose last changes a failover loses: watchers are told to list them anew.

use super::answered;
use cairn_memory::port::*;
use cairn_memory::redis::RedisStore;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};

/// A collection at the same server as a session, and a watcher of it.
pub(super) struct Loss {
    collection: Collection,
    watcher: DocumentStream,
    position: Position,
}

/// A collection that is in the partition of a session of `space`.
fn beside(session: &str) -> Collection {
    let partition = |name: String| Sha256::digest(name).first().copied();
    let wanted = partition(format!("space/{session}"));
    let mut namespaces = (0_u32..).map(|number| format!("n{number}"));
    let namespace = namespaces.find(|it| partition(format!("{it}/agent")) == wanted);
    Collection::new(namespace.unwrap(), DocumentKind::Agent)
}

async fn put(store: &RedisStore, collection: &Collection, id: &str, value: &str) -> u64 {
    let write = DocumentWrite {
        collection: collection.clone(),
        id: id.to_owned(),
        value: Some(value.to_owned().into()),
        expected: Expected::Any,
        operation_id: format!("{id}-{value}"),
    };
    let written = answered(|| store.write_document(write.clone())).await;
    written.unwrap().version
}

/// Puts the documents that the replica gets.
pub(super) async fn begin(store: &RedisStore, session: &str) -> Collection {
    let collection = beside(session);
    for (id, version) in [("kept", 1), ("changed", 2)] {
        assert_eq!(put(store, &collection, id, "first").await, version);
    }
    collection
}

/// Makes the changes that are lost, and watches them.
pub(super) async fn lose(store: &RedisStore, collection: Collection) -> Loss {
    assert_eq!(put(store, &collection, "changed", "lost").await, 3);
    assert_eq!(put(store, &collection, "new", "lost").await, 4);
    let mut watcher = store.watch_documents(&collection, None).await.unwrap();
    let seen = watcher.next().await.unwrap().unwrap();
    assert_eq!(seen.documents.len(), 3);
    let caught_up = watcher.next().await.unwrap().unwrap();
    assert_eq!(caught_up.documents, []);
    Loss {
        collection,
        watcher,
        position: caught_up.position,
    }
}

impl Loss {
    /// Another process, which knew nothing of them, writes as many changes and more.
    pub(super) async fn write_over(&self, elsewhere: &RedisStore) {
        for (id, version) in [("other", 3), ("another", 4), ("last", 5)] {
            assert_eq!(
                put(elsewhere, &self.collection, id, "others").await,
                version
            );
        }
    }

    /// Whoever has seen what is lost has to list, though the collection is no shorter than it was.
    pub(super) async fn check_noticed(mut self, stores: [&RedisStore; 2]) {
        let end = self.watcher.next().await.unwrap().unwrap_err();
        let is_told = matches!(
            end,
            StoreError::Relist | StoreError::Unavailable { .. } | StoreError::Unknown { .. }
        );
        assert!(is_told, "{end}");
        for store in stores {
            let again = || store.watch_documents(&self.collection, Some(self.position.clone()));
            assert_eq!(answered(again).await.err(), Some(StoreError::Relist));
            let page = answered(|| store.list_documents(&self.collection, 0, 10)).await;
            let documents = page.unwrap().documents.into_iter();
            let versions: Vec<_> = documents.map(|it| (it.id, it.version)).collect();
            let want = [
                ("kept", 1),
                ("changed", 2),
                ("other", 3),
                ("another", 4),
                ("last", 5),
            ];
            assert_eq!(versions, want.map(|(id, version)| (id.to_owned(), version)));
        }
    }
}
