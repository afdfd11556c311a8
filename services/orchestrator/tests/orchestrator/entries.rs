//! Entries of session memory in sessions that begin as copies.

use crate::support::{World, chain, for_tenant, model_step, reply};
use bytes::Bytes;
use cairn_proto::memory::{ListMemoryRequest, MemoryEntry, SetMemoryRequest, StoredEvent};
use cairn_proto::orchestrator as pb;
use futures::stream;
use std::time::Duration;

async fn set(world: &World, session: &str, key: &str, notes: &[(&str, &str)]) {
    world.pass(Duration::from_millis(50)).await;
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let request = SetMemoryRequest {
        session: session.to_owned(),
        key: key.to_owned(),
        value: "of a client".to_owned(),
        metadata: notes.iter().map(owned).collect(),
    };
    let set = world.memory.clone().set_memory(for_tenant(request)).await;
    set.expect("memory is set");
}

/// The entries without the names that follow from the session.
async fn entries(world: &World, session: &str) -> Vec<MemoryEntry> {
    let request = ListMemoryRequest {
        session: session.to_owned(),
    };
    let list = world.memory.clone().list_memory(for_tenant(request)).await;
    let entries = list.expect("a list").into_inner().entries.into_iter();
    let unnamed = entries.map(|entry| MemoryEntry {
        id: String::new(),
        namespace: String::new(),
        ..entry
    });
    unnamed.collect()
}

/// A session whose run has ended. A model and clients have set keys.
async fn remembering(world: &World) -> String {
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    set(world, &session, "both", &[("source", "mail")]).await;
    set(
        world,
        &session,
        "client",
        &[("source", "mail"), ("by", "anne")],
    )
    .await;
    let remember = |key: &str| format!(r#"{{"key":"{key}","value":"of a model"}}"#);
    let (both, model) = (remember("both"), remember("model"));
    let calls = [
        ("session_memory_set", both.as_str()),
        ("session_memory_set", model.as_str()),
    ];
    attempt.reply(reply(0, "", &calls));
    assert!(!attempt.settled().await);
    set(world, &session, "model", &[]).await;
    let complete = r#"{"complete":true,"summary":"done"}"#;
    attempt.reply(reply(1, "", &[("step", complete)]));
    world.ended(&session).await;
    session
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_entries_of_its_source() {
    let world = World::new().await;
    let session = remembering(&world).await;
    let theirs = entries(&world, &session).await;
    let keys: Vec<_> = theirs.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["both", "client", "model"]);
    assert!(theirs[0].metadata.is_empty(), "a model replaced the value");
    assert_eq!(theirs[1].metadata.len(), 2);
    for entry in &theirs {
        let (created, updated) = (entry.create_time.unwrap(), entry.update_time.unwrap());
        let is_set_again = entry.key != "client";
        let is_later = (created.seconds, created.nanos) < (updated.seconds, updated.nanos);
        assert_eq!(is_later, is_set_again, "{entry:?}");
    }
    // A fork is made later, and of a state that was folded.
    world.pass(Duration::from_secs(1)).await;
    let request = pb::ForkSessionRequest {
        session: session.clone(),
        request_id: world.request_id(),
        ..pb::ForkSessionRequest::default()
    };
    let mut client = world.client.clone();
    let forked = world.until(client.fork_session(request)).await.unwrap();
    let child = forked.into_inner().session;
    assert_eq!(entries(&world, &child).await, theirs);
}

#[tokio::test(start_paused = true)]
async fn an_import_has_the_entries_that_were_archived() {
    let old = World::new().await;
    let session = remembering(&old).await;
    let page = old.journal.read(&session, 0).await;
    let last_seq = page.last_seq;
    let event = |stored: StoredEvent| pb::ArchivedEvent {
        event: stored.event,
        blob: Bytes::new(),
        ends: true,
    };
    let request = pb::ImportSessionRequest {
        start: Some(pb::ImportStart {
            session: session.clone(),
            request_id: "import".to_owned(),
            last_seq,
            ..pb::ImportStart::default()
        }),
        events: page.events.into_iter().map(event).collect(),
        blobs: Vec::new(),
    };
    let new = World::new().await;
    let mut client = new.client.clone();
    let imported = new.until(client.import_session(stream::iter([request])));
    imported.await.unwrap();
    assert_eq!(entries(&new, &session).await, entries(&old, &session).await);
}
