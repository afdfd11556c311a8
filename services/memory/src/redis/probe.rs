//! The bare script: the common transition's, with the same values, over a bare connection.

use super::address::{Endpoint, TlsFiles};
use super::format::Formats;
use super::keys::Names;
use super::notes::notes;
use super::open::OpenError;
use super::script::{Clock, Scripts};
use super::{RedisConfig, RedisStore};
use crate::checksum::unplaced;
use crate::port::{Header, Level, SessionKey, StoreError};
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::fmt;
use std::time::Duration;

/// What a benchmark puts beside the figures of a store.
#[derive(Clone)]
pub struct RedisProbe {
    connection: MultiplexedConnection,
}

impl RedisProbe {
    /// Connects to where the sessions are that transitions will be made of. The server knows the
    /// script already if the store has made one.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn connect(config: &RedisConfig, _made: &RedisStore) -> Result<Self, OpenError> {
        let endpoint = Endpoint::parse(&config.urls[0], TlsFiles::default())?;
        let lost = |error| OpenError::Unavailable(StoreError::unavailable(error));
        let client = endpoint.client().map_err(lost)?;
        let settings = redis::AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(1024)
            .set_response_timeout(Some(Duration::from_secs(5)));
        let connection = client.get_multiplexed_async_connection_with_config(&settings);
        Ok(Self {
            connection: connection.await.map_err(lost)?,
        })
    }
}

/// A session and its owner, whose transitions have one event each.
pub struct ProbedSession {
    probe: RedisProbe,
    scripts: Scripts,
    keys: Vec<String>,
    member: String,
    owner: String,
    version: u64,
    seen: u64,
}

impl RedisProbe {
    /// A session that `owner` has made with one event, and that nobody else works on.
    pub fn session(&self, config: &RedisConfig, key: &SessionKey, owner: &str) -> ProbedSession {
        let names = Names::unopened(&config.prefix).session(key);
        ProbedSession {
            probe: self.clone(),
            scripts: Scripts::new(Clock::Server, Formats::KNOWN),
            keys: vec![
                names.hash(),
                names.journal(),
                names.partition.leases(),
                names.partition.due(),
                names.followers(),
                names.partition.work(),
                names.partition.changed(key.namespace()),
                names.partition.asking(key.namespace()),
                names.partition.newer(),
                names.partition.waiting(),
            ],
            member: names.member,
            owner: owner.to_owned(),
            version: 0,
            seen: 1,
        }
    }
}

impl ProbedSession {
    /// Makes the script known to the server, if no store has made a transition there.
    pub async fn learn(&mut self) {
        let load = self.scripts.commit.load();
        let done: Result<Value, _> = load.query_async(&mut self.probe.connection).await;
        // Whoever continues without it fails at once.
        let _ = done;
    }

    /// One transition. Answers whether it happened.
    pub async fn commit(&mut self, event: &[u8]) -> bool {
        let call = self.scripts.commit.call(&self.keys);
        let call = call
            .arg(&self.member)
            .arg("0123456789abcdef")
            .arg(&self.owner)
            .arg(1)
            .arg(self.version)
            .arg(format!("operation-{}", self.version))
            .arg(self.seen)
            .arg(0)
            .arg(0)
            .arg("")
            .arg(600_000)
            .arg("")
            .arg(1)
            .arg(event.len())
            .arg(100_000)
            .arg(256 << 20)
            .arg(1536)
            .arg(3 << 20)
            .arg(0)
            .arg("")
            .arg("")
            .arg(0)
            .arg(1)
            .arg(&unplaced(event).to_le_bytes()[..])
            .arg(notes(&Header::default()))
            .arg(Level::FIRST.number())
            .arg("")
            .arg(event);
        let answer: Result<Value, _> = call.cmd.query_async(&mut self.probe.connection).await;
        self.version += 1;
        self.seen += 1;
        let word = match answer {
            Ok(Value::Array(words)) => words.into_iter().next(),
            _ => None,
        };
        word == Some(Value::BulkString(b"ok".to_vec()))
    }
}

impl fmt::Debug for RedisProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisProbe")
    }
}

impl fmt::Debug for ProbedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProbedSession").field(&self.member).finish()
    }
}
