//! Sessions that come from an archive.

use crate::support::{Fault, World, chain, count, for_tenant, model_step, put_newer, tool_step};
use bytes::Bytes;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use futures::stream;
use sha2::Digest as _;

/// What an archive has of a session that has done its work.
async fn archived(world: &World, session: &str) -> Vec<pb::ArchivedEvent> {
    let page = world.journal.read(session, 0).await;
    assert_eq!(page.last_seq, page.events.len() as u64);
    let event = |stored: memory_pb::StoredEvent| pb::ArchivedEvent {
        event: stored.event,
        blob: Bytes::new(),
        ends: true,
    };
    page.events.into_iter().map(event).collect()
}

/// A world with a session that has ended, and what an archive would have of it.
async fn finished() -> (World, String, Vec<pb::ArchivedEvent>) {
    let world = World::new().await;
    let session = world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    world.ended(&session).await;
    let events = archived(&world, &session).await;
    (world, session, events)
}

fn start(session: &str, events: &[pb::ArchivedEvent]) -> pb::ImportStart {
    pb::ImportStart {
        session: session.to_owned(),
        request_id: "import".to_owned(),
        last_seq: events.len() as u64,
        ..pb::ImportStart::default()
    }
}

/// The request in messages of so many events.
fn messages(
    start: &pb::ImportStart,
    events: &[pb::ArchivedEvent],
    size: usize,
) -> Vec<pb::ImportSessionRequest> {
    let mut start = Some(start.clone());
    let message = |events: &[pb::ArchivedEvent]| pb::ImportSessionRequest {
        start: start.take(),
        events: events.to_vec(),
        blobs: Vec::new(),
    };
    events.chunks(size).map(message).collect()
}

async fn send(
    world: &World,
    messages: Vec<pb::ImportSessionRequest>,
) -> Result<pb::ImportSessionResponse, RpcError> {
    let mut client = world.client.clone();
    let imported = world.until(client.import_session(stream::iter(messages)));
    Ok(imported.await?.into_inner())
}

async fn shown(world: &World, session: &str) -> pb::Session {
    let session = session.to_owned();
    let request = pb::GetSessionRequest { session };
    let shown = world.client.clone().get_session(request).await.unwrap();
    shown.into_inner().session.unwrap()
}

async fn state(world: &World, session: &str) -> pb::GetStateResponse {
    let (session, at_seq) = (session.to_owned(), 0);
    let request = pb::GetStateRequest { session, at_seq };
    let state = world.client.clone().get_state(request).await.unwrap();
    state.into_inner()
}

#[tokio::test(start_paused = true)]
async fn a_session_comes_back_as_it_was_and_can_go_on() {
    let (old, session, events) = finished().await;
    for size in [1, 3, 1000] {
        let new = World::new().await;
        let request = messages(&start(&session, &events), &events, size);
        let imported = send(&new, request.clone()).await.unwrap();
        assert_eq!((&imported.session, imported.duplicate), (&session, false));
        assert_eq!(archived(&new, &session).await, events);
        assert_eq!(shown(&new, &session).await, shown(&old, &session).await);
        assert_eq!(state(&new, &session).await, state(&old, &session).await);
        let again = send(&new, request).await.unwrap();
        assert_eq!((&again.session, again.duplicate), (&session, true));
        assert_eq!(new.listed(10).await.len(), 1);

        let request = pb::StartRunRequest {
            session: session.clone(),
            request_id: new.request_id(),
            run: Some(chain(vec![model_step("think")])),
            ..pb::StartRunRequest::default()
        };
        let mut client = new.client.clone();
        let started = new.until(client.start_run(request)).await.unwrap();
        assert_eq!(started.into_inner().run, 2);
        let attempt = new.attempt().await;
        assert_eq!(attempt.start.session, session);
    }
}

#[tokio::test(start_paused = true)]
async fn under_another_id_it_is_a_fork() {
    let (world, session, events) = finished().await;
    let other = pb::ImportStart {
        new_session: "other".to_owned(),
        ..start(&session, &events)
    };
    let imported = send(&world, messages(&other, &events, 4)).await.unwrap();
    assert_eq!(imported.session, "other");
    let journal = world.journal.events("other").await;
    assert_eq!(journal.len(), events.len() + 1);
    assert_eq!(count(&journal, "ForkedFrom"), 1);
    let origin = shown(&world, "other").await.forked_from.unwrap();
    assert_eq!((origin.session, origin.seq), (session, events.len() as u64));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_not_ended_is_not_restored_and_is_paused_in_a_fork() {
    let world = World::new().await;
    let session = world.start(chain(vec![tool_step("effectful")])).await;
    let _theirs = world.attempt().await;
    let events = archived(&world, &session).await;
    let new = World::new().await;
    let own = start(&session, &events);
    let refused = send(&new, messages(&own, &events, 4)).await.unwrap_err();
    assert_eq!(refused.reason_name(), "RUN_ACTIVE", "{refused}");
    assert!(new.listed(10).await.is_empty());
    let other = pb::ImportStart {
        new_session: "other".to_owned(),
        ..own
    };
    send(&new, messages(&other, &events, 4)).await.unwrap();
    assert_eq!(new.run("other").await.status(), pb::RunStatus::Paused);
    assert!(new.other_attempts().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_not_free_is_refused() {
    let (world, session, events) = finished().await;
    let request = messages(&start(&session, &events), &events, 4);
    let refused = send(&world, request.clone()).await.unwrap_err();
    assert_eq!(refused.reason_name(), "REQUEST_MISMATCH");
    let delete = pb::DeleteSessionRequest {
        session: session.clone(),
    };
    world.client.clone().delete_session(delete).await.unwrap();
    let refused = send(&world, request).await.unwrap_err();
    assert_eq!(refused.reason_name(), "TERMINAL");
}

#[tokio::test(start_paused = true)]
async fn an_import_continues_where_it_was() {
    let (_old, session, events) = finished().await;
    let world = World::new().await;
    let request = |size| messages(&start(&session, &events), &events, size);
    for sent in 1..4 {
        world.faults.next("CopyEvents", Fault::LoseAnswer, 1);
        assert!(send(&world, request(2)).await.is_err());
        // Its client ends in between.
        let mut begun = request(2);
        begun.truncate(sent);
        let refused = send(&world, begun).await.unwrap_err();
        assert_eq!(refused.violations()[0].field, "events", "{refused}");
        assert!(world.listed(10).await.is_empty());
    }
    let (one, two) = tokio::join!(send(&world, request(1)), send(&world, request(3)));
    assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
    let last = send(&world, request(5)).await.unwrap();
    assert!(last.duplicate);
    assert_eq!(archived(&world, &session).await, events);
}

#[tokio::test(start_paused = true)]
async fn what_a_broken_import_brought_is_not_sent_to_the_store_again() {
    let (_old, session, events) = finished().await;
    let world = World::new().await;
    let whole = messages(&start(&session, &events), &events, 1);
    let brought = whole.len() - 2;
    send(&world, whole[..brought].to_vec()).await.unwrap_err();
    let before = world.faults.calls("CopyEvents");
    send(&world, whole).await.unwrap();
    // It asks how far the copy is, brings two events, and completes it.
    assert_eq!(world.faults.calls("CopyEvents") - before, 4);
    assert_eq!(archived(&world, &session).await, events);
}

/// All or nothing, and the error names the place.
#[tokio::test(start_paused = true)]
async fn what_is_no_journal_never_becomes_a_session() {
    type Change = fn(&mut Vec<pb::ArchivedEvent>);
    let (_old, session, events) = finished().await;
    let changes: [(&str, Change); 7] = [
        ("events[2].event", |events| drop(events.remove(2))),
        ("events[1].event", |events| events.swap(1, 3)),
        ("events[3].event", |events| {
            events[3].event = Bytes::from_static(b"\xff")
        }),
        ("events[3].event", |events| events[3].event = Bytes::new()),
        ("events[3].blob", |events| {
            events[3].blob = Bytes::from_static(b"data")
        }),
        ("events", |events| drop(events.pop())),
        ("events", |events| events.push(events[1].clone())),
    ];
    let world = World::new().await;
    let whole = start(&session, &events);
    for (field, change) in changes {
        let mut changed = events.clone();
        change(&mut changed);
        let refused = send(&world, messages(&whole, &changed, 1000))
            .await
            .unwrap_err();
        let [violation] = refused.violations() else {
            panic!("{field}: {refused}");
        };
        assert_eq!(violation.field, field, "{refused}");
        assert!(world.listed(10).await.is_empty(), "{field}");
    }
    let mut open = events.clone();
    open.last_mut().unwrap().ends = false;
    let refused = send(&world, messages(&whole, &open, 1000))
        .await
        .unwrap_err();
    assert!(
        refused.violations()[0].field.ends_with(".ends"),
        "{refused}"
    );
    let mut twice = messages(&whole, &events, 3);
    twice[1].start = Some(whole.clone());
    let refused = send(&world, twice).await.unwrap_err();
    assert_eq!(refused.violations()[0].field, "start");
    let refused = send(&world, Vec::new()).await.unwrap_err();
    assert_eq!(refused.violations()[0].field, "start");
    assert!(world.listed(10).await.is_empty());
    // Nothing of all that is in the way of the whole journal.
    let imported = send(&world, messages(&whole, &events, 1000)).await.unwrap();
    assert_eq!(imported.session, session);
}

/// Makes these events, by their seq, list blobs; answers the blobs in the order of the events.
fn list_blobs(events: &mut [pb::ArchivedEvent], lists: &[(usize, &[&'static str])]) -> Vec<Bytes> {
    let mut all = Vec::new();
    for (seq, texts) in lists {
        let stored = &mut events[seq - 1].event;
        let mut event: wire::Event = prost::Message::decode(stored.clone()).unwrap();
        for text in *texts {
            let data = Bytes::from_static(text.as_bytes());
            let (digest, size) = (digest_of(&data), 3);
            event.blobs.push(wire::Blob { digest, size });
            all.push(data);
        }
        *stored = prost::Message::encode_to_vec(&event).into();
    }
    all
}

fn digest_of(data: &[u8]) -> String {
    cairn_engine::key::hex(&sha2::Sha256::digest(data))
}

/// A message with blobs, and with the events of these places.
fn message(
    blobs: &[Bytes],
    events: &[pb::ArchivedEvent],
    places: std::ops::Range<usize>,
) -> pb::ImportSessionRequest {
    pb::ImportSessionRequest {
        start: None,
        events: events[places].to_vec(),
        blobs: blobs.to_vec(),
    }
}

async fn blob(world: &World, session: &str, data: &[u8]) -> Option<Bytes> {
    let request = memory_pb::GetBlobRequest {
        session: session.to_owned(),
        digest: digest_of(data),
    };
    let found = world.journal.0.clone().get_blob(for_tenant(request)).await;
    found.ok().map(|found| found.into_inner().data)
}

/// However the blobs are spread over messages, and however often the stream breaks.
#[tokio::test(start_paused = true)]
async fn the_blobs_of_an_event_come_with_it_or_before() {
    let (_old, session, mut events) = finished().await;
    let all = events.len();
    let lists: [(usize, &[&str]); 3] = [(2, &["one", "two"]), (3, &["two"]), (5, &["six", "one"])];
    let blobs = list_blobs(&mut events, &lists);
    let messages = || {
        let mut messages = vec![
            message(&[], &events, 0..1),
            message(&blobs[..1], &events, 0..0),
            // The rest of event 2, event 3, and one of event 5.
            message(&blobs[1..4], &events, 1..4),
            message(&blobs[4..], &events, 4..all),
        ];
        messages[0].start = Some(start(&session, &events));
        messages
    };
    for (broken, brought) in [(0, 4), (1, 3), (2, 3), (3, 2)] {
        let world = World::new().await;
        if broken > 0 {
            send(&world, messages()[..broken].to_vec())
                .await
                .unwrap_err();
        }
        let before = world.faults.calls("CopyEvents");
        send(&world, messages()).await.unwrap();
        // It asks how far the copy is, brings what is missing, and completes it.
        let calls = world.faults.calls("CopyEvents") - before;
        assert_eq!(calls, 2 + brought, "{broken}");
        assert_eq!(archived(&world, &session).await, events);
        for data in &blobs {
            assert_eq!(blob(&world, &session, data).await.as_ref(), Some(data));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_its_blobs_is_refused_by_its_number() {
    let (_old, session, mut events) = finished().await;
    let all = events.len();
    let lists: [(usize, &[&str]); 1] = [(3, &["one", "two"])];
    let blobs = list_blobs(&mut events, &lists);
    let world = World::new().await;
    let swapped = [blobs[1].clone(), blobs[0].clone()];
    let extra = [blobs.clone(), blobs.clone()].concat();
    for (sent, words) in [
        (&blobs[..0], "where event 3 lists it"),
        (&blobs[..1], "where event 3 lists it"),
        (&swapped[..], "where event 3 lists it"),
        (&extra[..], "follow the last event"),
    ] {
        let mut request = message(sent, &events, 0..all);
        request.start = Some(start(&session, &events));
        let refused = send(&world, vec![request]).await.unwrap_err();
        assert_eq!(refused.violations()[0].field, "blobs", "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        assert!(world.listed(10).await.is_empty());
    }
    let mut begun = message(&blobs[..1], &events, 0..1);
    begun.start = Some(start(&session, &events));
    // What waits from an earlier message is the next event's, and event 2 lists none.
    let refused = send(&world, vec![begun, message(&blobs[1..], &events, 1..all)]).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("more before event 2"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_newer_version_is_left_to_that_version() {
    let old = World::new().await;
    put_newer(&old, "s", 0).await;
    let events = archived(&old, "s").await;
    let world = World::new().await;
    let refused = send(&world, messages(&start("s", &events), &events, 9)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason_name(), "NEWER_VERSION");
    assert!(refused.to_string().contains("event 1"), "{refused}");
    assert!(world.listed(10).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_apart_comes_back_apart() {
    let world = World::new().await;
    let mut large = model_step("think");
    large.description = "a".repeat(60_000);
    let session = world.start(chain(vec![large.clone(), large])).await;
    let _attempt = world.attempt().await;
    let mut events = archived(&world, &session).await;
    let mut apart = 0;
    for event in &mut events {
        use cairn_proto::event::{Event, event::Kind};
        let stored: Event = prost::Message::decode(event.event.clone()).unwrap();
        if let Some(Kind::StoredApart(named)) = stored.kind {
            let request = memory_pb::GetBlobRequest {
                session: session.clone(),
                digest: named.digest,
            };
            let blob = world.journal.0.clone().get_blob(for_tenant(request)).await;
            event.blob = blob.unwrap().into_inner().data;
            apart += 1;
        }
    }
    assert!(apart > 0);
    let new = World::new().await;
    let fork = pb::ImportStart {
        new_session: "other".to_owned(),
        ..start(&session, &events)
    };
    send(&new, messages(&fork, &events, 2)).await.unwrap();
    let (was, is) = (
        world.journal.events(&session).await,
        new.journal.events("other").await,
    );
    assert_eq!(is[..was.len()], was[..]);
    // A store follows the list in the journal, so that has to be the event's own.
    let place = events.iter().position(|event| !event.blob.is_empty());
    let lists: [(usize, &[&str]); 1] = [(place.unwrap() + 1, &["one"])];
    list_blobs(&mut events, &lists);
    let refused = send(&World::new().await, messages(&fork, &events, 2)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("does not repeat the list"), "{refused}");
}
