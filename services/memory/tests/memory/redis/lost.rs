//! Lost replies, lost scripts, lost patience: what was asked is found out by asking again.

use crate::support::work::{claim, creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn open(url: String) -> RedisStore {
    let config = RedisConfig::standalone(url);
    RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap()
}

/// Stands between a store and its server, and can cut a connection in place of a reply.
struct Proxy {
    port: u16,
    /// Which of the replies to come is cut off; 0 for none.
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    async fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            cuts: Arc::default(),
        };
        let (port, cuts) = (server.port(), proxy.cuts.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(forward(client, server, cuts.clone()));
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server gets the next request, and its reply never comes.
    fn cut(&self) {
        self.cut_reply(1);
    }

    /// The server gets so many requests, and the reply to the last of them never comes.
    fn cut_reply(&self, number: usize) {
        self.cuts.store(number, Ordering::SeqCst);
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, cuts: Arc<AtomicUsize>) {
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(length) if length > 0 => server.write_all(&asked[..length]).await.unwrap(),
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(length) if length > 0 => {
                    let number = cuts.load(Ordering::SeqCst);
                    cuts.store(number.saturating_sub(1), Ordering::SeqCst);
                    if number == 1 {
                        return;
                    }
                    if client.write_all(&answered[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

/// Asks; if replies are to be lost, with the reply cut off, which must be told as unknown, and then
/// again.
async fn ask<T: std::fmt::Debug, F: Future<Output = StoreResult<T>>>(
    proxy: Option<&Proxy>,
    ask: impl Fn() -> F,
) -> T {
    if let Some(proxy) = proxy {
        proxy.cut();
        let lost = ask().await;
        assert!(matches!(lost, Err(StoreError::Unknown { .. })), "{lost:?}");
    }
    ask().await.unwrap()
}

/// The first of several commands only reads: without its reply, nothing is written.
fn check_lost<T: std::fmt::Debug>(reply: usize, lost: &StoreResult<T>) {
    let is_reported = match lost {
        Err(StoreError::Unavailable { .. }) => reply == 1,
        Err(StoreError::Unknown { .. }) => reply > 1,
        _ => false,
    };
    assert!(is_reported, "reply {reply}: {lost:?}");
}

fn command(session: &str) -> AppendCommand {
    AppendCommand {
        key: key(session),
        request: RequestId {
            id: "command".to_owned(),
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

/// A session's life, with or without each reply lost once.
async fn live(store: &RedisStore, session: &str, proxy: Option<&Proxy>) {
    let (a, is_repeated) = (key(session), proxy.is_some());
    let created = ask(proxy, || store.create(creation(session, Some("one")))).await;
    assert_eq!(created.duplicate, is_repeated);
    assert!(created.lease.is_some());
    let committed = ask(proxy, || store.commit(transition(session, "one", 0))).await;
    assert_eq!((committed.duplicate, committed.first_seq), (is_repeated, 2));
    assert!(committed.owned());
    let appended = ask(proxy, || store.append_command(command(session))).await;
    assert_eq!((appended.duplicate, appended.seq), (is_repeated, 3));
    // A look, the bytes, and what counts them.
    for reply in 1..=3 {
        let blob = Bytes::from(format!("blob {reply}"));
        if let Some(proxy) = proxy {
            proxy.cut_reply(reply);
            let lost = store.put_blob(&a, blob.clone(), BlobUse::Event).await;
            check_lost(reply, &lost);
        }
        let digest = store
            .put_blob(&a, blob.clone(), BlobUse::Event)
            .await
            .unwrap();
        assert_eq!(store.get_blob(&a, &digest).await, Ok(blob));
    }
    if let Some(proxy) = proxy {
        proxy.cut();
        let lost = store.read(&a, 0, 10).await;
        let is_told = matches!(lost, Err(StoreError::Unavailable { .. }));
        assert!(is_told, "{lost:?}");
    }
    assert_eq!(store.read(&a, 0, 10).await.unwrap().last_seq, 3);
    let release = || ReleaseRequest {
        key: a.clone(),
        owner: "one".to_owned(),
        epoch: 1,
        delay_ms: 0,
    };
    ask(proxy, || store.release(release())).await;
    assert_eq!(ask(proxy, || store.delete(&a)).await, !is_repeated);
    assert_eq!(
        store.read(&a, 0, 1).await,
        Err(StoreError::Terminal(End::Deleted))
    );
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_a_repeat_finds_out() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server).await;
    let store = open(proxy.url()).await;
    // Afterwards the server knows all scripts, so that the first reply is the one.
    live(&store, "a", None).await;
    live(&store, "b", Some(&proxy)).await;
}

#[tokio::test]
async fn scripts_that_a_server_forgot_are_told_again() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    for version in 0..5 {
        server.ask(&["SCRIPT", "FLUSH"]);
        let committed = store.commit(transition("a", "one", version)).await.unwrap();
        assert_eq!(
            (committed.duplicate, committed.first_seq),
            (false, 2 + version)
        );
    }
    server.ask(&["SCRIPT", "FLUSH"]);
    // All partitions at once.
    for number in 0..20 {
        store
            .create(creation(&format!("s{number}"), None))
            .await
            .unwrap();
        let command = command(&format!("s{number}"));
        store.append_command(command).await.unwrap();
    }
    server.ask(&["SCRIPT", "FLUSH"]);
    let all = ClaimRequest {
        max_sessions: 100,
        ..claim("two")
    };
    assert_eq!(store.claim(all).await.unwrap().claims.len(), 20);
}

#[tokio::test]
async fn nobody_waits_long_for_a_frozen_server() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    server.freeze();
    let start = Instant::now();
    let a = key("a");
    let (read, committed) = tokio::join!(
        store.read(&a, 0, 10),
        store.commit(transition("a", "one", 0)),
    );
    // Silence ends a connection after five seconds.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(
        matches!(read, Err(StoreError::Unavailable { .. })),
        "{read:?}"
    );
    assert!(
        // On a busy machine it is asked first whether it is still the same server.
        matches!(
            committed,
            Err(StoreError::Unknown { .. } | StoreError::Unavailable { .. })
        ),
        "{committed:?}"
    );
    server.thaw();
    // What was on its way has happened; a repeat finds out.
    let committed = again(|| store.commit(transition("a", "one", 0))).await;
    assert_eq!(committed.first_seq, 2);
    assert_eq!(store.read(&a, 0, 10).await.unwrap().last_seq, 2);
}

/// Asks until the store is there again.
async fn again<T: std::fmt::Debug, F: Future<Output = StoreResult<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                tokio::task::yield_now().await;
            }
            outcome => return outcome.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_store_that_is_closed_answers_nothing_more() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    let mut events = store.follow(&key("a"), 1).await.unwrap();
    store.close().await;
    store.close().await;
    let closed = store.commit(transition("a", "one", 0)).await.unwrap_err();
    assert!(closed.is_closed(), "{closed}");
    let mut last = None;
    while let Some(batch) = futures::StreamExt::next(&mut events).await {
        last = Some(batch);
    }
    assert!(last.unwrap().unwrap_err().is_closed());
}

/// A look, the state, and the transition that names it.
#[tokio::test]
async fn a_transition_with_a_checkpoint_is_found_after_each_lost_reply() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server).await;
    let store = open(proxy.url()).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    for (version, reply) in (0..).zip(1..=3) {
        let checkpoint = Checkpoint {
            through_seq: 1 + version,
            state: format!("state {version}").into(),
        };
        let commit = Commit {
            checkpoint: Some(checkpoint.clone()),
            ..transition("a", "one", version)
        };
        proxy.cut_reply(reply);
        check_lost(reply, &store.commit(commit.clone()).await);
        let made = store.commit(commit).await.unwrap();
        assert_eq!(made.duplicate, reply == 3);
        let found = store.checkpoint(&key("a"), u64::MAX).await;
        assert_eq!(found, Ok(Some(checkpoint)));
    }
}
