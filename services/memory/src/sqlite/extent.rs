//! How far the log of an open store was written: kept in the lock's file, so that a log which was cut off
//! at the end of a commit is told from a whole one.
//!
//! It is written after each commit that was synced, and not synced itself: after a power failure it may be
//! behind the log, and never ahead of it. Each time SQLite begins the log anew, it has other salts, and
//! what was noted before says nothing of it.

use super::holder::Lock;
use super::log::{Written, path_of};
use std::fs::File;
use std::io;
use std::path::Path;

/// The bytes of an extent: both salts, the end, and a checksum.
const BYTES: usize = 20;

/// Which log it is, and the byte after its last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) salts: (u32, u32),
    pub(super) end: u64,
}

impl Extent {
    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.salts.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.salts.1.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_be_bytes());
        let sum = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Nothing if it was never noted, or in part only.
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (noted, sum) = bytes.get(..BYTES)?.split_at(16);
        let (salts, end) = noted.split_at(8);
        let salt = |at: usize| Some(u32::from_be_bytes(salts.get(at..at + 4)?.try_into().ok()?));
        if sum != crc32fast::hash(noted).to_be_bytes() {
            return None;
        }
        Some(Self {
            salts: (salt(0)?, salt(4)?),
            end: u64::from_be_bytes(end.try_into().ok()?),
        })
    }

    /// What the last holder of a store noted, if it did.
    pub(super) fn noted(store: &Path) -> Option<Self> {
        Self::of_bytes(&Lock::content(store).ok()?)
    }
}

/// Follows the log of an open store.
pub(super) struct Follower {
    log: File,
    written: Option<Written>,
}

impl Follower {
    /// The log has to be there: opening a store commits something.
    pub(super) fn new(store: &Path) -> io::Result<Self> {
        Ok(Self {
            log: File::open(path_of(store))?,
            written: None,
        })
    }

    /// Notes how far the log is written now.
    pub(super) fn note(&mut self, lock: &Lock) -> io::Result<()> {
        let before = self.written.map(|it| it.extent());
        self.written = Written::follow(&self.log, self.written)?;
        match self.written.map(|it| it.extent()) {
            Some(now) if before != Some(now) => lock.write(&now.to_bytes()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_read_as_it_was_noted_or_not_at_all() {
        let extent = Extent {
            salts: (0x0102_0304, 0xf0f1_f2f3),
            end: 1 << 40,
        };
        let bytes = extent.to_bytes();
        assert_eq!(Extent::of_bytes(&bytes), Some(extent));
        assert_eq!(
            Extent::of_bytes(&[&bytes[..], b"more"].concat()),
            Some(extent)
        );
        for place in 0..BYTES {
            let mut torn = bytes;
            torn[place] ^= 1;
            assert_eq!(Extent::of_bytes(&torn), None, "{place}");
            assert_eq!(Extent::of_bytes(&bytes[..place]), None, "{place}");
        }
        assert_eq!(Extent::of_bytes(b""), None);
    }
}
