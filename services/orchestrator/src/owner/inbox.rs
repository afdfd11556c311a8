//! The time for which a session is its owner's, and all that reaches the owner in it.

use super::{End, Message};
use crate::dispatch::Slot;
use crate::store::{StoreClock, may_pass};
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_rpc::{ErrorKind, RpcError};
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll, Stream};
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::{Instant, Sleep};

/// Most messages that one transition takes in.
const LARGEST_BATCH: usize = 128;

/// The timer may fire this long after the end that the owner keeps. A tenth of the lease is left then.
const LATEST_LOOK: Duration = Duration::from_millis(5);

/// First pause before the store is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Longest pause before the store is asked again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What an owner is told by the process that it runs in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// There may be commands that it has not seen.
    Woken,
    /// The lease was renewed until then, by the store's clock.
    Renewed(i64),
    /// The session is somebody else's, or gone.
    Lost,
    /// The process is about to end: begin nothing, and let go.
    Stop,
}

/// A lease, with what happens while it runs. Whatever an owner waits for, it waits here: renewals
/// count at once, and nothing continues when the lease ends.
pub(super) struct Inbox {
    clock: Arc<StoreClock>,
    /// Length of the lease after a renewal.
    lease: Duration,
    /// Its end, by the store's clock.
    until: i64,
    /// Its end by this machine's clock, which stays the same when the store's clock is set.
    ends: Instant,
    /// One timer for all waits. It may fire early, as renewals do not move it; then it is set again.
    look: Pin<Box<Sleep>>,
    notices: mpsc::UnboundedReceiver<Notice>,
    work: SelectAll<BoxStream<'static, Message>>,
    batch: VecDeque<Message>,
    is_woken: bool,
    is_stopping: bool,
    /// Its end is not looked at.
    is_trusted: bool,
}

impl Inbox {
    pub(super) fn new(
        clock: Arc<StoreClock>,
        lease: Duration,
        until: i64,
        notices: mpsc::UnboundedReceiver<Notice>,
    ) -> Self {
        Self {
            ends: Instant::now() + lasts(&clock, lease, until),
            clock,
            lease,
            until,
            look: Box::pin(tokio::time::sleep(lease)),
            notices,
            work: SelectAll::new(),
            batch: VecDeque::new(),
            is_woken: false,
            is_stopping: false,
            is_trusted: false,
        }
    }

    /// The end of the lease is not looked at, in a test of what else holds former owners off.
    pub(super) fn trust(mut self, is_trusted: bool) -> Self {
        self.is_trusted = is_trusted;
        self
    }

    pub(super) fn renewed(&mut self, until: i64) {
        // A lease that seems to end later than this was given by a clock that was wrong.
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let latest = self.clock.now().saturating_add(lease);
        let latest = i64::try_from(latest).unwrap_or(i64::MAX);
        self.until = self.until.min(latest).max(until);
        let ends = Instant::now() + lasts(&self.clock, self.lease, until);
        self.ends = self.ends.max(ends);
    }

    /// No call with side effects may begin after this, by the store's clock: the lease's end, less
    /// a fifth.
    pub(super) fn not_after(&self) -> i64 {
        let fifth = i64::try_from(self.lease.as_millis() / 5).unwrap_or(i64::MAX);
        self.until.saturating_sub(fifth)
    }

    /// How long work may go on without a renewal: executors are to stop before others may begin.
    pub(super) fn remaining(&self) -> Duration {
        if self.is_trusted {
            return self.lease;
        }
        let remaining = self.ends.saturating_duration_since(Instant::now());
        remaining.saturating_sub(self.lease / 10)
    }

    /// Fails if the lease has ended; else sees that the timer is set for its end.
    fn look_at_end(&mut self) -> Result<(), End> {
        let remaining = self.remaining();
        if remaining.is_zero() {
            return Err(End::Fenced);
        }
        let end = Instant::now() + remaining;
        if self.look.is_elapsed() || end + LATEST_LOOK < self.look.deadline() {
            self.look.as_mut().reset(end);
        }
        Ok(())
    }

    /// The process is about to end, or the session is left to another one.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// The session is left to another process.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Takes in what the work brings from now on.
    pub(super) fn listen(&mut self, work: impl Stream<Item = Message> + Send + 'static) {
        self.work.push(work.boxed());
    }

    /// Something has arrived that nobody has looked at.
    pub(super) fn has_messages(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Something has arrived from this work that nobody has looked at.
    pub(super) fn has_message_of(&self, work: Work) -> bool {
        self.batch
            .iter()
            .any(|message| message.work() == Some(work))
    }

    /// Attempts that have got a slot which nobody has looked at.
    pub(super) fn slots(&self) -> impl Iterator<Item = (AttemptRef, &Slot)> {
        self.batch.iter().filter_map(|message| match message {
            Message::SlotFree { attempt, slot } => Some((*attempt, slot)),
            _ => None,
        })
    }

    /// Adds what the owner has done by itself.
    pub(super) fn add(&mut self, message: Message) {
        self.batch.push_back(message);
    }

    /// The oldest of them.
    pub(super) fn take_message(&mut self) -> Option<Message> {
        self.batch.pop_front()
    }

    /// Whether there may be commands that the owner has not seen.
    pub(super) fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.is_woken)
    }

    /// Takes in what the process has told already.
    pub(super) fn drain_notices(&mut self) -> Result<(), End> {
        loop {
            match self.notices.try_recv() {
                Ok(notice) => self.on_notice(Some(notice))?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.on_notice(None),
            }
        }
    }

    /// Waits until something arrives that the owner has to look at.
    pub(super) async fn wait(&mut self) -> Result<(), End> {
        let was_stopping = self.is_stopping;
        while self.batch.is_empty() && !self.is_woken && self.is_stopping == was_stopping {
            self.look_at_end()?;
            tokio::select! {
                Some(message) = self.work.next(), if !self.work.is_empty() => {
                    self.batch.push_back(message);
                }
                notice = self.notices.recv() => self.on_notice(notice)?,
                () = self.look.as_mut() => {}
            }
        }
        Ok(())
    }

    /// Waits for something other than the store, and takes in what arrives until then.
    pub(super) async fn wait_for<F: Future<Output = ()>>(&mut self, other: F) -> Result<(), End> {
        self.while_listening(pin!(other)).await
    }

    /// Makes a call to the store until it is answered. What may be cured by waiting is tried again
    /// until the lease ends, with longer and longer pauses; a repeat has to do no harm. `call` gets
    /// the time that one try may take.
    ///
    /// # Errors
    /// The lease ended, the session is lost, or the store says no.
    pub(super) async fn retry_until_lease_ends<T, F>(
        &mut self,
        mut call: impl FnMut(Duration) -> F,
    ) -> Result<T, End>
    where
        F: Future<Output = Result<T, RpcError>>,
    {
        let mut pause = FIRST_PAUSE;
        let mut last = None;
        loop {
            let time = self.remaining().min(self.lease / 3);
            let began = Instant::now();
            match self.while_listening(pin!(call(time))).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if !may_pass(&error) => return Err(end_of(error)),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the store is asked again");
                    // A process that was suspended meanwhile has learned nothing of the store.
                    let was_suspended = began.elapsed() > time + self.lease / 3;
                    last = (!was_suspended).then_some(error);
                }
                Err(end) => return Err(self.given_up(end, last)),
            }
            let pausing = pin!(tokio::time::sleep(pause));
            if let Err(end) = self.while_listening(pausing).await {
                return Err(self.given_up(end, last));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// If the lease ended, whoever watches is told why it was not renewed by what was tried.
    fn given_up(&self, end: End, last: Option<RpcError>) -> End {
        match last {
            Some(error) if self.remaining().is_zero() => End::Stalled(error),
            _ => end,
        }
    }

    /// Waits for `future` and takes in what arrives meanwhile.
    async fn while_listening<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
    ) -> Result<F::Output, End> {
        loop {
            self.look_at_end()?;
            let has_room = self.batch.len() < LARGEST_BATCH;
            tokio::select! {
                biased;
                output = future.as_mut() => return Ok(output),
                notice = self.notices.recv() => self.on_notice(notice)?,
                Some(message) = self.work.next(), if has_room && !self.work.is_empty() => {
                    self.batch.push_back(message);
                }
                () = self.look.as_mut() => {}
            }
        }
    }

    fn on_notice(&mut self, notice: Option<Notice>) -> Result<(), End> {
        match notice {
            Some(Notice::Woken) => self.is_woken = true,
            Some(Notice::Renewed(until)) => self.renewed(until),
            Some(Notice::Stop) => self.is_stopping = true,
            // Without a sender, another owner has taken this one's place in the process.
            Some(Notice::Lost) | None => return Err(End::Fenced),
        }
        Ok(())
    }
}

/// How long a lease lasts from now on that ends then by the store's clock.
fn lasts(clock: &StoreClock, lease: Duration, until: i64) -> Duration {
    let until = u64::try_from(until).unwrap_or(0);
    Duration::from_millis(until.saturating_sub(clock.now())).min(lease)
}

/// What an answer of the store that will not change means for the owner.
fn end_of(error: RpcError) -> End {
    let is_gone = match error.kind() {
        // Any other conflict: what is known here is not what the journal holds.
        ErrorKind::Conflict => error.reason_name() == "FENCED",
        ErrorKind::NotFound => true,
        _ => false,
    };
    if is_gone {
        End::Fenced
    } else {
        End::Stalled(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_by_a_wrong_clock_lasts_until_the_next_renewal() {
        let clock = Arc::new(StoreClock::new(1_000_000));
        let (_sender, notices) = mpsc::unbounded_channel();
        let lease = Duration::from_secs(15);
        let mut inbox = Inbox::new(clock.clone(), lease, 1_015_000, notices);
        // An hour ahead for a moment.
        clock.take(clock.now(), 4_600_000);
        inbox.renewed(4_615_000);
        assert_eq!(inbox.remaining(), Duration::from_millis(13_500));
        clock.take(clock.now(), 1_000_100);
        inbox.renewed(1_015_100);
        assert_eq!(inbox.remaining(), Duration::from_millis(13_500));
        assert_eq!(inbox.not_after(), 1_012_100);
        // Of answers that overtake each other the later end counts.
        inbox.renewed(1_014_000);
        assert_eq!(inbox.not_after(), 1_012_100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_neither_ends_a_lease_nor_makes_it_longer() {
        let (start, hour) = (10_000_000_i64, 3_600_000);
        for wrong in [start + hour, start - hour] {
            let clock = Arc::new(StoreClock::new(start));
            let (_sender, notices) = mpsc::unbounded_channel();
            let lease = Duration::from_secs(15);
            let inbox = Inbox::new(clock.clone(), lease, start + 15_000, notices);
            // By the answer to another owner of this process.
            clock.take(clock.now(), wrong);
            for seconds in [0, 10, 5] {
                tokio::time::advance(Duration::from_secs(seconds)).await;
                let elapsed = clock.now() - wrong.cast_unsigned();
                let left = Duration::from_millis(13_500_u64.saturating_sub(elapsed));
                assert_eq!(inbox.remaining(), left, "{wrong}");
            }
        }
    }
}
