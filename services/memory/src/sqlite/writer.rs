//! The one thread that writes, with group commit.
//!
//! It takes whatever waits, up to [`GROUP`] operations, into one SQL transaction, so that they
//! share one fsync. An operation does its checks before its first write, so a refused one leaves
//! nothing behind and its neighbours alone. If SQLite fails, everything is rolled back and each
//! operation is tried by itself, so that one that cannot be done does not take others with it. A
//! panic in an operation is such a failure, and not the end of the thread.

use super::extent::Follower;
use super::gather::{AWAKE, LOOK_EVERY, MOMENT, MOST_MOMENTS, QUIET, Recent};
use super::holder::Lock;
use super::lease;
use super::mark;
use super::operation::{Job, STEP_MS, Shared, Task, Tx};
use super::removal;
use crate::port::{Limit, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

/// Most operations that share a transaction.
const GROUP: usize = 64;

/// How often some of what ended sessions had is removed while there is always a task.
const REMOVE_EVERY: Duration = Duration::from_millis(100);

/// What the thread works with. The connection goes before the lock: nobody else may open the store
/// while this one still writes.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) lock: Option<Lock>,
    /// Notes in the lock's file how far the log was written.
    pub(super) follower: Option<Follower>,
    pub(super) shared: Arc<Shared>,
    /// Most pages that the file may have, if that is limited.
    pub(super) max_pages: Option<u32>,
    /// No lease ends before this: saves looking for one that has.
    pub(super) lease_floor: Cell<i64>,
    /// The milliseconds of the machine's sleep by which leases were extended.
    pub(super) slept: i64,
    /// Rows of ended sessions may be left to be removed.
    pub(super) removing: Cell<bool>,
    /// When some were removed last.
    pub(super) removed: Instant,
    #[cfg(debug_assertions)]
    pub(super) fail_point: crate::fail_point::FailPoint,
}

impl Writer {
    /// Works until it is told to close, or every sender is gone, and everything that was sent
    /// before is done.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Task>) {
        let mut waiting = Vec::with_capacity(GROUP);
        let mut closing = Vec::new();
        let mut recent = Recent::default();
        let mut done = Instant::now();
        self.note_log();
        while closing.is_empty()
            && let Some(first) = self.next(&mut queue)
        {
            if done.elapsed() > QUIET {
                recent.forget();
            }
            waiting.push(first);
            gather(&queue, recent.wanted());
            while waiting.len() < GROUP
                && let Ok(task) = queue.try_recv()
            {
                waiting.push(task);
            }
            let sessions = waiting.iter().filter_map(Task::transition_of);
            sessions.for_each(|session| recent.note(session));
            closing = self.process(&mut waiting);
            done = Instant::now();
        }
        self.close();
        for told in closing {
            let _ = told.send(());
        }
    }

    /// The next task. Meanwhile what ended sessions had is removed, and some of it now and then also
    /// where there is always a task.
    fn next(&mut self, queue: &mut mpsc::Receiver<Task>) -> Option<Task> {
        if self.removing.get() && self.removed.elapsed() > REMOVE_EVERY {
            self.remove_some();
        }
        while self.removing.get() {
            match queue.try_recv() {
                Ok(task) => return Some(task),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    self.remove_some();
                }
            }
        }
        next(queue)
    }

    /// Removes a slice of what ended sessions had, in a transaction of its own, and answers whether there was
    /// one. What cannot be removed now is, when another session ends, the file is full or the store is opened
    /// again.
    fn remove_some(&mut self) -> bool {
        let removed = caught(|| {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let is_left = removal::slice(&self.conn)?;
            self.conn.prepare_cached("COMMIT")?.execute([])?;
            Ok::<_, rusqlite::Error>(is_left)
        });
        let is_left = match removed {
            Ok(Ok(is_left)) => is_left,
            Ok(Err(error)) => {
                tracing::warn!(%error, "rows of ended sessions not removed");
                self.roll_back();
                false
            }
            Err(_) => {
                self.roll_back();
                false
            }
        };
        if is_left {
            self.note_log();
        }
        self.removing.set(is_left);
        self.removed = Instant::now();
        is_left
    }

    /// Gives up the file, with everything in it and no log beside it.
    fn close(self) {
        if self.lock.is_some()
            && let Err(error) = mark::clear(&self.conn)
        {
            tracing::warn!(%error, "store not closed: its log stays, and the next open takes it up");
        }
    }

    /// Answers whom to tell once the file is given up, if that is asked for.
    fn process(&mut self, tasks: &mut Vec<Task>) -> Vec<oneshot::Sender<()>> {
        let mut closing = Vec::new();
        let mut group = Vec::with_capacity(tasks.len());
        for task in tasks.drain(..) {
            match task {
                Task::Write(job) if !closing.is_empty() => {
                    job.fail(StoreError::closed());
                }
                Task::Write(job) => group.push(job),
                Task::Read(read) => {
                    // A read must not see what its neighbours have not made durable yet.
                    self.write(std::mem::take(&mut group));
                    // A read that panics answers nobody; the next one finds the store as it was.
                    let _ = caught(|| read(&self.conn));
                }
                Task::Close(told) => {
                    closing.push(told);
                }
            }
        }
        self.write(group);
        closing
    }

    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        let Err(together) = self.attempt_with_room(&mut group) else {
            group.into_iter().for_each(|job| self.answer(job));
            return;
        };
        tracing::warn!(operations = group.len(), error = %together, "a group was rolled back");
        if group.len() == 1 {
            return group.into_iter().for_each(|job| job.fail(together.clone()));
        }
        for mut job in group {
            match self.attempt(std::slice::from_mut(&mut job)) {
                Ok(()) => self.answer(job),
                Err(alone) => job.fail(less_certain(&together, alone)),
            }
        }
    }

    /// It is durable by now: a panic here leaves its caller without an answer, and no more.
    fn answer(&self, job: Box<dyn Job>) {
        let _ = caught(|| job.answer(&self.shared.hub));
    }

    /// The same again while the file is full and what ended sessions had can still make room.
    fn attempt_with_room(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        loop {
            let outcome = self.attempt(jobs);
            let is_full = matches!(outcome, Err(StoreError::Limit { .. }));
            if !is_full || !self.remove_some() {
                return outcome;
            }
        }
    }

    /// One SQL transaction. Nothing of it is left if this fails, unless the error is `Unknown`.
    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        self.extend_leases();
        let outcome = match caught(|| self.apply(jobs)) {
            Ok(Ok(steps)) => caught(|| self.commit(steps))
                .unwrap_or_else(|panicked| Err(StoreError::unknown(panicked))),
            Ok(Err(error)) => Err(not_written(&error, self.max_pages)),
            Err(panicked) => Err(StoreError::unavailable(panicked)),
        };
        if let Err(error) = &outcome {
            self.roll_back();
            if matches!(error, StoreError::Limit { .. }) {
                // What lies in the log only may have room in the file that it belongs to.
                let _ = self.conn.execute_batch("PRAGMA wal_checkpoint(RESTART)");
            }
        }
        outcome
    }

    /// While the machine slept, owners could not renew their leases: those of this process would lose their
    /// sessions to claims of the same process, and calls under way would be in doubt.
    fn extend_leases(&mut self) {
        let slept = self.shared.time.slept();
        let since = slept - self.slept;
        if since < STEP_MS {
            return;
        }
        match self.conn.execute(lease::EXTEND, [since]) {
            Ok(_) => self.slept = slept,
            Err(error) => tracing::warn!(%error, "leases not extended by the time of a sleep"),
        }
    }

    /// Answers how many owners' transitions, creations and commands there are among the jobs.
    fn apply(&mut self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<u32> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let tx = Tx {
            conn: &self.conn,
            now: self.shared.now(),
            shared: &self.shared,
            lease_floor: &self.lease_floor,
            removing: &self.removing,
            steps: Cell::new(0),
        };
        for job in jobs {
            job.apply(&tx)?;
        }
        Ok(tx.steps.get())
    }

    #[cfg(debug_assertions)]
    fn commit(&mut self, steps: u32) -> Result<(), StoreError> {
        if steps == 0 {
            return self.commit_sql();
        }
        let number = self.fail_point.before();
        self.commit_sql()?;
        self.fail_point.after(number);
        Ok(())
    }

    #[cfg(not(debug_assertions))]
    fn commit(&mut self, _steps: u32) -> Result<(), StoreError> {
        self.commit_sql()
    }

    fn commit_sql(&mut self) -> Result<(), StoreError> {
        let commit = || self.conn.prepare_cached("COMMIT")?.execute([]);
        match commit() {
            Ok(_) => {
                self.note_log();
                Ok(())
            }
            Err(error) => Err(perhaps_written(&error)),
        }
    }

    /// Before what was committed is answered: so what was answered is never beyond what was noted.
    fn note_log(&mut self) {
        let (Some(follower), Some(lock)) = (&mut self.follower, &self.lock) else {
            return;
        };
        if let Err(error) = follower.note(lock) {
            tracing::warn!(%error, "end of the log not noted: its loss would not be noticed");
            self.follower = None;
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

/// The next task, or none once every sender is gone. A session that continues at once is met awake:
/// sleeping, and being woken by another processor, takes as long as a whole step does otherwise.
fn next(queue: &mut mpsc::Receiver<Task>) -> Option<Task> {
    let began = Instant::now();
    while began.elapsed() < AWAKE {
        if let Ok(task) = queue.try_recv() {
            return Some(task);
        }
        // Seldom enough to leave the core to the thread that shares it.
        for _ in 0..LOOK_EVERY {
            std::hint::spin_loop();
        }
    }
    queue.blocking_recv()
}

/// Waits a moment, or a few, until that many operations are there besides one.
fn gather(queue: &mpsc::Receiver<Task>, wanted: usize) {
    for _ in 0..MOST_MOMENTS {
        if queue.len() + 1 >= wanted {
            return;
        }
        std::thread::sleep(MOMENT);
    }
}

/// Does what may panic, and tells of it if it does.
///
/// What is left half done is thrown away: a transaction is rolled back, and an operation begins
/// anew whenever it is applied.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let panicked = format!(
            "an operation panicked: {}",
            text.unwrap_or("without a text")
        );
        tracing::error!(panicked, "a fault of this program in the store's thread");
        panicked
    })
}

/// Why a transaction failed before its COMMIT.
///
/// A file with a limit of pages meets it here, where pages are taken; a full disk is met where the
/// log is written, which is at the COMMIT.
fn not_written(error: &rusqlite::Error, max_pages: Option<u32>) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::limit(Limit::Disk, max_pages.map_or(0, u64::from)),
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
        ) => not_written(error, None),
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
        assert_eq!(not_written(&failure(ffi::SQLITE_FULL), None), full);
        assert_eq!(perhaps_written(&failure(ffi::SQLITE_FULL)), full);
        let limited = not_written(&failure(ffi::SQLITE_FULL), Some(300));
        assert_eq!(limited, StoreError::limit(Limit::Disk, 300));
        let busy = perhaps_written(&failure(ffi::SQLITE_BUSY));
        assert!(matches!(busy, StoreError::Unavailable { .. }), "{busy}");
        for code in [
            ffi::SQLITE_IOERR,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_NOMEM,
        ] {
            let before = not_written(&failure(code), Some(300));
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
