//! Reads by several bare commands, between which others write.

use crate::support::work::{creation, key};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use futures::FutureExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The fields that are read of a session's hash after something else of it.
const SECOND: &[u8] = b"$1\r\nf\r\n$3\r\ndel\r\n";

/// Stands between a store and its server, and can hold the second of two commands back.
#[derive(Clone, Default)]
struct Gate {
    is_shut: Arc<AtomicBool>,
    came: Arc<Notify>,
    opens: Arc<Notify>,
}

impl Gate {
    /// Gives the address of the server behind it.
    async fn before(&self, server: &RedisServer) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (port, gate) = (server.port(), self.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut answers, commands) = server.into_split();
                let (asked, mut answered) = client.into_split();
                tokio::spawn(gate.clone().pass(asked, commands));
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut answered).await });
            }
        });
        url
    }

    async fn pass(self, mut asked: OwnedReadHalf, mut commands: OwnedWriteHalf) {
        let mut bytes = vec![0; 65536];
        loop {
            let length = match asked.read(&mut bytes).await {
                Ok(length) if length > 0 => length,
                _ => return,
            };
            let mut rest = &bytes[..length];
            let second = rest.windows(SECOND.len()).position(|it| it == SECOND);
            if let Some(second) = second.filter(|_| self.is_shut.swap(false, Ordering::SeqCst)) {
                commands.write_all(&rest[..second]).await.unwrap();
                rest = &rest[second..];
                self.came.notify_one();
                self.opens.notified().await;
            }
            commands.write_all(rest).await.unwrap();
        }
    }
}

fn fork(completion: Option<Completion>) -> CopyEvents {
    CopyEvents {
        source: Source::Session(key("a")),
        child: key("fork"),
        request: RequestId {
            id: "fork".to_owned(),
            digest: Bytes::from("digest"),
        },
        at_seq: Some(1),
        completion,
    }
}

/// A fork has its session memory from the moment when it is there.
#[tokio::test]
async fn what_a_session_always_had_is_not_missed_when_it_comes_amid_a_look() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let writer = RedisStore::open(&config, RedisOptions::default()).await;
    let writer = writer.unwrap();
    writer.create(creation("a", Some("one"))).await.unwrap();
    writer.copy_events(fork(None)).await.unwrap();
    let gate = Gate::default();
    let config = RedisConfig::standalone(gate.before(&server).await);
    let reader = RedisStore::open(&config, RedisOptions::default()).await;
    let reader = reader.unwrap();
    reader.now().await.unwrap();

    gate.is_shut.store(true, Ordering::SeqCst);
    let forked = key("fork");
    let read = reader.get_memory(&forked, "key");
    let complete = async {
        gate.came.notified().await;
        let completion = Completion {
            events: vec![Bytes::from("forked")],
            header: Header::default(),
            memory: vec![MemoryEntry {
                key: "key".to_owned(),
                value: "value".to_owned(),
                ..MemoryEntry::default()
            }],
            due_unix_ms: None,
        };
        let completed = writer.copy_events(fork(Some(completion))).await;
        assert!(completed.unwrap().is_complete);
        gate.opens.notify_one();
    };
    let (value, ()) = tokio::join!(read, complete);
    let value = value.unwrap().map(|entry| entry.value);
    assert_eq!(value.as_deref(), Some("value"));
    assert_eq!(reader.get_memory(&forked, "other").await, Ok(None));
}

/// Calls of the same process run in the tasks of their callers, and some of these do other things
/// meanwhile.
#[tokio::test]
async fn what_nobody_polls_while_a_server_is_looked_at_keeps_nobody_waiting() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    for _ in 0..5 {
        let store = RedisStore::open(&config, RedisOptions::default()).await;
        let store = store.unwrap();
        let mut unpolled: Vec<_> = (0..3).map(|_| Box::pin(store.now())).collect();
        for first in &mut unpolled {
            assert!(first.now_or_never().is_none(), "the server is to be asked");
        }
        let now = tokio::time::timeout(Duration::from_secs(10), store.now()).await;
        now.expect("nobody has what others need").unwrap();
        for first in unpolled {
            first.await.unwrap();
        }
    }
}
