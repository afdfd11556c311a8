//! Documents.

use super::support::*;
use super::watching_documents::Watcher;
use crate::documents::advance;
use crate::port::{
    Collection, Document, DocumentKind, DocumentWrite, DocumentWritten, Expected, Limit, Position,
    StoreError, StoreResult,
};
use bytes::Bytes;
use futures::future::join_all;
use std::sync::atomic::{AtomicU64, Ordering};

/// Thirty days in milliseconds.
pub(super) const A_MONTH: u64 = 30 * 24 * 60 * 60 * 1000;

static OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// The collection of most cases.
pub(super) fn agents() -> Collection {
    Collection::new(SPACE, DocumentKind::Agent)
}

/// A new write of an agent; without a value, it deletes.
pub(super) fn write(id: &str, value: Option<&str>, expected: Expected) -> DocumentWrite {
    let number = OPERATIONS.fetch_add(1, Ordering::Relaxed);
    DocumentWrite {
        collection: agents(),
        id: id.to_owned(),
        value: value.map(bytes),
        expected,
        operation_id: format!("write-{number}"),
    }
}

impl Subject {
    /// Makes a write that nothing hinders, and answers the version.
    pub(super) async fn write_agent(&self, id: &str, value: Option<&str>) -> u64 {
        let write = write(id, value, Expected::Any);
        let written = self.store.write_document(write).await.unwrap();
        assert!(!written.duplicate);
        written.version
    }

    async fn try_write(&self, write: &DocumentWrite) -> StoreResult<DocumentWritten> {
        self.store.write_document(write.clone()).await
    }

    /// All documents of a collection, page by page, and the position after them.
    pub(super) async fn documents(&self, of: &Collection) -> (Vec<Document>, Position) {
        let (mut all, mut position) = (Vec::new(), None::<Position>);
        loop {
            let after = position.as_ref().map_or(0, |position| position.counter);
            let page = self.store.list_documents(of, after, 1000).await.unwrap();
            let next = advance(position.as_ref(), &page).unwrap();
            all.extend(page.documents);
            if page.is_last {
                return (all, next);
            }
            position = Some(next);
        }
    }

    /// All agents as text.
    pub(super) async fn agents(&self) -> String {
        shown_documents(&self.documents(&agents()).await.0)
    }
}

/// Documents with their versions as text, tombstones with a dash: `1:a=value 3:-b`.
pub(super) fn shown_documents(documents: &[Document]) -> String {
    let show = |document: &Document| {
        let Document { id, version, .. } = document;
        match &document.value {
            None => format!("{version}:-{id}"),
            Some(value) => format!("{version}:{id}={}", String::from_utf8_lossy(value)),
        }
    };
    documents.iter().map(show).collect::<Vec<_>>().join(" ")
}

pub async fn documents_are_put_read_and_replaced(subject: &Subject) {
    let store = &subject.store;
    let before = store.now().await.unwrap();
    assert_eq!(store.get_document(&agents(), "a").await, Ok(None));
    assert_eq!(subject.agents().await, "");
    assert_eq!(subject.write_agent("a", Some("one")).await, 1);
    assert_eq!(subject.write_agent("b", Some("")).await, 2);
    assert_eq!(subject.agents().await, "1:a=one 2:b=");
    subject.pass(1000).await;
    assert_eq!(subject.write_agent("a", Some("two")).await, 3);
    let found = store.get_document(&agents(), "a").await.unwrap().unwrap();
    assert_eq!((found.version, found.value), (3, Some(bytes("two"))));
    let old = store.get_document(&agents(), "b").await.unwrap().unwrap();
    assert_eq!((old.version, old.value), (2, Some(Bytes::new())));
    assert!(before <= old.changed_unix_ms);
    assert!(old.changed_unix_ms + 1000 <= found.changed_unix_ms);
    assert_eq!(subject.agents().await, "2:b= 3:a=two");
    // An id may hold whatever can be printed.
    let odd = "~!{a}:b/c*%\"'\\";
    assert_eq!(subject.write_agent(odd, Some("odd")).await, 4);
    let found = store.get_document(&agents(), odd).await.unwrap();
    assert_eq!(found.unwrap().value, Some(bytes("odd")));
    let head = store.document_head(&agents()).await.unwrap();
    assert_eq!((head.counter, head.floor), (4, 0));
}

pub async fn a_write_of_a_document_expects_a_version(subject: &Subject) {
    let refused = async |value, expected| {
        let refused = subject.try_write(&write("a", value, expected)).await;
        refused.unwrap_err()
    };
    let other = |found| StoreError::DocumentVersion { found };
    assert_eq!(refused(Some("1"), Expected::Version(1)).await, other(0));
    assert_eq!(refused(None, Expected::Version(1)).await, other(0));
    let first = write("a", Some("1"), Expected::Absent);
    assert_eq!(subject.try_write(&first).await.unwrap().version, 1);
    assert_eq!(refused(Some("2"), Expected::Absent).await, other(1));
    assert_eq!(refused(Some("2"), Expected::Version(2)).await, other(1));
    let second = write("a", Some("2"), Expected::Version(1));
    assert_eq!(subject.try_write(&second).await.unwrap().version, 2);
    assert_eq!(refused(None, Expected::Version(1)).await, other(2));
    let delete = write("a", None, Expected::Version(2));
    assert_eq!(subject.try_write(&delete).await.unwrap().version, 3);
    // A tombstone is no document.
    assert_eq!(refused(Some("4"), Expected::Version(3)).await, other(0));
    let again = write("a", Some("4"), Expected::Absent);
    assert_eq!(subject.try_write(&again).await.unwrap().version, 4);
    assert_eq!(subject.agents().await, "4:a=4");
}

pub async fn a_repeated_write_of_a_document_is_answered_as_before(subject: &Subject) {
    let first = write("a", Some("1"), Expected::Absent);
    let delete = write("b", None, Expected::Any);
    subject.write_agent("b", Some("1")).await;
    for (write, version) in [(&first, 2), (&delete, 3)] {
        let written = subject.try_write(write).await.unwrap();
        assert_eq!((written.duplicate, written.version), (false, version));
    }
    // Also after later changes of the same documents.
    subject.write_agent("a", Some("2")).await;
    subject.write_agent("b", Some("2")).await;
    for (write, version) in [(&first, 2), (&delete, 3), (&first, 2)] {
        let written = subject.try_write(write).await.unwrap();
        assert_eq!((written.duplicate, written.version), (true, version));
    }
    assert_eq!(subject.agents().await, "4:a=2 5:b=2");
    for other in [
        DocumentWrite {
            id: "b".to_owned(),
            ..first.clone()
        },
        DocumentWrite {
            value: Some(bytes("3")),
            ..first.clone()
        },
        DocumentWrite {
            value: None,
            expected: Expected::Any,
            ..first.clone()
        },
        DocumentWrite {
            expected: Expected::Any,
            ..first.clone()
        },
    ] {
        let refused = subject.try_write(&other).await;
        assert_eq!(refused, Err(StoreError::RequestMismatch));
    }
    // Operations belong to a collection.
    let elsewhere = DocumentWrite {
        collection: Collection::new(SPACE, DocumentKind::Hook),
        ..first.clone()
    };
    let written = subject.try_write(&elsewhere).await.unwrap();
    assert_eq!((written.duplicate, written.version), (false, 1));
    assert_eq!(subject.agents().await, "4:a=2 5:b=2");
}

pub async fn a_deleted_document_leaves_a_tombstone(subject: &Subject) {
    subject.write_agent("a", Some("1")).await;
    subject.write_agent("b", Some("1")).await;
    assert_eq!(subject.write_agent("a", None).await, 3);
    assert_eq!(subject.store.get_document(&agents(), "a").await, Ok(None));
    assert_eq!(subject.agents().await, "2:b=1 3:-a");
    let after = async |version, max| {
        let page = subject.store.list_documents(&agents(), version, max).await;
        let page = page.unwrap();
        (shown_documents(&page.documents), page.is_last)
    };
    assert_eq!(after(2, 9).await, ("3:-a".to_owned(), true));
    assert_eq!(after(1, 1).await, ("2:b=1".to_owned(), false));
    assert_eq!(after(3, 9).await, (String::new(), true));
    assert_eq!(subject.write_agent("a", Some("2")).await, 4);
    assert_eq!(subject.agents().await, "2:b=1 4:a=2");
}

pub async fn deleting_a_document_that_is_not_there_changes_nothing(subject: &Subject) {
    assert_eq!(subject.write_agent("a", None).await, 0);
    subject.write_agent("a", Some("1")).await;
    assert_eq!(subject.write_agent("a", None).await, 2);
    assert_eq!(subject.write_agent("a", None).await, 0);
    assert_eq!(subject.write_agent("b", None).await, 0);
    assert_eq!(subject.agents().await, "2:-a");
}

pub async fn documents_of_namespaces_and_kinds_are_apart(subject: &Subject) {
    let mut collections = Vec::new();
    for namespace in [SPACE, "elsewhere"] {
        for kind in DocumentKind::ALL {
            collections.push(Collection::new(namespace, kind));
        }
    }
    for (number, collection) in collections.iter().enumerate() {
        for count in 0..=number {
            let put = DocumentWrite {
                collection: collection.clone(),
                ..write("a", Some(&format!("{number}.{count}")), Expected::Any)
            };
            let written = subject.try_write(&put).await.unwrap();
            assert_eq!(written.version, 1 + count as u64);
        }
    }
    for (number, collection) in collections.iter().enumerate() {
        let (documents, position) = subject.documents(collection).await;
        let want = format!("{}:a={number}.{number}", number + 1);
        assert_eq!(shown_documents(&documents), want);
        assert_eq!(position.counter, 1 + number as u64);
    }
}

pub async fn concurrent_writes_that_expect_one_version_happen_once(subject: &Subject) {
    subject.write_agent("a", Some("0")).await;
    let writes: Vec<_> = (0..20)
        .map(|number: u8| write("a", Some(&number.to_string()), Expected::Version(1)))
        .collect();
    let written = join_all(writes.iter().map(|write| subject.try_write(write))).await;
    let mut happened = 0;
    for (write, written) in writes.iter().zip(written) {
        match written {
            Ok(written) => {
                happened += 1;
                assert_eq!((written.duplicate, written.version), (false, 2));
                let found = subject.store.get_document(&agents(), "a").await;
                assert_eq!(found.unwrap().unwrap().value, write.value);
            }
            Err(error) => assert_eq!(error, StoreError::DocumentVersion { found: 2 }),
        }
    }
    assert_eq!(happened, 1);
}

/// A page has at most 1 MiB.
pub async fn documents_are_listed_in_pages(subject: &Subject) {
    let large = "x".repeat(100 << 10);
    for number in 0..12 {
        let id = format!("d{number}");
        subject.write_agent(&id, Some(&large)).await;
    }
    let list = async |after| subject.store.list_documents(&agents(), after, 1000).await;
    let page = list(0).await.unwrap();
    assert_eq!((page.documents.len(), page.is_last), (10, false));
    assert_eq!(page.head.counter, 12);
    // One that moves on meanwhile comes in its new place.
    subject.write_agent("d11", Some("small")).await;
    subject.write_agent("d0", None).await;
    let next = list(10).await.unwrap();
    let versions: Vec<_> = next.documents.iter().map(|it| it.version).collect();
    assert_eq!((versions, next.is_last), (vec![11, 13, 14], true));
    let empty = list(14).await.unwrap();
    assert_eq!((empty.documents.len(), empty.is_last), (0, true));
}

pub async fn documents_are_limited_in_bytes(subject: &Subject) {
    let largest = "x".repeat(128 << 10);
    let refused = write("a", Some(&format!("{largest}x")), Expected::Any);
    let limit = StoreError::limit(Limit::DocumentBytes, 128 << 10);
    assert_eq!(subject.try_write(&refused).await, Err(limit));
    // With their ids, fifteen have some bytes less than 2 MiB.
    for number in 0..15 {
        subject
            .write_agent(&number.to_string(), Some(&largest))
            .await;
    }
    let refused = write("more", Some(&largest), Expected::Any);
    let limit = StoreError::limit(Limit::CollectionBytes, 2 << 20);
    assert_eq!(subject.try_write(&refused).await, Err(limit.clone()));
    let smaller = &largest[..largest.len() - 100];
    subject.write_agent("more", Some(smaller)).await;
    let refused = write("more", Some(&largest), Expected::Any);
    assert_eq!(subject.try_write(&refused).await, Err(limit));
    // Whatever makes a collection smaller is taken.
    subject.write_agent("0", None).await;
    subject.write_agent("more", Some(&largest)).await;
    let other = DocumentWrite {
        collection: Collection::new(SPACE, DocumentKind::Page),
        ..write("a", Some(&largest), Expected::Any)
    };
    subject.try_write(&other).await.unwrap();
}

pub async fn thousands_of_documents_are_listed_and_watched(subject: &Subject) {
    const COUNT: usize = 5000;
    let ids: Vec<_> = (0..COUNT).map(|number| format!("d{number}")).collect();
    let (_, beginning) = subject.documents(&agents()).await;
    for some in ids.chunks(250) {
        let puts = some.iter().map(|id| subject.write_agent(id, Some("value")));
        join_all(puts).await;
    }
    let one_more = write("more", Some("value"), Expected::Any);
    let limit = StoreError::limit(Limit::Documents, COUNT as u64);
    assert_eq!(subject.try_write(&one_more).await, Err(limit));
    subject.write_agent("d7", Some("another")).await;
    let (documents, position) = subject.documents(&agents()).await;
    assert_eq!(documents.len(), COUNT);
    assert_eq!(position.counter, COUNT as u64 + 1);
    let versions: Vec<_> = documents.iter().map(|document| document.version).collect();
    assert!(versions.is_sorted_by(|one, two| one < two));
    for after in [None, Some(beginning)] {
        let mut watcher = Watcher::open(subject, after).await;
        watcher.catch_up().await;
        assert_eq!(watcher.documents.len(), COUNT);
        assert_eq!(watcher.documents["d7"], bytes("another"));
        assert_eq!(watcher.counter(), position.counter);
    }
    subject.write_agent("d7", None).await;
    subject.try_write(&one_more).await.unwrap();
}

pub async fn tombstones_of_documents_go_after_thirty_days(subject: &Subject) {
    let store = &subject.store;
    for id in ["a", "b", "c", "again"] {
        subject.write_agent(id, Some("1")).await;
    }
    subject.write_agent("a", None).await;
    subject.write_agent("again", None).await;
    subject.pass(A_MONTH / 2).await;
    subject.write_agent("b", None).await;
    subject.write_agent("again", Some("2")).await;
    subject.pass(A_MONTH / 2 - 1000).await;
    assert_eq!(store.purge_documents(10).await, Ok(0));
    subject.pass(1001).await;
    assert_eq!(store.purge_documents(0).await, Ok(0));
    assert_eq!(store.purge_documents(10).await, Ok(1));
    assert_eq!(store.purge_documents(10).await, Ok(0));
    assert_eq!(subject.agents().await, "3:c=1 7:-b 8:again=2");
    let head = store.document_head(&agents()).await.unwrap();
    assert_eq!((head.counter, head.floor), (8, 5));
    subject.pass(A_MONTH).await;
    assert_eq!(store.purge_documents(10).await, Ok(1));
    assert_eq!(subject.agents().await, "3:c=1 8:again=2");
    let head = store.document_head(&agents()).await.unwrap();
    assert_eq!((head.counter, head.floor), (8, 7));
    // Versions go on, also of a document that nothing is left of.
    assert_eq!(subject.write_agent("a", Some("2")).await, 9);
}
