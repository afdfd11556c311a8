//! One server, and the one connection over which commands go to it.

use super::address::Endpoint;
use super::failure::{Effect, failed, is_elsewhere, is_misplaced, unreachable};
use super::vouch::{History, Vouched};
use super::witness::{Checked, Look};
use crate::port::{StoreError, StoreResult};
use cairn_rpc::{BootClock, Monotonic as _, SingleFlight};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, PushKind, RedisError, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// A value of more bytes has a connection of its own.
pub(super) const LARGE: usize = 256 * 1024;

/// Bytes of such a value for which a second more is waited.
const BYTES_PER_SECOND: usize = 4 << 20;

/// Commands that may wait to be sent before callers have to wait themselves.
const QUEUE: usize = 1024;

/// After a failure to connect, further calls fail at once for a time that doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a command has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It was not sent.
    NotSent(StoreError),
    /// It was sent, or may have been; or the server answered with an error.
    Failed(RedisError),
    /// It was not sent, for what came of holding what the server has against what is known.
    Unchecked(Look),
    /// It was not sent: the server was a replica when it was looked at. It may be a master since, which
    /// nobody has held against anything.
    Replica,
}

impl Trouble {
    /// Whether the server does not have, or cannot serve, what it was asked for.
    pub(super) fn is_misplaced(&self) -> bool {
        matches!(self, Self::Failed(error) if is_misplaced(error))
    }

    /// Whether its keys are on their way to another server, or there.
    pub(super) fn is_elsewhere(&self) -> bool {
        match self {
            Self::Failed(error) => is_elsewhere(error),
            _ => self.is_passing(),
        }
    }

    /// Whether it was not sent for what may be over in a moment.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unchecked(look) => *look != Look::Lost,
            Self::Replica => true,
            Self::NotSent(_) | Self::Failed(_) => false,
        }
    }

    /// What to tell of a command that changes nothing.
    pub(super) fn told(self, node: &Node) -> StoreError {
        match self {
            Self::NotSent(error) => error,
            Self::Failed(error) => failed(&node.name(), &error, Effect::Reads),
            Self::Replica => StoreError::unavailable(format!(
                "{} is a replica: name the master, or the sentinels",
                node.name()
            )),
            Self::Unchecked(Look::Lost) => StoreError::unavailable(format!(
                "{} has lost acknowledged writes, and cannot set the session aside for now",
                node.name()
            )),
            Self::Unchecked(_) => StoreError::unavailable(format!(
                "sessions are on their way to {} or from there, and cannot be looked at for now",
                node.name()
            )),
        }
    }
}

/// A server.
pub(super) struct Node {
    pub(super) endpoint: Endpoint,
    client: Client,
    live: Mutex<Option<Live>>,
    connecting: SingleFlight<StoreResult<Live>>,
    backoff: Mutex<Backoff>,
    /// Holds it against what is known.
    pub(super) vouching: SingleFlight<StoreResult<Vouched>>,
    /// How it was when it was last held against what is known; taken away meanwhile.
    pub(super) history: Mutex<Option<History>>,
    /// It has to be held against what is known again, whatever its lineage.
    is_doubted: AtomicBool,
    /// It is to be doubted in a while.
    is_waiting: AtomicBool,
}

/// A connection that worked when it was last looked at.
#[derive(Clone)]
pub(super) struct Live {
    connection: MultiplexedConnection,
    is_alive: Arc<AtomicBool>,
    /// What of the server was held against what is known, unless it is doubted.
    voucher: Arc<Mutex<Option<Voucher>>>,
}

/// What of a server was held against what is known.
struct Voucher {
    checked: Arc<Checked>,
    /// Until when it is the same server for sure, by [`BootClock`]; for ever if it does not tell. A
    /// server can become a replica and then a master again, with less than it had, while its
    /// connections stay and this process sleeps.
    until: Option<Duration>,
}

impl Live {
    /// What of the server was vouched for, and for how long yet; for ever if it does not tell.
    pub(super) fn checked(&self) -> Option<(Arc<Checked>, Option<Duration>)> {
        let slot = self.slot();
        let voucher = slot.as_ref()?;
        let left = match voucher.until {
            Some(until) => Some(
                until
                    .checked_sub(BootClock.now())
                    .filter(|it| !it.is_zero())?,
            ),
            None => None,
        };
        Some((voucher.checked.clone(), left))
    }

    /// What was vouched for does not hold any more.
    pub(super) fn distrust(&self) {
        self.slot().take();
    }

    fn slot(&self) -> MutexGuard<'_, Option<Voucher>> {
        self.voucher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Backoff {
    pause: Duration,
    last: Option<(Instant, StoreError)>,
}

impl Node {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, RedisError> {
        Ok(Self {
            client: endpoint.client()?,
            endpoint,
            live: Mutex::default(),
            connecting: SingleFlight::new(),
            backoff: Mutex::default(),
            vouching: SingleFlight::new(),
            history: Mutex::default(),
            is_doubted: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        })
    }

    /// For errors and logs.
    pub(super) fn name(&self) -> String {
        self.endpoint.name()
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn send(self: &Arc<Self>, cmd: &Cmd) -> Result<Value, Trouble> {
        let live = self.connection().await.map_err(Trouble::NotSent)?;
        self.send_over(live, cmd).await
    }

    /// The same over this connection.
    pub(super) async fn send_over(&self, mut live: Live, cmd: &Cmd) -> Result<Value, Trouble> {
        let answer = cmd.query_async(&mut live.connection).await;
        answer.map_err(|error| self.broken(&live, error))
    }

    /// Sends a command with a large value, or one that is answered so, over a connection of its own, so that
    /// no other command waits behind it.
    pub(super) async fn send_large(&self, cmd: &Cmd, bytes: usize) -> Result<Value, Trouble> {
        self.backoff().check().map_err(Trouble::NotSent)?;
        let made = self.connect().await;
        let made = made.map_err(|error| Trouble::NotSent(unreachable(&self.endpoint, &error)));
        let mut connection = made?.connection;
        connection.set_response_timeout(time_for(bytes));
        let answer = cmd.query_async(&mut connection).await;
        answer.map_err(Trouble::Failed)
    }

    /// Sends several commands at once; one error stands for all.
    pub(super) async fn send_all(
        self: &Arc<Self>,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Trouble> {
        let live = self.connection().await.map_err(Trouble::NotSent)?;
        self.send_all_over(live, commands).await
    }

    /// The same over this connection.
    pub(super) async fn send_all_over(
        &self,
        mut live: Live,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Trouble> {
        let answers = commands.query_async(&mut live.connection).await;
        answers.map_err(|error| self.broken(&live, single(error)))
    }

    /// The same, with an answer or an error of the server to each.
    pub(super) async fn send_each_over(
        &self,
        mut live: Live,
        mut commands: Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, Trouble> {
        commands.ignore_errors();
        let answers = commands.query_async(&mut live.connection).await;
        answers.map_err(|error| self.broken(&live, error))
    }

    /// A connection of its own, which tells of everything that is pushed to it.
    pub(super) async fn listen(
        &self,
        sender: tokio::sync::mpsc::UnboundedSender<PushInfo>,
    ) -> StoreResult<MultiplexedConnection> {
        let config = config().set_push_sender(sender);
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await;
        connection.map_err(|error| unreachable(&self.endpoint, &error))
    }

    /// Gives the connection up. What is on its way is still answered.
    pub(super) fn disconnect(&self) {
        self.live_slot().take();
    }

    /// A connection that does not answer any more is not used again.
    fn broken(&self, live: &Live, error: RedisError) -> Trouble {
        if error.is_timeout() || error.is_unrecoverable_error() {
            live.is_alive.store(false, Ordering::Relaxed);
        }
        Trouble::Failed(error)
    }

    /// The server may have another part than before, or another history.
    pub(super) fn doubt(&self) {
        let slot = self.live_slot();
        self.is_doubted.store(true, Ordering::Release);
        if let Some(live) = &*slot {
            live.distrust();
        }
    }

    /// Whether it was, and was not looked at since.
    pub(super) fn is_doubted(&self) -> bool {
        self.is_doubted.load(Ordering::Acquire)
    }

    /// Whether nobody waits yet to doubt the server, in which case it is up to the caller.
    pub(super) fn begin_waiting(&self) -> bool {
        !self.is_waiting.swap(true, Ordering::AcqRel)
    }

    /// Doubts the server, as somebody waited to do.
    pub(super) fn doubt_after_waiting(&self) {
        self.is_waiting.store(false, Ordering::Release);
        self.doubt();
    }

    /// Vouches for a connection, for as long as that holds, unless the server was doubted since that was
    /// asked last: the doubt may be about what was not looked at.
    pub(super) fn vouch(&self, live: &Live, checked: &Arc<Checked>, until: Option<Duration>) {
        // No doubt can come in between.
        let _slot = self.live_slot();
        if !self.is_doubted() {
            let checked = checked.clone();
            *live.slot() = Some(Voucher { checked, until });
        }
    }

    /// Whether it was doubted since that was asked last.
    pub(super) fn take_doubt(&self) -> bool {
        self.is_doubted.swap(false, Ordering::AcqRel)
    }

    /// A connection, which may have to be made.
    pub(super) async fn connection(self: &Arc<Self>) -> StoreResult<Live> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let node = self.clone();
        let made = self
            .connecting
            .join(|| async move { node.connect_anew().await });
        made.await.unwrap_or_else(|| Err(self.given_up()))
    }

    /// What is told of work whose task has ended before its time.
    pub(super) fn given_up(&self) -> StoreError {
        StoreError::unavailable(format!("{} is given up: this process ends", self.name()))
    }

    async fn connect_anew(&self) -> StoreResult<Live> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        self.backoff().check()?;
        match self.connect().await {
            Ok(live) => {
                *self.backoff() = Backoff::default();
                *self.live_slot() = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                let error = unreachable(&self.endpoint, &error);
                self.backoff().failed(error.clone());
                Err(error)
            }
        }
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Live, RedisError> {
        let is_alive = Arc::new(AtomicBool::new(true));
        let told = is_alive.clone();
        let config = config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                told.store(false, Ordering::Relaxed);
            }
            Ok::<_, redis::aio::SendError>(())
        });
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Live {
            connection,
            is_alive,
            voucher: Arc::default(),
        })
    }

    /// The connection, if there is one.
    pub(super) fn live(&self) -> Option<Live> {
        let mut slot = self.live_slot();
        let is_alive = slot
            .as_ref()
            .is_some_and(|live| live.is_alive.load(Ordering::Relaxed));
        if !is_alive {
            slot.take();
        }
        slot.clone()
    }

    fn live_slot(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long an answer is waited for where a value of so many bytes goes over the network.
fn time_for(bytes: usize) -> Duration {
    let seconds = u64::try_from(bytes / BYTES_PER_SECOND).unwrap_or(u64::MAX);
    ANSWER.saturating_add(Duration::from_secs(seconds))
}

/// The first error that the server answered to several commands.
fn single(error: RedisError) -> RedisError {
    let errors = error.clone().into_server_errors();
    let first = errors.and_then(|errors| errors.first().cloned());
    first.map_or(error, |(_, first)| first.into())
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(ANSWER))
        .set_pipeline_buffer_size(QUEUE)
}

impl Backoff {
    fn check(&self) -> StoreResult<()> {
        match &self.last {
            Some((failed, error)) if failed.elapsed() < self.pause => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn failed(&mut self, error: StoreError) {
        self.pause = (2 * self.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.last = Some((Instant::now(), error));
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.endpoint).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_has_more_time() {
        for (mib, seconds) in [(0, 5), (3, 5), (4, 6), (60, 20)] {
            assert_eq!(time_for(mib << 20), Duration::from_secs(seconds), "{mib}");
        }
    }
}
