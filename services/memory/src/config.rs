//! What can be configured.

use crate::error::BuildError;
use crate::port::{Limits, OWNER_BYTES, OWNER_EVENTS, OWNER_KEYS};
use crate::redis::RedisConfig;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The memory service's part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where sessions are stored.
    pub store: StoreConfig,
    /// How large things may get.
    pub limits: Limits,
    /// Most reads of the embedded store at the same time.
    pub readers: usize,
    /// Most pages of 4 KiB that the embedded store may have; beyond that the disk counts as full.
    pub max_pages: Option<u32>,
    /// How long sessions without a time to live stay after their last change; for ever if it is
    /// not set.
    pub retain: Option<Duration>,
    /// A folder that the journals of sessions are written to before they are deleted, because
    /// their time is over.
    pub archive: Option<PathBuf>,
}

/// Where sessions are stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreConfig {
    /// In one file.
    Sqlite {
        /// The file; it is made if there is none, with its folder.
        path: PathBuf,
    },
    /// On servers of Redis, for processes on many machines.
    Redis(RedisConfig),
    /// Nowhere: everything is gone when the process ends. For tests.
    Memory,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: StoreConfig::Sqlite {
                path: PathBuf::from("cairn.db"),
            },
            limits: Limits::default(),
            readers: 4,
            max_pages: None,
            retain: None,
            archive: None,
        }
    }
}

impl Config {
    /// Checks what the types do not.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let Limits {
            event_bytes,
            events_per_commit,
            journal_events,
            reserve_events,
            memory_bytes,
            owner_memory_keys,
            owner_memory_bytes,
            unseen_bytes,
            blob_bytes,
            document_bytes,
            ..
        } = self.limits;
        let most = 3 * 1024 * 1024;
        let refuse = |field, value, allowed| {
            Err(BuildError::Limits {
                field,
                value,
                allowed,
            })
        };
        if journal_events.saturating_add(reserve_events) > u64::from(u32::MAX) - 1 {
            let allowed = "less than 2^32 together with reserve_events";
            return refuse("journal_events", journal_events, allowed);
        }
        if events_per_commit < OWNER_EVENTS {
            let allowed =
                "as many as an owner's transition may have, which is the default, or more";
            return refuse("events_per_commit", events_per_commit, allowed);
        }
        // What an owner's decision may set, the store takes.
        if owner_memory_keys < OWNER_KEYS {
            let allowed = "1024 or more, which owners may set";
            return refuse("owner_memory_keys", owner_memory_keys, allowed);
        }
        if owner_memory_bytes < OWNER_BYTES {
            let allowed = "2 MiB or more, which owners may set";
            return refuse("owner_memory_bytes", owner_memory_bytes, allowed);
        }
        let memory_bytes = memory_bytes.saturating_add(owner_memory_bytes);
        // Each of these travels in one message, and a message has 4 MiB.
        for (field, value) in [
            ("event_bytes", event_bytes),
            ("memory_bytes", memory_bytes),
            ("unseen_bytes", unseen_bytes),
            ("blob_bytes", blob_bytes),
            ("document_bytes", document_bytes),
        ] {
            if value > most {
                return refuse(field, value, "at most 3 MiB, to fit into a message");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisMode;

    #[test]
    fn a_store_on_redis_is_configured_by_its_servers() {
        let text = r#"{"store": {"redis": {
            "mode": "cluster", "urls": ["redis://me:canary@one", "redis://two"]
        }}}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert!(!format!("{config:?}").contains("canary"));
        let StoreConfig::Redis(redis) = config.store else {
            panic!("{config:?}");
        };
        assert_eq!((redis.mode, redis.urls.len()), (RedisMode::Cluster, 2));
        assert_eq!(redis.prefix, "cairn");
        assert!(!redis.require_durable && !redis.allow_exposed);
    }

    #[test]
    fn what_is_misspelt_is_refused() {
        let text = r#"{"store": {"redis": {"urls": [], "require_durabel": true}}}"#;
        let refused = serde_json::from_str::<Config>(text).unwrap_err();
        assert!(refused.to_string().contains("require_durabel"), "{refused}");
    }
}
