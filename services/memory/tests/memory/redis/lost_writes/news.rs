//! A process of memory that ends together with the server that had answered it.

use super::{answered, command, open, quarantine, watched_over};
use crate::support::work::{claim, creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::{RedisSentinel, RedisServer};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Both processes of the store listen to what the other was answered about the session `a`.
async fn until_both_listen(server: &RedisServer, store: &RedisStore) {
    let start = Instant::now();
    let channel = format!("cairn:{{p061}}:k:{}", store.id());
    let asked = ["PUBSUB", "SHARDNUMSUB", &channel];
    while !server.ask(&asked).contains(":2\r\n") {
        assert!(start.elapsed() < Duration::from_secs(30), "nobody listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The channels on which the processes of a store report how far sessions have come.
fn channels(store: &RedisStore) -> impl Iterator<Item = String> {
    let id = store.id().to_owned();
    (0..256).map(move |number| format!("cairn:{{p{number:03x}}}:k:{id}"))
}

/// Reads on a connection of its own what the processes of a store report to each other.
struct Subscriber {
    from: BufReader<TcpStream>,
    /// Of the line that is being read.
    line: Vec<u8>,
    /// The process whose message is being read.
    publisher: String,
}

impl Subscriber {
    /// Subscribes to all reports at the server from now on.
    fn start(server: &RedisServer, store: &RedisStore) -> Self {
        let mut request = "*257\r\n$10\r\nSSUBSCRIBE\r\n".to_owned();
        for channel in channels(store) {
            request += &format!("${}\r\n{channel}\r\n", channel.len());
        }
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let look = Some(Duration::from_millis(20));
        stream.set_read_timeout(look).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut subscriber = Self {
            from: BufReader::new(stream),
            line: Vec::new(),
            publisher: String::new(),
        };
        let start = Instant::now();
        while subscriber.line().is_none_or(|line| line != ":256") {
            assert!(start.elapsed() < Duration::from_secs(30), "no channels");
        }
        subscriber
    }

    /// The next line, or nothing if none comes for now.
    fn line(&mut self) -> Option<String> {
        match self.from.read_until(b'\n', &mut self.line) {
            Ok(read) => assert!(read > 0, "the server is gone"),
            Err(error) => {
                let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
                assert!(kinds.contains(&error.kind()), "{error}");
                return None;
            }
        }
        let line = std::mem::take(&mut self.line);
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// The next report: a session, and the number of its last event. `None` if none comes for now.
    fn next_report(&mut self) -> Option<(String, u64)> {
        loop {
            let line = self.line()?;
            let mut words: Vec<&str> = line.split(' ').collect();
            // A message begins with the process that sends it.
            if words.len() == 9 {
                self.publisher = words.remove(0).to_owned();
            }
            if let [_, _, seq, _, _, _, _, session] = words[..] {
                return Some((session.to_owned(), seq.parse().unwrap()));
            }
        }
    }

    /// Waits until a process for which `is_wanted` holds reports that the last event of a session is this one,
    /// and returns its name. Calls `while_waiting` again and again until then.
    fn wait_for_report(
        &mut self,
        (session, seq): (&str, u64),
        is_wanted: impl Fn(&str) -> bool,
        while_waiting: impl Fn(),
    ) -> String {
        let (session, start) = (format!("space/{session}"), Instant::now());
        loop {
            while let Some(report) = self.next_report() {
                if report == (session.clone(), seq) && is_wanted(&self.publisher) {
                    return self.publisher.clone();
                }
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "it is not reported"
            );
            while_waiting();
        }
    }

    /// Waits until a process reports what the store acknowledged to it, and returns its name. By then the
    /// server has sent the report to all others.
    fn wait_until_published(&mut self, server: &RedisServer, session: &str, seq: u64) -> String {
        let publisher = self.wait_for_report((session, seq), |_| true, || ());
        // The server answers after it has sent what it had to send before.
        server.ask(&["PING"]);
        publisher
    }
}

/// Asks all processes but `publisher` for all that they know, as `publisher` does when it begins to listen.
fn ask_all(server: &RedisServer, store: &RedisStore, publisher: &str) {
    let channel = channels(store).next().unwrap();
    server.ask(&["SPUBLISH", &channel, &format!("{publisher} hello")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_was_answered_the_others_know_when_it_ends() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let (one, other) = (open(&config).await, open(&config).await);
    one.claim(claim("one")).await.unwrap();
    other.claim(claim("two")).await.unwrap();
    one.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    until_both_listen(&servers.master, &one).await;
    let mut subscriber = Subscriber::start(&servers.master, &one);
    servers.cut_off_replica();
    one.commit(transition("a", "one", 0)).await.unwrap();
    // Others hear of it some milliseconds after the answer.
    let publisher = subscriber.wait_until_published(&servers.master, "a", 2);
    let ask = || ask_all(&servers.master, &one, &publisher);
    subscriber.wait_for_report(("a", 2), |it| it != publisher, ask);
    drop(one);
    servers.master.kill();
    servers.wait_until_promoted();

    is_found(&other).await;
}

/// `a` is quarantined, and that is told once.
async fn is_found(store: &RedisStore) {
    let a = key("a");
    let start = Instant::now();
    loop {
        let read = answered(|| store.read(&a, 0, 10)).await.unwrap();
        if read.quarantined == Some(Quarantine::WritesLost) {
            break;
        }
        // What was told may be heard after the first answer.
        assert!(start.elapsed() < Duration::from_secs(10), "it is silent");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(quarantine(store).await, ["a"]);
    assert_eq!(*store.losses().borrow(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_begins_later_is_told_what_the_others_know() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let one = open(&config).await;
    one.claim(claim("one")).await.unwrap();
    one.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    let mut subscriber = Subscriber::start(&servers.master, &one);
    servers.cut_off_replica();
    one.commit(transition("a", "one", 0)).await.unwrap();
    let publisher = subscriber.wait_until_published(&servers.master, "a", 2);
    let late = open(&config).await;
    late.claim(claim("two")).await.unwrap();
    // The test asks only the later process: that knows nothing but what the other one told it.
    let ask = || ask_all(&servers.master, &one, &publisher);
    subscriber.wait_for_report(("a", 2), |it| it != publisher, ask);
    drop(one);
    servers.master.kill();
    servers.wait_until_promoted();
    is_found(&late).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_ends_in_order_tells_the_last_before_that() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let (one, other) = (open(&config).await, open(&config).await);
    one.claim(claim("one")).await.unwrap();
    other.claim(claim("two")).await.unwrap();
    one.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    until_both_listen(&servers.master, &one).await;
    servers.cut_off_replica();
    one.commit(transition("a", "one", 0)).await.unwrap();
    one.close().await;
    // The server may answer the one process before it sends the report to the other.
    servers.master.ask(&["PING"]);
    servers.master.kill();
    servers.wait_until_promoted();
    is_found(&other).await;
}

/// A process whose tasks run only while it is waited for: frozen at all other times.
struct Frozen {
    runtime: Runtime,
    store: RedisStore,
}

impl Frozen {
    fn open(config: &RedisConfig) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(open(config));
        runtime.block_on(store.claim(claim("frozen"))).unwrap();
        Self { runtime, store }
    }

    fn runs_for(&self, time: Duration) {
        self.runtime
            .block_on(async { tokio::time::sleep(time).await });
    }

    fn is_found(&self) {
        self.runtime.block_on(is_found(&self.store));
    }
}

/// Servers that have failed over to a replica which lacks what a process was answered to `lost` before
/// it ended, and another process, frozen by now, that got the report before if it `hears`. The lost write is
/// the second event of `session`.
fn lost_while_frozen(
    hears: bool,
    session: &str,
    lost: impl AsyncFnOnce(&RedisStore),
) -> (RedisSentinel, RedisConfig, Frozen) {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let runtime = Runtime::new().unwrap();
    let frozen = Frozen::open(&config);
    let one = runtime.block_on(open(&config));
    runtime.block_on(one.claim(claim("one"))).unwrap();
    let created = one.create(creation("a", Some("one")));
    runtime.block_on(created).unwrap();
    servers.wait_until_replicated();
    let both = until_both_listen(&servers.master, &one);
    frozen.runtime.block_on(both);
    let mut subscriber = Subscriber::start(&servers.master, &one);
    let ask = |publisher: &str| {
        ask_all(&servers.master, &one, publisher);
        frozen.runs_for(Duration::from_millis(20));
    };
    // Both read the reports that were sent by now, and answer.
    let first = subscriber.wait_for_report(("a", 1), |_| true, || ask("test"));
    subscriber.wait_for_report(("a", 1), |it| it != first, || ask("test"));
    servers.cut_off_replica();
    runtime.block_on(lost(&one));
    let publisher = subscriber.wait_until_published(&servers.master, session, 2);
    if hears {
        let heard = |it: &str| it != publisher;
        subscriber.wait_for_report((session, 2), heard, || ask(&publisher));
    }
    drop(one);
    servers.master.kill();
    servers.wait_until_promoted();
    (servers, config, frozen)
}

async fn a_command(store: &RedisStore) {
    store.append_command(command("a")).await.unwrap();
}

async fn begun_amid_failover(config: &RedisConfig) -> RedisStore {
    let start = Instant::now();
    loop {
        match RedisStore::open(config, RedisOptions::default()).await {
            Ok(store) => return store,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_others_wrote_past_a_loss_meanwhile_is_not_what_was_told() {
    let (_servers, config, frozen) = lost_while_frozen(true, "a", a_command);
    let runtime = Runtime::new().unwrap();
    let fresh = runtime.block_on(begun_amid_failover(&config));
    let other = AppendCommand {
        event: Bytes::from("another"),
        ..command("a")
    };
    let appended = runtime.block_on(answered(|| fresh.append_command(other.clone())));
    // As far as the frozen one knows that is there.
    assert_eq!(appended.unwrap().seq, 2);
    frozen.is_found();
}

#[test]
fn what_was_told_before_a_connection_broke_is_heard_all_the_same() {
    let (_servers, _, frozen) = lost_while_frozen(false, "a", a_command);
    frozen.is_found();
}

/// Whoever comes later may use the name of a session that is lost with all that it had.
#[test]
fn what_is_made_anew_is_not_the_session_that_is_lost() {
    let (_servers, config, frozen) = lost_while_frozen(true, "b", async |one| {
        one.create(creation("b", Some("one"))).await.unwrap();
        one.commit(transition("b", "one", 0)).await.unwrap();
    });
    let runtime = Runtime::new().unwrap();
    let fresh = runtime.block_on(begun_amid_failover(&config));
    let made = runtime.block_on(answered(|| fresh.create(creation("b", None))));
    assert!(!made.unwrap().duplicate);
    frozen.runtime.block_on(async {
        let b = key("b");
        let mut losses = frozen.store.losses();
        let read = answered(|| frozen.store.read(&b, 0, 10)).await.unwrap();
        assert_eq!((read.last_seq, read.quarantined), (1, None));
        losses.wait_for(|losses| *losses == 1).await.unwrap();
        assert!(quarantine(&frozen.store).await.is_empty());
    });
}
