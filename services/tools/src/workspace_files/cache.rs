//! Digests of files that have not changed since they were read.

use cairn_agents::Fault;
use cap_std::fs::{Metadata, MetadataExt as _};
use std::collections::HashMap;

/// A file that changed so lately may change again without a trace: its time has a grain.
const GRAIN_MS: u64 = 2_000;

/// A file as it was at one moment. A program cannot set the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Key {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file changed long enough before a moment, in milliseconds since 1970.
    fn is_settled(&self, now_ms: u64) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or_default();
        seconds.saturating_mul(1000).saturating_add(GRAIN_MS) < now_ms
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// Of its content.
    pub(super) digest: String,
    /// Why it is no text, if it is none.
    pub(super) fault: Option<Fault>,
}

/// What is known of files. A file that a scan does not meet is forgotten.
#[derive(Debug, Default)]
pub(super) struct Cache {
    before: HashMap<Key, Read>,
    now: HashMap<Key, Read>,
    now_ms: u64,
}

impl Cache {
    /// A scan begins at this moment, in milliseconds since 1970.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.before = std::mem::take(&mut self.now);
        self.now_ms = now_ms;
    }

    /// What a file says that has not changed.
    pub(super) fn get(&mut self, key: &Key) -> Option<Read> {
        let known = self.before.get(key).or_else(|| self.now.get(key))?.clone();
        self.now.insert(*key, known.clone());
        Some(known)
    }

    /// Takes a file that was read and did not change meanwhile.
    pub(super) fn put(&mut self, key: Key, read: Read) {
        if key.is_settled(self.now_ms) {
            self.now.insert(key, read);
        }
    }

    /// Has every file read again.
    pub(super) fn clear(&mut self) {
        self.before.clear();
        self.now.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64, changed: i64) -> Key {
        Key {
            device: 1,
            inode,
            size: 3,
            modified: (0, 0),
            changed: (changed, 5),
        }
    }

    fn read(digest: &str) -> Read {
        Read {
            digest: digest.to_owned(),
            fault: None,
        }
    }

    #[test]
    fn a_file_is_known_until_a_scan_does_not_meet_it() {
        let mut cache = Cache::default();
        cache.begin(100_000);
        cache.put(key(1, 10), read("a"));
        cache.put(key(2, 10), read("b"));
        cache.begin(101_000);
        assert_eq!(cache.get(&key(1, 10)), Some(read("a")));
        assert_eq!(cache.get(&key(1, 11)), None, "it changed");
        cache.begin(102_000);
        assert_eq!(cache.get(&key(1, 10)), Some(read("a")));
        assert_eq!(cache.get(&key(2, 10)), None, "it was away");
        cache.clear();
        assert_eq!(cache.get(&key(1, 10)), None);
    }

    #[test]
    fn a_file_that_changed_lately_is_read_again() {
        let mut cache = Cache::default();
        cache.begin(12_000);
        for (changed, is_known) in [(9, true), (10, false), (12, false), (900, false)] {
            cache.put(key(1, changed), read("a"));
            assert_eq!(cache.get(&key(1, changed)).is_some(), is_known, "{changed}");
        }
    }
}
