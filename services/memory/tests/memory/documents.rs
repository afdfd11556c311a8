//! Documents where the conformance suite leaves off.

use crate::support::clients::{Clients, clients, field, from};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_proto::memory as pb;
use futures::StreamExt as _;
use futures::future::join_all;
use tonic::Code;

pub(crate) fn agents() -> Collection {
    Collection::new("space", DocumentKind::Agent)
}

/// A write of an agent; without a value, it deletes.
pub(crate) fn write(id: &str, value: Option<&str>, operation: &str) -> DocumentWrite {
    DocumentWrite {
        collection: agents(),
        id: id.to_owned(),
        value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
        expected: Expected::Any,
        operation_id: operation.to_owned(),
    }
}

/// All agents, tombstones included: `1:a=value 3:-b`.
pub(crate) async fn shown(store: &dyn Store) -> String {
    let page = store.list_documents(&agents(), 0, 1000).await.unwrap();
    let show = |document: &Document| {
        let Document { id, version, .. } = document;
        match &document.value {
            None => format!("{version}:-{id}"),
            Some(value) => format!("{version}:{id}={}", String::from_utf8_lossy(value)),
        }
    };
    let shown: Vec<_> = page.documents.iter().map(show).collect();
    shown.join(" ")
}

/// Where a reader stands that knows all agents.
pub(crate) async fn position(store: &dyn Store) -> Position {
    let head = store.document_head(&agents()).await.unwrap();
    Position {
        incarnation: head.incarnation,
        counter: head.counter,
        since: 0,
    }
}

/// What a watcher that comes with a position is answered at once, if the store cannot continue from there.
pub(crate) async fn refusal(store: &dyn Store, position: &Position) -> Option<StoreError> {
    let watched = store
        .watch_documents(&agents(), Some(position.clone()))
        .await;
    watched.err()
}

/// Limits of a store for [`tombstones_are_bounded`].
pub(crate) fn few() -> Limits {
    Limits {
        documents: 3,
        ..Limits::default()
    }
}

/// There are no more tombstones than there may be documents.
pub(crate) async fn tombstones_are_bounded(store: &dyn Store) {
    for number in 0..5 {
        let id = format!("t{number}");
        for (value, operation) in [
            (Some("1"), format!("put-{id}")),
            (None, format!("delete-{id}")),
        ] {
            store
                .write_document(write(&id, value, &operation))
                .await
                .unwrap();
        }
    }
    assert_eq!(shown(store).await, "6:-t2 8:-t3 10:-t4");
    let known = position(store).await;
    let at = |counter| Position {
        counter,
        ..known.clone()
    };
    assert_eq!(refusal(store, &at(3)).await, Some(StoreError::Relist));
    assert_eq!(refusal(store, &at(4)).await, None);
    let head = store.document_head(&agents()).await.unwrap();
    assert_eq!((head.counter, head.floor), (10, 4));
    // Documents count by themselves.
    for id in ["t0", "t2", "a"] {
        store
            .write_document(write(id, Some("2"), id))
            .await
            .unwrap();
    }
    let one_more = store.write_document(write("b", Some("2"), "b")).await;
    assert_eq!(one_more, Err(StoreError::limit(Limit::Documents, 3)));
    assert_eq!(shown(store).await, "8:-t3 10:-t4 11:t0=2 12:t2=2 13:a=2");
}

/// A retry is known until 1,000 later changes.
pub(crate) async fn operations_are_forgotten(store: &dyn Store) {
    let first = write("a", Some("first"), "first");
    let written = store.write_document(first.clone()).await.unwrap();
    assert_eq!((written.duplicate, written.version), (false, 1));
    let others = (0..999).map(|number| {
        let operation = format!("other-{number}");
        async move {
            store
                .write_document(write("b", Some("other"), &operation))
                .await
        }
    });
    for written in join_all(others).await {
        assert!(!written.unwrap().duplicate);
    }
    let again = store.write_document(first.clone()).await.unwrap();
    assert_eq!((again.duplicate, again.version), (true, 1));
    let last = store.write_document(write("b", Some("last"), "last")).await;
    assert_eq!(last.unwrap().version, 1001);
    let again = store.write_document(first).await.unwrap();
    assert_eq!((again.duplicate, again.version), (false, 1002));
}

fn in_memory(limits: Limits) -> SqliteStore {
    let options = SqliteOptions {
        limits,
        ..SqliteOptions::default()
    };
    SqliteStore::in_memory(options).unwrap()
}

#[tokio::test]
async fn old_tombstones_give_way_where_there_are_too_many() {
    tombstones_are_bounded(&in_memory(few())).await;
}

#[tokio::test]
async fn a_retry_is_a_new_write_after_a_thousand_others() {
    operations_are_forgotten(&in_memory(Limits::default())).await;
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_another_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let store = open();
    store
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    let known = position(&store).await;
    assert_eq!(refusal(&store, &known).await, None);
    drop(store);
    let store = open();
    assert_eq!(refusal(&store, &known).await, Some(StoreError::Relist));
    assert_eq!(shown(&store).await, "1:a=1");
    let again = store
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    assert_eq!((again.duplicate, again.version), (true, 1));
}

#[tokio::test]
async fn a_store_for_reading_shows_documents_and_follows_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let holder = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    holder
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    assert_eq!(shown(&reader).await, "1:a=1");
    let mut changes = reader.watch_documents(&agents(), None).await.unwrap();
    for count in [1, 0] {
        let batch = changes.next().await.unwrap().unwrap();
        assert_eq!(batch.documents.len(), count);
    }
    let end = changes.next().await.unwrap();
    assert!(
        matches!(end, Err(StoreError::Unavailable { .. })),
        "{end:?}"
    );
    assert!(changes.next().await.is_none());
    let refused = reader.write_document(write("b", Some("1"), "b")).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
    // Neither takes the other's positions for its own.
    let known = position(&reader).await;
    assert_eq!(refusal(&holder, &known).await, Some(StoreError::Relist));
}

#[tokio::test]
async fn watchers_end_when_the_store_closes() {
    let store = in_memory(Limits::default());
    let mut changes = store.watch_documents(&agents(), None).await.unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap().documents, []);
    store.close().await;
    let end = changes.next().await.unwrap().unwrap_err();
    assert!(end.is_closed(), "{end}");
    assert!(changes.next().await.is_none());
}

#[tokio::test]
async fn a_damaged_document_is_reported_and_hurts_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    for id in ["a", "b"] {
        store.write_document(write(id, Some(id), id)).await.unwrap();
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    let damage = "UPDATE document SET value = x'63' WHERE id = 'a'";
    assert_eq!(file.execute(damage, []).unwrap(), 1);
    let damaged = StoreError::Damaged(Stored::Document("a".to_owned()));
    let found = store.get_document(&agents(), "a").await;
    assert_eq!(found, Err(damaged.clone()));
    let listed = store.list_documents(&agents(), 0, 10).await;
    assert_eq!(listed, Err(damaged));
    let found = store.get_document(&agents(), "b").await.unwrap();
    assert_eq!(found.unwrap().version, 2);
    // A new value mends it.
    store
        .write_document(write("a", Some("2"), "again"))
        .await
        .unwrap();
    assert_eq!(shown(&store).await, "2:b=b 3:a=2");
}

fn put() -> pb::PutDocumentRequest {
    pb::PutDocumentRequest {
        kind: pb::DocumentKind::Agent.into(),
        id: "a".to_owned(),
        value: "value".into(),
        expected_version: None,
        operation_id: "put".to_owned(),
    }
}

#[tokio::test]
async fn a_wrong_document_is_refused_by_field() {
    let Clients { mut documents, .. } = clients().await;
    type Fault = fn(&mut pb::PutDocumentRequest);
    let faults: [(&str, Fault); 8] = [
        ("kind", |r| r.kind = 0),
        ("kind", |r| r.kind = 8),
        ("id", |r| r.id = String::new()),
        ("id", |r| r.id = "a b".to_owned()),
        ("id", |r| r.id = "ä".to_owned()),
        ("id", |r| r.id = "x".repeat(129)),
        ("operation_id", |r| r.operation_id = String::new()),
        ("operation_id", |r| r.operation_id = "x".repeat(65)),
    ];
    for (want, fault) in faults {
        let mut request = put();
        fault(&mut request);
        let refused = documents.put_document(from("space", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    let mut longest = put();
    longest.id = "x".repeat(128);
    documents
        .put_document(from("space", longest))
        .await
        .unwrap();
    let delete = pb::DeleteDocumentRequest {
        kind: put().kind,
        id: "a".to_owned(),
        expected_version: Some(0),
        operation_id: "delete".to_owned(),
    };
    let refused = documents.delete_document(from("space", delete)).await;
    assert_eq!(field(refused.unwrap_err()), "expected_version");
    let list = pb::ListDocumentsRequest {
        kind: put().kind,
        page_size: 1001,
        ..Default::default()
    };
    let refused = documents.list_documents(from("space", list)).await;
    assert_eq!(field(refused.unwrap_err()), "page_size");
    let watch = pb::WatchDocumentsRequest {
        kind: put().kind,
        after: Some(pb::DocumentPosition::default()),
    };
    let refused = documents.watch_documents(from("space", watch)).await;
    assert_eq!(field(refused.unwrap_err()), "after.incarnation");
}

#[tokio::test]
async fn documents_belong_to_the_callers_namespace() {
    let Clients { mut documents, .. } = clients().await;
    let refused = documents.put_document(put()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    documents.put_document(from("space", put())).await.unwrap();
    let get = pb::GetDocumentRequest {
        kind: put().kind,
        id: "a".to_owned(),
    };
    for (namespace, is_there) in [("space", true), ("elsewhere", false)] {
        let found = documents.get_document(from(namespace, get.clone())).await;
        let found = found.unwrap().into_inner().document;
        assert_eq!(found.is_some(), is_there);
    }
}
