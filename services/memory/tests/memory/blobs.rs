//! Events with large blobs: no call of a copy takes long, however large they are.

use crate::support::remote::RemoteStore;
use crate::support::work::{creation, key, transition};
use bytes::Bytes;
use cairn_memory::Memory;
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_proto::event::{Blob, Event};
use cairn_rpc::{Exposure, ServerBuilder};
use prost::Message as _;
use rusqlite::Connection;
use std::sync::Arc;
use std::time::Duration;

const PART: usize = 600 << 10;
const PARTS: u8 = 5;

/// Event 2 lists blobs of 3 MiB.
async fn fill(store: &dyn Store) -> Vec<String> {
    let a = key("a");
    store.create(creation("a", Some("one"))).await.unwrap();
    let mut blobs = Vec::new();
    for fill in 0..PARTS {
        let data = Bytes::from(vec![fill; PART]);
        let digest = store.put_blob(&a, data, BlobUse::Part).await.unwrap();
        let size = u32::try_from(PART).unwrap();
        blobs.push(Blob { digest, size });
    }
    let digests = blobs.iter().map(|blob| blob.digest.clone()).collect();
    let event = Event {
        at_unix_ms: 1,
        blobs,
        ..Default::default()
    };
    let mut commit = transition("a", "one", 0);
    commit.events = vec![event.encode_to_vec().into(), "after".into()];
    store.commit(commit).await.unwrap();
    digests
}

pub(crate) async fn large_blobs_are_copied_in_several_calls(store: &dyn Store) {
    let digests = fill(store).await;
    let child = key("child");
    let copy = CopyEvents {
        source: Source::Session(key("a")),
        child: child.clone(),
        request: creation("child", None).request,
        at_seq: None,
        completion: None,
    };
    let mut through = Vec::new();
    while through.last() != Some(&3) {
        let copied = store.copy_events(copy.clone()).await.unwrap();
        assert_eq!(copied.cut_seq, 3);
        through.push(copied.copied_through);
    }
    // Two blobs a call, and an event once all of its blobs are there.
    assert_eq!(through.len(), 3, "{through:?}");
    assert!(through[..2].iter().all(|&seq| seq < 2), "{through:?}");
    let completed = CopyEvents {
        completion: Some(Completion {
            events: Vec::new(),
            memory: Vec::new(),
            header: Header::default(),
            due_unix_ms: None,
        }),
        ..copy
    };
    assert!(store.copy_events(completed).await.unwrap().is_complete);
    assert_eq!(store.delete(&key("a")).await, Ok(true));
    for (digest, fill) in digests.iter().zip(0..PARTS) {
        let found = store.get_blob(&child, digest).await;
        assert_eq!(found, Ok(vec![fill; PART].into()));
    }
}

fn store() -> SqliteStore {
    SqliteStore::in_memory(SqliteOptions::default()).unwrap()
}

#[tokio::test]
async fn an_event_with_large_blobs_is_copied_in_several_calls() {
    large_blobs_are_copied_in_several_calls(&store()).await;
}

#[tokio::test]
async fn an_event_with_large_blobs_is_copied_in_several_calls_over_a_link() {
    let memory = Memory::over(Arc::new(store()));
    let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let server = builder.build().await.unwrap();
    let remote = RemoteStore::new(server.link(), memory.store().clone());
    large_blobs_are_copied_in_several_calls(&remote).await;
}

/// Only a look at the whole store and an archive read the blobs that events list.
#[tokio::test]
async fn a_listed_blob_that_is_gone_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let digests = fill(&store).await;
    let file = Connection::open(&path).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    let removed = file.execute("DELETE FROM blob WHERE digest = ?1", [&digests[3]]);
    assert_eq!(removed.unwrap(), 1);
    let mut found = Vec::new();
    let report = |key: &SessionKey, part| found.push((key.clone(), part));
    store.check(report).await.unwrap();
    assert_eq!(found, [(key("a"), Stored::Blob(digests[3].clone()))]);
}
