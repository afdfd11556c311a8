//! What the log tells of the settings.

use super::*;
use cairn_memory::{Config, Deps, StoreConfig};
use std::fmt::{Debug, Write as _};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Metadata, Subscriber};

/// Hands on what is logged on the thread of a test, apart from what is for finding faults.
struct Log(mpsc::UnboundedSender<String>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("cairn_memory")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        // Who has heard enough does not mind.
        let _ = self.0.send(line.0);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// An event with its fields.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

/// What is logged from now on, as long as the guard is there.
fn log() -> (DefaultGuard, mpsc::UnboundedReceiver<String>) {
    let (sender, lines) = mpsc::unbounded_channel();
    (set_default(Log(sender)), lines)
}

async fn next(lines: &mut mpsc::UnboundedReceiver<String>) -> String {
    let line = tokio::time::timeout(Duration::from_secs(60), lines.recv()).await;
    line.unwrap().unwrap()
}

#[tokio::test]
async fn what_may_be_lost_is_told_in_the_same_words_at_first_and_later() {
    let (_guard, mut lines) = log();
    let words = "what was answered may be lost";
    let config = Config {
        store: StoreConfig::Memory,
        ..Config::default()
    };
    let opened = cairn_memory::open(config, Deps::default()).unwrap();
    let line = next(&mut lines).await;
    assert!(
        line.contains(words) && line.contains("in memory: it ends"),
        "{line}"
    );
    drop(opened);

    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = open(&config, Duration::from_millis(10)).await;
    store.now().await.unwrap();
    for (name, value) in [
        ("appendfsync", "everysec"),
        ("maxmemory-policy", "allkeys-lru"),
    ] {
        server.ask(&["CONFIG", "SET", name, value]);
        // Only what is new is told.
        let line = next(&mut lines).await;
        let reason = format!("{name} is {value}");
        assert!(line.contains(words) && line.contains(&reason), "{line}");
    }
    server.ask(&["CONFIG", "SET", "appendfsync", "always"]);
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let line = next(&mut lines).await;
    assert!(line.contains("keeps what it answers again"), "{line}");
}

#[tokio::test]
async fn a_master_that_begins_to_allow_losses_in_a_failover_is_told_of_once() {
    let master = RedisServer::start();
    let _replica = replica_of(&master, &[]);
    let least = |count| master.ask(&["CONFIG", "SET", "min-replicas-to-write", count]);
    least("1");
    let (_guard, mut lines) = log();
    let config = RedisConfig::standalone(master.url());
    let store = open(&config, Duration::from_millis(10)).await;
    store.now().await.unwrap();
    least("0");
    let line = next(&mut lines).await;
    assert!(line.contains("a failover may lose"), "{line}");
    master.ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let line = next(&mut lines).await;
    assert!(line.contains("appendfsync is everysec"), "{line}");
}
