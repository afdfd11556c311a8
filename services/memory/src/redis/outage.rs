//! Why a server takes no writes.

use super::fill::fill;
use super::settings::{MIN_REPLICAS, field, text};
use redis::Value;
use std::collections::BTreeMap;

/// Why a server that is meant to takes no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Outage {
    #[error("it is a replica: name the master, or the sentinels")]
    Replica,
    #[error("it is a sentinel: set store.redis.mode to sentinel")]
    Sentinel,
    #[error(
        "it has used {used} bytes of memory, and its maxmemory is {most}: give it more, or let \
         sessions end (store.retention.after)"
    )]
    Full { used: u64, most: u64 },
    #[error("it could not write to its disk")]
    Disk,
    #[error("it has {near} replicas near, and its min-replicas-to-write is {needed}")]
    Replicas { near: u64, needed: u64 },
}

/// When the server writes a snapshot by itself, and whether it takes no writes while that fails.
pub(super) const SAVE: &str = "save";
pub(super) const STOP_AFTER_SAVE: &str = "stop-writes-on-bgsave-error";

/// What INFO and the settings tell of that.
pub(super) fn outage(
    info: Option<&Value>,
    values: Option<&BTreeMap<String, String>>,
) -> Option<Outage> {
    let is = |name, value| field(info, name).as_deref() == Some(value);
    let set = |name: &str| values?.get(name).map(String::as_str);
    if is("redis_mode", "sentinel") {
        return Some(Outage::Sentinel);
    }
    // One that somebody made writable is meant.
    if is("role", "slave") && !is("slave_read_only", "0") {
        return Some(Outage::Replica);
    }
    let saves = set(SAVE).is_some_and(|times| !times.is_empty());
    let stops = saves && set(STOP_AFTER_SAVE) == Some("yes");
    if is("aof_last_write_status", "err") || (stops && is("rdb_last_bgsave_status", "err")) {
        return Some(Outage::Disk);
    }
    let needed = set(MIN_REPLICAS)
        .and_then(|it| it.parse().ok())
        .unwrap_or(0);
    let near = field(info, "min_slaves_good_slaves").and_then(|it| it.parse().ok());
    if let Some(near) = near.filter(|near| *near < needed) {
        return Some(Outage::Replicas { near, needed });
    }
    let fill = fill(&text(info?)?)?;
    let (used, most) = (fill.used_bytes, fill.most_bytes);
    (used >= most).then_some(Outage::Full { used, most })
}
