//! Two stores on one server, as two processes have them: each hears what the other does.

use crate::support::work::{claim, creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisProbe, RedisStore};
use cairn_testkit::RedisServer;
use futures::StreamExt as _;
use std::time::{Duration, Instant};

/// Below the second after which each store looks by itself. A store without notices is late every time; a busy
/// machine makes it late only sometimes.
const SOON: Duration = Duration::from_millis(800);

async fn open(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::standalone(server.url());
    RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap()
}

fn waiting(owner: &str) -> ClaimRequest {
    ClaimRequest {
        wait: Duration::from_secs(20),
        ..claim(owner)
    }
}

fn command(session: &str, id: &str) -> AppendCommand {
    AppendCommand {
        key: key(session),
        request: RequestId {
            id: id.to_owned(),
            digest: Bytes::from("digest"),
        },
        event: Bytes::from("command"),
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
    }
}

/// The events of one batch, and how long they took to come.
async fn next(events: &mut EventStream) -> (Vec<u64>, Duration) {
    let start = Instant::now();
    let batch = events.next().await.unwrap().unwrap();
    let seqs = batch.iter().map(|stored| stored.seq).collect();
    (seqs, start.elapsed())
}

#[tokio::test]
async fn a_follower_hears_of_events_and_of_the_end() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    here.create(creation("a", Some("one"))).await.unwrap();
    let mut events = there.follow(&key("a"), 0).await.unwrap();
    assert_eq!(next(&mut events).await.0, [1]);
    assert_eq!(next(&mut events).await.0, Vec::<u64>::new());
    // It may not be subscribed yet; from the first event on it is.
    here.commit(transition("a", "one", 0)).await.unwrap();
    assert_eq!(next(&mut events).await.0, [2]);
    let mut late = Vec::new();
    for version in 1..20 {
        here.commit(transition("a", "one", version)).await.unwrap();
        let (seqs, took) = next(&mut events).await;
        assert_eq!(seqs, [2 + version]);
        late.extend((took >= SOON).then_some(took));
    }
    assert!(late.len() < 10, "{late:?}");
    here.delete(&key("a")).await.unwrap();
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_claimer_hears_of_work() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    let (told, mut claimed) = tokio::sync::mpsc::unbounded_channel();
    let claimer = tokio::spawn(async move {
        while let Ok(claims) = there.claim(waiting("two")).await {
            for claim in claims.claims {
                told.send(claim.key).unwrap();
            }
        }
    });
    let mut late = Vec::new();
    for round in 0..10 {
        let session = format!("s{round}");
        here.create(creation(&session, None)).await.unwrap();
        let start = Instant::now();
        here.append_command(command(&session, "c")).await.unwrap();
        assert_eq!(claimed.recv().await, Some(key(&session)));
        // The first time it may have begun to listen too late.
        let took = start.elapsed();
        late.extend((round > 0 && took >= SOON).then_some(took));
    }
    assert!(late.len() < 5, "{late:?}");
    claimer.abort();
}

#[tokio::test]
async fn an_owner_hears_of_a_command_that_another_process_took() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    // Asks once, so that it listens when the command comes.
    there.claim(claim("two")).await.unwrap();
    there.create(creation("a", Some("two"))).await.unwrap();
    let mut woken = Vec::new();
    for number in 0..50 {
        let id = format!("command {number}");
        here.append_command(command("a", &id)).await.unwrap();
        let soon = ClaimRequest {
            wait: SOON,
            ..claim("two")
        };
        woken = there.claim(soon).await.unwrap().woken;
        if !woken.is_empty() {
            break;
        }
    }
    assert_eq!(woken, [key("a")]);
}

#[tokio::test]
async fn what_is_shown_reaches_listeners_in_other_processes_once_and_in_order() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    let mut mine = here.deltas(&key("a")).await.unwrap();
    let mut theirs = there.deltas(&key("a")).await.unwrap();
    for number in 0..20 {
        let delta = Bytes::from(format!("delta {number}"));
        here.publish_delta(&key("a"), delta).await.unwrap();
    }
    for number in 0..20 {
        let delta = Some(Bytes::from(format!("delta {number}")));
        assert_eq!(mine.next().await, delta);
        assert_eq!(theirs.next().await, delta);
    }
}

#[tokio::test]
async fn a_follower_goes_on_when_the_server_was_killed() {
    let mut server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    here.create(creation("a", Some("one"))).await.unwrap();
    let mut events = there.follow(&key("a"), 1).await.unwrap();
    assert_eq!(next(&mut events).await.0, Vec::<u64>::new());
    server.kill();
    server.start_again();
    let mut outcome = here.commit(transition("a", "one", 0)).await;
    while let Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) = outcome {
        outcome = here.commit(transition("a", "one", 0)).await;
    }
    assert_eq!(outcome.unwrap().first_seq, 2);
    assert_eq!(next(&mut events).await.0, [2]);
}

#[tokio::test]
async fn nothing_is_missed_without_any_hints() {
    let server = RedisServer::start();
    server.ask(&[
        "ACL",
        "SETUSER",
        "deaf",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-ssubscribe",
    ]);
    let url = format!("redis://deaf:secret@127.0.0.1:{}", server.port());
    let deaf = RedisStore::open(&RedisConfig::standalone(url), RedisOptions::default()).await;
    let (here, deaf) = (open(&server).await, deaf.unwrap());
    here.create(creation("a", Some("one"))).await.unwrap();
    here.create(creation("b", None)).await.unwrap();
    let mut events = deaf.follow(&key("a"), 1).await.unwrap();
    assert_eq!(next(&mut events).await.0, Vec::<u64>::new());
    let work = async {
        here.commit(transition("a", "one", 0)).await.unwrap();
        here.append_command(command("b", "c")).await.unwrap();
    };
    let ((), claims) = tokio::join!(work, deaf.claim(waiting("two")));
    assert_eq!(claims.unwrap().claims[0].key, key("b"));
    assert_eq!(next(&mut events).await.0, [2]);
    here.delete(&key("a")).await.unwrap();
    assert!(events.next().await.is_none());
}

/// Benchmarks divide by the rate of the bare script, so it has to make the store's own transition.
#[tokio::test]
async fn the_bare_script_makes_transitions_that_the_store_reads() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = open(&server).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    let probe = RedisProbe::connect(&config, &store).await.unwrap();
    let mut session = probe.session(&config, &key("a"), "one");
    session.learn().await;
    for event in ["first", "second"] {
        assert!(session.commit(event.as_bytes()).await);
    }
    let read = store.read(&key("a"), 1, 10).await.unwrap();
    let events: Vec<_> = read.events.iter().map(|stored| &stored.event[..]).collect();
    assert_eq!(events, [&b"first"[..], b"second"]);
}
