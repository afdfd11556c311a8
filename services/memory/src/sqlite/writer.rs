//! The one thread that writes, with group commit.
//!
//! It takes whatever waits, up to [`GROUP`] operations, into one SQL transaction, so that they
//! share one fsync. An operation does its checks before its first write, so a refused one leaves
//! nothing behind and its neighbours alone. If SQLite fails, everything is rolled back and each
//! operation is tried by itself, so that one that cannot be done does not take others with it.

use super::holder::Lock;
use super::operation::{Job, Shared, Task, Tx};
#[cfg(debug_assertions)]
use super::options::{CommitHook, When};
use crate::port::{Limit, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Most operations that share a transaction.
const GROUP: usize = 64;

/// How long the thread looks for more before it goes to sleep. An owner's next transition often
/// follows at once, and to wake a thread takes about as long.
const LINGER: Duration = Duration::from_micros(50);

/// What the thread works with. The connection goes before the lock: nobody else may open the
/// store while this one still writes.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) lock: Option<Lock>,
    pub(super) tasks: mpsc::Receiver<Task>,
    pub(super) shared: Arc<Shared>,
    /// No lease ends before this: saves looking for one that has.
    pub(super) lease_floor: Cell<i64>,
    #[cfg(debug_assertions)]
    pub(super) hook: Option<CommitHook>,
    #[cfg(debug_assertions)]
    pub(super) commits: u64,
}

impl Writer {
    /// Works until it is told to close, or every sender is gone, and everything that was sent
    /// before is done.
    pub(super) fn run(mut self) {
        let mut waiting = Vec::with_capacity(GROUP);
        let mut closing = None;
        while let Some(first) = self.next() {
            waiting.push(first);
            while waiting.len() < GROUP {
                match self.tasks.try_recv() {
                    Ok(task) => waiting.push(task),
                    Err(_) => break,
                }
            }
            if let Some(told) = self.process(&mut waiting) {
                closing = Some(told);
                break;
            }
        }
        drop(self.conn);
        drop(self.lock);
        if let Some(told) = closing {
            let _ = told.send(());
        }
    }

    fn next(&mut self) -> Option<Task> {
        let start = Instant::now();
        while start.elapsed() < LINGER {
            if let Ok(task) = self.tasks.try_recv() {
                return Some(task);
            }
            std::thread::yield_now();
        }
        self.tasks.blocking_recv()
    }

    /// Answers whom to tell once the file is given up, if that is asked for.
    fn process(&mut self, tasks: &mut Vec<Task>) -> Option<oneshot::Sender<()>> {
        let mut closing = None;
        let mut group = Vec::with_capacity(tasks.len());
        for task in tasks.drain(..) {
            match task {
                Task::Write(job) => group.push(job),
                Task::Read(read) => {
                    // A read must not see what its neighbours have not made durable yet.
                    self.write(std::mem::take(&mut group));
                    read(&self.conn);
                }
                Task::Close(told) => {
                    closing = Some(told);
                    break;
                }
            }
        }
        self.write(group);
        closing
    }

    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        let Err(together) = self.attempt(&mut group) else {
            for job in group {
                job.answer(&self.shared.hub);
            }
            return;
        };
        tracing::warn!(operations = group.len(), error = %together, "a group was rolled back");
        if group.len() == 1 {
            return group.into_iter().for_each(|job| job.fail(together.clone()));
        }
        for mut job in group {
            match self.attempt(std::slice::from_mut(&mut job)) {
                Ok(()) => job.answer(&self.shared.hub),
                Err(alone) => job.fail(less_certain(&together, alone)),
            }
        }
    }

    /// One SQL transaction. Nothing of it is left if this fails, unless the error is `Unknown`.
    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let applied = self.apply(jobs).map_err(|error| not_written(&error));
        let outcome = applied.and_then(|steps| self.commit(steps));
        if let Err(error) = &outcome {
            self.roll_back();
            if matches!(error, StoreError::Limit { .. }) {
                // What lies in the log only may have room in the file that it belongs to.
                let _ = self.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            }
        }
        outcome
    }

    /// Answers how many owners' transitions, creations and commands there are among the jobs.
    fn apply(&mut self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<u32> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let tx = Tx {
            conn: &self.conn,
            now: self.shared.now(),
            shared: &self.shared,
            lease_floor: &self.lease_floor,
            steps: Cell::new(0),
        };
        for job in jobs {
            job.apply(&tx)?;
        }
        Ok(tx.steps.get())
    }

    #[cfg(debug_assertions)]
    fn commit(&mut self, steps: u32) -> Result<(), StoreError> {
        let hook = self.hook.clone().filter(|_| steps > 0);
        let Some(hook) = hook else {
            return self.commit_sql();
        };
        self.commits += 1;
        hook(self.commits, When::Before);
        self.commit_sql()?;
        hook(self.commits, When::After);
        Ok(())
    }

    #[cfg(not(debug_assertions))]
    fn commit(&mut self, _steps: u32) -> Result<(), StoreError> {
        self.commit_sql()
    }

    fn commit_sql(&self) -> Result<(), StoreError> {
        let commit = || self.conn.prepare_cached("COMMIT")?.execute([]);
        match commit() {
            Ok(_) => Ok(()),
            Err(error) => Err(perhaps_written(&error)),
        }
    }

    fn roll_back(&mut self) {
        // SQLite rolls back by itself after some errors.
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
        self.lease_floor.set(i64::MIN);
    }
}

/// Why a transaction failed before its COMMIT.
pub(super) fn not_written(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::limit(Limit::Disk, 0),
        _ => StoreError::unavailable(error),
    }
}

/// Why a COMMIT failed. After an I/O error the log may hold the whole transaction, so that it
/// would come back to life if the process died now; a full disk and a refusal leave no doubt.
fn perhaps_written(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ConstraintViolation,
        ) => not_written(error),
        _ => StoreError::unknown(error),
    }
}

/// What an operation that failed in its group, and again alone, is told.
fn less_certain(together: &StoreError, alone: StoreError) -> StoreError {
    match together {
        StoreError::Unknown { .. } => together.clone(),
        _ => alone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_failed_commit_is_certain_only_where_sqlite_is() {
        let full = StoreError::limit(Limit::Disk, 0);
        assert_eq!(not_written(&failure(ffi::SQLITE_FULL)), full);
        assert_eq!(perhaps_written(&failure(ffi::SQLITE_FULL)), full);
        let busy = perhaps_written(&failure(ffi::SQLITE_BUSY));
        assert!(matches!(busy, StoreError::Unavailable { .. }), "{busy}");
        for code in [
            ffi::SQLITE_IOERR,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_NOMEM,
        ] {
            let before = not_written(&failure(code));
            assert!(matches!(before, StoreError::Unavailable { .. }), "{before}");
            let at = perhaps_written(&failure(code));
            assert!(matches!(at, StoreError::Unknown { .. }), "{at}");
        }
    }

    #[test]
    fn doubt_about_a_group_stays_when_an_operation_fails_alone() {
        let doubt = StoreError::unknown("fsync");
        let certain = StoreError::unavailable("busy");
        assert_eq!(less_certain(&doubt, certain.clone()), doubt);
        assert_eq!(less_certain(&certain, doubt.clone()), doubt);
        assert_eq!(less_certain(&certain, certain.clone()), certain);
    }
}
