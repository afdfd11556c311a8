//! What the writer's thread is given to do.

use crate::hub::Hub;
use crate::port::{Limits, SessionKey, StoreError, StoreResult, Stored};
use crate::turns::Turns;
use cairn_rpc::Clock;
use rusqlite::{Connection, ErrorCode};
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// A time of day that is so far behind was corrected, and a machine slept that was away for so long.
pub(super) const STEP_MS: i64 = 1000;

/// The store's time: the time of day when it was opened, and what has been measured since.
///
/// The time of day itself may jump. A lease must not end because somebody set a clock, nor last an
/// hour longer: so it is looked at again only while nobody holds one. What is measured includes the time
/// for which the machine slept; leases last longer by that.
pub(super) struct Time {
    clock: Arc<dyn Clock>,
    opened: Duration,
    /// The same without the time for which the machine slept.
    opened_awake: Duration,
    /// The time of day at `opened`, in milliseconds since 1970.
    base: AtomicI64,
}

impl Time {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let time = Self {
            opened: clock.now(),
            opened_awake: clock.awake(),
            base: AtomicI64::new(i64::MIN),
            clock,
        };
        time.set();
        time
    }

    /// Milliseconds since 1970. Runs backwards only where [`set`](Self::set) corrects it.
    pub(super) fn now(&self) -> i64 {
        self.base
            .load(Ordering::Relaxed)
            .saturating_add(self.elapsed())
    }

    /// Follows the time of day. A clock that is behind by less than a second is let catch up.
    pub(super) fn set(&self) {
        let now = i64::try_from(self.clock.unix_ms()).unwrap_or(i64::MAX);
        let base = now.saturating_sub(self.elapsed());
        let known = self.base.load(Ordering::Relaxed);
        if base > known || base < known.saturating_sub(STEP_MS) {
            self.base.store(base, Ordering::Relaxed);
        }
    }

    /// For how many milliseconds the machine has slept since the store was opened.
    pub(super) fn slept(&self) -> i64 {
        let awake = self.clock.awake().saturating_sub(self.opened_awake);
        self.elapsed().saturating_sub(millis(awake))
    }

    fn elapsed(&self) -> i64 {
        millis(self.clock.now().saturating_sub(self.opened))
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// What all operations of a store share.
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) time: Time,
    pub(super) hub: Arc<Hub>,
    /// Which namespace had its turn when.
    pub(super) turns: Turns,
    /// Names this opening of the store.
    pub(super) holder: Vec<u8>,
    /// Owners that die with this process.
    pub(super) local_owners: HashSet<String>,
    /// Checks that are not made.
    #[cfg(debug_assertions)]
    pub(super) sabotage: crate::sabotage::Sabotage,
}

impl Shared {
    pub(super) fn now(&self) -> i64 {
        self.time.now()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .field("local_owners", &self.local_owners)
            .finish_non_exhaustive()
    }
}

/// An open SQL transaction, as operations see it.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    /// The store's time, the same for the whole group.
    pub(super) now: i64,
    pub(super) shared: &'a Shared,
    pub(super) lease_floor: &'a Cell<i64>,
    /// Rows of ended sessions are left to be removed.
    pub(super) removing: &'a Cell<bool>,
    pub(super) steps: Cell<u32>,
}

impl Tx<'_> {
    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether transitions of anybody are taken, in a test of the tests.
    pub(super) fn takes_anybody(&self) -> bool {
        #[cfg(debug_assertions)]
        return self.shared.sabotage.fencing;
        #[cfg(not(debug_assertions))]
        false
    }

    /// Whether transitions that are sent again are made again, in a test of the tests.
    pub(super) fn takes_again(&self) -> bool {
        #[cfg(debug_assertions)]
        return self.shared.sabotage.duplicates;
        #[cfg(not(debug_assertions))]
        false
    }

    /// A lease begins or continues; answers its end.
    pub(super) fn lease_until(&self, lease_ms: u32) -> i64 {
        let until = self.now + i64::from(lease_ms);
        self.lease_floor.set(self.lease_floor.get().min(until));
        until
    }

    /// This operation is a transition, a creation, a command, a deletion or a change of a document, and it is
    /// going to happen.
    pub(super) fn step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    /// What is noted beside the leases of an owner that dies with this process.
    pub(super) fn holder_of(&self, owner: &str) -> Option<&[u8]> {
        let local = self.shared.local_owners.contains(owner);
        local.then_some(self.shared.holder.as_slice())
    }
}

/// Why an operation stops before it has written anything.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is refused; others go on.
    Refused(StoreError),
    /// SQLite failed; everything is rolled back.
    Sql(rusqlite::Error),
}

impl Stop {
    /// Why a part of a session cannot be read: if the file is damaged where that part lies, the part is.
    pub(super) fn reading(part: Stored) -> impl FnOnce(rusqlite::Error) -> Self {
        move |error| match error {
            rusqlite::Error::InvalidColumnType(..) => StoreError::Damaged(part).into(),
            _ if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                StoreError::Damaged(part).into()
            }
            error => error.into(),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// A change of the store.
pub(super) trait Operation: Send + 'static {
    /// What it answers.
    type Answer: Send + 'static;

    /// Not worth doing once nobody waits for the answer any more.
    const ONLY_IF_AWAITED: bool = false;

    /// Checks, and then writes; once it has written it is not refused any more. May be called
    /// again after the transaction was rolled back.
    fn apply(&mut self, tx: &Tx<'_>) -> Result<Self::Answer, Stop>;

    /// The session whose owner's transition this is, if it is one.
    fn transition_of(&self) -> Option<&SessionKey> {
        None
    }

    /// Leaves hints, now that it is durable. Comes before the answer: whoever asks after it finds
    /// them.
    fn hint(&self, _hub: &Hub) {}

    /// Tells who waits. Comes after the answer, so that nobody's answer waits for it.
    fn announce(&self, _hub: &Hub) {}
}

/// An operation on its way through the writer's thread, whatever it answers.
pub(super) trait Job: Send {
    /// The session whose owner's transition this is, if it is one.
    fn transition_of(&self) -> Option<&SessionKey>;
    /// Applies the operation; fails only if the whole transaction has to be rolled back.
    fn apply(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()>;
    /// Sends the answer, and tells who waits.
    fn answer(self: Box<Self>, hub: &Hub);
    /// Sends an error in the place of the answer.
    fn fail(self: Box<Self>, error: StoreError);
}

/// An operation and whoever waits for its answer.
pub(super) struct Pending<O: Operation> {
    operation: O,
    answer: Option<StoreResult<O::Answer>>,
    reply: oneshot::Sender<StoreResult<O::Answer>>,
}

/// Something to do for the thread.
pub(super) enum Task {
    Write(Box<dyn Job>),
    Read(Box<dyn FnOnce(&Connection) + Send>),
    /// Do what was sent before, give up the file, and say so.
    Close(oneshot::Sender<()>),
}

/// An operation to be carried out, and where its answer will be.
pub(super) fn pending<O: Operation>(
    operation: O,
) -> (Box<dyn Job>, oneshot::Receiver<StoreResult<O::Answer>>) {
    let (reply, answer) = oneshot::channel();
    let pending = Pending {
        operation,
        answer: None,
        reply,
    };
    (Box::new(pending), answer)
}

impl Task {
    /// The session whose owner's transition this is, if it is one.
    pub(super) fn transition_of(&self) -> Option<&SessionKey> {
        match self {
            Self::Write(job) => job.transition_of(),
            Self::Read(_) | Self::Close(_) => None,
        }
    }
}

impl<O: Operation> Job for Pending<O> {
    fn transition_of(&self) -> Option<&SessionKey> {
        self.operation.transition_of()
    }

    fn apply(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        self.answer = None;
        if O::ONLY_IF_AWAITED && self.reply.is_closed() {
            return Ok(());
        }
        let before = tx.conn.total_changes();
        self.answer = match self.operation.apply(tx) {
            Ok(answer) => Some(Ok(answer)),
            Err(Stop::Refused(error)) => {
                debug_assert_eq!(before, tx.conn.total_changes(), "refused after a write");
                Some(Err(error))
            }
            Err(Stop::Sql(error)) => return Err(error),
        };
        Ok(())
    }

    fn answer(self: Box<Self>, hub: &Hub) {
        let Some(answer) = self.answer else {
            return;
        };
        let happened = answer.is_ok();
        if happened {
            self.operation.hint(hub);
        }
        // Nobody may wait any more; it happened all the same.
        let _ = self.reply.send(answer);
        if happened {
            self.operation.announce(hub);
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}
