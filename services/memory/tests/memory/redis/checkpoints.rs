//! States of checkpoints on a server: which of them there are, and who may remove them.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::{
    BlobUse, Checkpoint, Commit, ReleaseRequest, Store as _, StoreError, StoreResult,
};
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use redis::{FromRedisValue, cmd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const STATES: &str = "cairn:{p061}:s:space/a:c";
const INDEX: &str = "cairn:{p061}:s:space/a:ci";

struct Owned {
    store: RedisStore,
    server: RedisServer,
}

impl Owned {
    /// A store with session "a", which "one" owns.
    async fn new() -> Self {
        let server = RedisServer::start();
        let config = RedisConfig::standalone(server.url());
        let store = RedisStore::open(&config, RedisOptions::default()).await;
        let store = store.unwrap();
        store.create(creation("a", Some("one"))).await.unwrap();
        Self { store, server }
    }

    fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let (name, words) = command.split_first().unwrap();
        cmd(name).arg(words).query(&mut connection).unwrap()
    }

    /// The states on the server by their names, and the names in the index.
    fn names(&self) -> [Vec<String>; 2] {
        let mut states: Vec<String> = self.ask(&["HKEYS", STATES]);
        states.sort_unstable();
        [states, self.ask(&["ZRANGE", INDEX, "0", "-1"])]
    }

    async fn newest(&self) -> (u64, Vec<u8>) {
        let found = self.store.checkpoint(&key("a"), u64::MAX).await.unwrap();
        let found = found.unwrap();
        (found.through_seq, found.state.to_vec())
    }
}

/// Transition `version`, with a checkpoint of all that was before it.
fn with_checkpoint(owner: &str, version: u64, state: &str) -> Commit {
    Commit {
        checkpoint: Some(Checkpoint {
            through_seq: 1 + version,
            state: state.to_owned().into(),
        }),
        ..transition("a", owner, version)
    }
}

fn hand_over(epoch: u64) -> ReleaseRequest {
    ReleaseRequest {
        key: key("a"),
        owner: "one".to_owned(),
        epoch,
        delay_ms: 0,
    }
}

#[tokio::test]
async fn a_state_without_a_transition_is_removed_with_the_next_checkpoint() {
    let owned = Owned::new().await;
    let store = &owned.store;
    store
        .commit(with_checkpoint("one", 0, "first"))
        .await
        .unwrap();
    // As an owner leaves it that dies before its transition.
    let _: u64 = owned.ask(&["HSET", STATES, "2.0123", "orphan"]);
    assert_eq!(
        owned.newest().await,
        (1, b"first".to_vec()),
        "nobody reads it"
    );
    store
        .commit(with_checkpoint("one", 1, "second"))
        .await
        .unwrap();
    let [states, index] = owned.names();
    assert_eq!(states, index, "the orphan is gone");
    assert_eq!(index.len(), 2);
    assert_eq!(owned.newest().await, (2, b"second".to_vec()));
}

#[tokio::test]
async fn a_fenced_owner_leaves_the_checkpoints_of_its_successor_alone() {
    let owned = Owned::new().await;
    let store = &owned.store;
    store
        .commit(with_checkpoint("one", 0, "first"))
        .await
        .unwrap();
    store.release(hand_over(1)).await.unwrap();
    let claims = store.claim(crate::support::work::claim("two")).await;
    assert_eq!(claims.unwrap().claims[0].lease.epoch, 2);
    let theirs = Commit {
        epoch: 2,
        ..with_checkpoint("two", 1, "the successor's")
    };
    store.commit(theirs.clone()).await.unwrap();
    let before = owned.names();
    // The same state at the same seq, another one, and one of a transition that was made long ago.
    for (version, state) in [
        (1, "the successor's"),
        (1, "another"),
        (2, "later"),
        (0, "first"),
    ] {
        let late = Commit {
            operation_id: "late".to_owned(),
            ..with_checkpoint("one", version, state)
        };
        let refused = store.commit(late).await;
        assert_eq!(refused.map(drop), Err(StoreError::Fenced));
        assert_eq!(owned.names(), before);
    }
    assert_eq!(owned.newest().await, (2, b"the successor's".to_vec()));
    // A retry whose first answer was lost.
    assert!(store.commit(theirs).await.unwrap().duplicate);
    assert_eq!(owned.names(), before);
}

#[tokio::test]
async fn a_state_that_a_server_lost_costs_time_only() {
    let owned = Owned::new().await;
    let store = &owned.store;
    for (version, state) in [(0, "first"), (1, "second")] {
        let made = store.commit(with_checkpoint("one", version, state)).await;
        made.unwrap();
    }
    let [states, _] = owned.names();
    let _: u64 = owned.ask(&["HDEL", STATES, &states[1]]);
    assert_eq!(owned.newest().await, (1, b"first".to_vec()));
    let _: u64 = owned.ask(&["DEL", STATES]);
    let none: StoreResult<_> = store.checkpoint(&key("a"), u64::MAX).await;
    assert_eq!(none, Ok(None));
}

/// A script would copy it twice more, while nobody else is served.
#[tokio::test]
async fn no_script_is_given_a_state_or_a_blob() {
    const LARGE: usize = 2 << 20;
    let owned = Owned::new().await;
    let store = &owned.store;
    let state = "s".repeat(LARGE);
    let _: String = owned.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _: String = owned.ask(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    store
        .commit(with_checkpoint("one", 0, &state))
        .await
        .unwrap();
    assert_eq!(owned.newest().await.1.len(), LARGE);
    let blob = store
        .put_blob(&key("a"), vec![7; LARGE].into(), BlobUse::Event)
        .await;
    let blob = store.get_blob(&key("a"), &blob.unwrap()).await;
    assert_eq!(blob.unwrap().len(), LARGE);
    type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
    let log: Vec<Entry> = owned.ask(&["SLOWLOG", "GET", "-1"]);
    // The log abbreviates long arguments, and says how many bytes are left out.
    let is_large = |argument: &Vec<u8>| argument.ends_with(b"more bytes)");
    let large = log.iter().filter(|entry| entry.3.iter().any(is_large));
    let commands: Vec<_> = large
        .map(|entry| str::from_utf8(&entry.3[0]).unwrap())
        .collect();
    assert!(commands.contains(&"HSET"), "{commands:?}");
    let is_bare = |command: &&str| matches!(*command, "HSET" | "SCRIPT");
    assert!(commands.iter().all(is_bare), "{commands:?}");
}

/// Stands between a store and its server. What follows the first 512 KiB of a connection waits until it is
/// let pass.
struct Narrow {
    url: String,
    is_open: watch::Sender<bool>,
    /// How many connections wait.
    waiting: watch::Receiver<usize>,
}

const PASSES: usize = 512 * 1024;

impl Narrow {
    async fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (is_open, opened) = watch::channel(false);
        let (waits, waiting) = watch::channel(0);
        let port = server.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut asked, mut answered) = client.into_split();
                let (mut answers, mut questions) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut answered).await });
                let (mut opened, waits) = (opened.clone(), waits.clone());
                tokio::spawn(async move {
                    let (mut buffer, mut passed) = (vec![0; 65536], 0);
                    while let Ok(length @ 1..) = asked.read(&mut buffer).await {
                        if passed > PASSES && !*opened.borrow() {
                            waits.send_modify(|count| *count += 1);
                            let _ = opened.wait_for(|is_open| *is_open).await;
                        }
                        passed += length;
                        if questions.write_all(&buffer[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            url,
            is_open,
            waiting,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_behind_a_large_checkpoint() {
    let server = RedisServer::start();
    let mut narrow = Narrow::before(&server).await;
    let config = RedisConfig::standalone(narrow.url.clone());
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = std::sync::Arc::new(store.unwrap());
    for session in ["a", "b"] {
        store.create(creation(session, Some("one"))).await.unwrap();
    }
    let state = "s".repeat(2 << 20);
    let large = with_checkpoint("one", 0, &state);
    let there = store.clone();
    let committing = tokio::spawn(async move { there.commit(large).await });
    narrow.waiting.wait_for(|count| *count > 0).await.unwrap();
    let other = store.commit(transition("b", "one", 0)).await;
    assert_eq!(other.unwrap().first_seq, 2);
    narrow.is_open.send_replace(true);
    assert_eq!(committing.await.unwrap().unwrap().first_seq, 2);
    let found = store.checkpoint(&key("a"), u64::MAX).await.unwrap();
    assert_eq!(found.unwrap().state, state);
}
