//! How many bytes of state the owners of this process have.

use cairn_rpc::metrics::{self, gauge};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// By how much the state of a session may grow, once it is claimed, before that counts.
pub(crate) const GROWTH: usize = 32 * 1024;

/// What the owners of this process have together.
#[derive(Debug, Default)]
pub(crate) struct OwnedBytes {
    bytes: AtomicUsize,
    /// Owners that have not read their sessions yet: their bytes are not known.
    reading: AtomicUsize,
}

impl OwnedBytes {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reading(&self) -> usize {
        self.reading.load(Ordering::Relaxed)
    }
}

/// The bytes of state of one owner, counted among those of the process until it is dropped.
///
/// The messages of contexts and the ended turns are counted. The rest is an estimate that costs little: the
/// size of the state when it was last encoded, and of the events that have come since.
#[derive(Debug)]
pub(crate) struct StateBytes {
    all: Arc<OwnedBytes>,
    own: usize,
    is_read: bool,
    /// What a session that was claimed has with its growth. The count does not fall below it: the growth
    /// comes later than the next claims.
    least: usize,
}

impl StateBytes {
    /// Those of an owner that begins, and has not read its session.
    pub(crate) fn begin(all: Arc<OwnedBytes>) -> Self {
        all.reading.fetch_add(1, Ordering::Relaxed);
        Self {
            all,
            own: 0,
            is_read: false,
            least: 0,
        }
    }

    /// A session that is at work may grow beyond the bound: to give it up would cost its step.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.count(bytes.max(self.least));
        self.end_reading();
    }

    fn end_reading(&mut self) {
        if !std::mem::replace(&mut self.is_read, true) {
            self.all.reading.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn count(&mut self, bytes: usize) {
        if bytes != self.own {
            self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.all.bytes.fetch_sub(self.own, Ordering::Relaxed);
            self.own = bytes;
            self.publish();
        }
    }

    /// Counts a claimed session of so many bytes with its growth, unless that is too much for the process. A
    /// session that is alone always fits.
    pub(crate) fn fit(&mut self, bytes: usize, most: usize) -> bool {
        let (own, bytes) = (self.own, bytes + GROWTH);
        let others_and_new = |all: usize| {
            let others = all - own;
            (others == 0 || others + bytes <= most).then_some(others + bytes)
        };
        let order = Ordering::Relaxed;
        let fits = self
            .all
            .bytes
            .fetch_update(order, order, others_and_new)
            .is_ok();
        if fits {
            (self.own, self.least) = (bytes, bytes);
            self.end_reading();
            self.publish();
        }
        fits
    }

    fn publish(&self) {
        gauge!(metrics::STATE_BYTES).set(self.all.bytes() as f64);
    }
}

impl Drop for StateBytes {
    fn drop(&mut self) {
        self.count(0);
        self.end_reading();
    }
}
