//! Whose turn it is to write: the writer's thread, or the caller itself.
//!
//! To hand an operation to another thread and the answer back takes about half as long as a quick
//! fsync. So an owner that finds nothing being written and nobody waiting writes its transition
//! itself. As soon as operations meet they go to the writer's thread, which makes groups of them.
//!
//! The owner's thread then waits for the disk, and with it whatever else it would do. So it does
//! this only for small transitions, only on a disk that has lately been quick ([`FAST`]), and only
//! if the runtime has another thread. If the disk stalls all the same, nobody can claim the owner's
//! session meanwhile: a claim is a write too. Refused: to free the thread for that time
//! (`block_in_place`), which wakes another one each time.

use super::operation::{Job, Task};
use super::writer::Writer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Most operations that share a transaction.
const GROUP: usize = 64;

/// Owners write themselves while a COMMIT takes less than this.
const FAST: Duration = Duration::from_micros(300);

/// The writer, for whoever's turn it is.
pub(super) struct Turn {
    /// Gone once the store is closed.
    writer: Mutex<Option<Writer>>,
    pace: Pace,
    has_other_threads: bool,
}

impl Turn {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer: Mutex::new(Some(writer)),
            pace: Pace::default(),
            has_other_threads: Handle::try_current()
                .is_ok_and(|runtime| runtime.metrics().num_workers() > 1),
        }
    }

    /// Does the operation at once if nothing is being written, nobody waits and the disk is fast;
    /// else gives it back, to be queued.
    pub(super) fn write_now(
        &self,
        job: Box<dyn Job>,
        queue: &mpsc::Sender<Task>,
    ) -> Option<Box<dyn Job>> {
        let nobody_waits = queue.capacity() == queue.max_capacity();
        if !self.has_other_threads || !job.is_small() || !self.pace.is_fast() || !nobody_waits {
            return Some(job);
        }
        let mut turn = match self.writer.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(job),
        };
        let Some(writer) = turn.as_mut() else {
            return Some(job);
        };
        writer.write(vec![job]);
        self.pace.note(writer.took.take());
        None
    }

    /// The life of the writer's thread: works until it is told to close, or every sender is gone,
    /// and everything that was sent before is done.
    pub(super) fn serve(&self, mut queue: mpsc::Receiver<Task>) {
        let mut waiting = Vec::with_capacity(GROUP);
        let mut closing = Vec::new();
        while closing.is_empty()
            && let Some(first) = queue.blocking_recv()
        {
            let mut turn = self.wait();
            waiting.push(first);
            while waiting.len() < GROUP
                && let Ok(task) = queue.try_recv()
            {
                waiting.push(task);
            }
            if let Some(writer) = turn.as_mut() {
                closing = writer.process(&mut waiting);
                self.pace.note(writer.took.take());
            }
        }
        *self.wait() = None;
        for told in closing {
            let _ = told.send(());
        }
    }

    fn wait(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a COMMIT took lately, in nanoseconds: a mean that forgets.
#[derive(Default)]
struct Pace(AtomicU64);

impl Pace {
    /// Only whoever has the turn may.
    fn note(&self, took: Option<Duration>) {
        let Some(took) = took else {
            return;
        };
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.0.load(Ordering::Relaxed);
        self.0
            .store(before - before / 8 + took / 8, Ordering::Relaxed);
    }

    fn is_fast(&self) -> bool {
        u128::from(self.0.load(Ordering::Relaxed)) < FAST.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_fast_until_it_is_not_and_again_after_a_while() {
        let pace = Pace::default();
        assert!(pace.is_fast());
        pace.note(Some(Duration::from_secs(2)));
        assert!(!pace.is_fast(), "one long stall is enough");
        let quick = || pace.note(Some(Duration::from_micros(100)));
        let needed = (1..1000).find(|_| {
            quick();
            pace.is_fast()
        });
        assert!(needed.is_some_and(|n| (20..150).contains(&n)), "{needed:?}");
        (0..100).for_each(|_| quick());
        pace.note(Some(Duration::from_millis(1)));
        assert!(pace.is_fast(), "one slow commit is not enough");
        for _ in 0..20 {
            pace.note(Some(Duration::from_millis(1)));
        }
        assert!(!pace.is_fast());
        pace.note(Some(Duration::MAX));
        pace.note(Some(Duration::MAX));
    }
}
