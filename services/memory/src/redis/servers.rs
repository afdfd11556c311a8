//! All servers of a store: which one has a partition, and how it is asked.

use super::failure::{Effect, failed, is_elsewhere, is_misplaced, odd};
use super::identity::Identity;
use super::layout::{Layout, Plan};
use super::lookout::Lookout;
use super::node::{LARGE, Node, Trouble};
use super::script::{Call, Clock, Reply, is_unknown};
use super::time::Time;
use super::vouch::Vouched;
use super::witness::{Look, Witness};
use crate::port::{StoreError, StoreResult};
use cairn_rpc::SingleFlight;
use futures::future::join_all;
use redis::{Cmd, RedisError, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Calls at the same time; only so that closing can wait for them.
const CALLS: u32 = 1 << 20;

/// The longest that closing waits for them: longer than a server may take to answer.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// How often a call goes to another server, or to the same again, before it counts as refused.
pub(super) const ATTEMPTS: u32 = 6;

/// Before a call that came amid a move of its keys is made again.
pub(super) const MOVING: Duration = Duration::from_millis(20);

/// After a search in vain calls go where they went before, and the next search comes later.
const SEARCH_AGAIN: Duration = Duration::from_millis(250);

/// The servers of a store.
pub(super) struct Servers {
    plan: Plan,
    layout: RwLock<Arc<Layout>>,
    is_stale: AtomicBool,
    finding: SingleFlight<()>,
    /// When they were last searched in vain.
    failed: Mutex<Option<Instant>>,
    calls: Semaphore,
    pub(super) vouched_times: AtomicU64,
    pub(super) time: Time,
    pub(super) identity: Identity,
    pub(super) witness: Witness,
    pub(super) lookout: Arc<Lookout>,
}

impl Servers {
    pub(super) fn new(
        plan: Plan,
        layout: Layout,
        time: Time,
        identity: Identity,
        witness: Witness,
        lookout: Arc<Lookout>,
    ) -> Self {
        Self {
            plan,
            layout: RwLock::new(Arc::new(layout)),
            is_stale: AtomicBool::new(false),
            finding: SingleFlight::new(),
            failed: Mutex::default(),
            calls: Semaphore::new(CALLS as usize),
            vouched_times: AtomicU64::new(0),
            time,
            identity,
            witness,
            lookout,
        }
    }

    /// Runs a script where the partition is.
    pub(super) async fn call(
        self: &Arc<Self>,
        partition: u16,
        mut call: Call<'_>,
        effect: Effect,
    ) -> StoreResult<Reply> {
        let _permit = self.permit().await?;
        if self.time.clock() != Clock::Server {
            call = call.arg(self.time.given());
        }
        let value = self.routed(partition, &call, effect).await;
        let value = value.inspect_err(|_| self.lookout.call_failed())?;
        Reply::new(value).map_err(|error| odd(effect, error))
    }

    /// Sends a bare command to where the partition is, which writes or reads a value of so many bytes.
    /// Large values go this way: a script would copy them twice more, while nobody else is served.
    pub(super) async fn send_value(
        self: &Arc<Self>,
        partition: u16,
        cmd: Cmd,
        bytes: usize,
        effect: Effect,
    ) -> StoreResult<Value> {
        let _permit = self.permit().await?;
        let call = Call::bare(cmd, bytes);
        let value = self.routed(partition, &call, effect).await;
        value.inspect_err(|_| self.lookout.call_failed())
    }

    /// Every server that has partitions. Those that can be reached are held against what is known,
    /// as before any call.
    pub(super) async fn present(self: &Arc<Self>) -> StoreResult<Arc<Layout>> {
        let _permit = self.permit().await?;
        let layout = self.layout().await?;
        let vouched = layout.nodes().iter().map(|node| self.vouched(node));
        for vouched in join_all(vouched).await {
            if let Err(error) = vouched {
                tracing::debug!(%error, "a server of the store is not there for now");
                self.stale();
            }
        }
        Ok(layout)
    }

    pub(super) async fn permit(&self) -> StoreResult<SemaphorePermit<'_>> {
        let permit = self.calls.acquire().await;
        permit.map_err(|_| StoreError::closed())
    }

    /// How often a server was held against what is known. While that stays the same, all answers were of the same
    /// servers with the same history, and none of them went back.
    pub(super) fn vouched_times(&self) -> u64 {
        self.vouched_times.load(Ordering::Acquire)
    }

    /// Every server that has partitions.
    pub(super) async fn layout(self: &Arc<Self>) -> StoreResult<Arc<Layout>> {
        if self.is_stale.load(Ordering::Relaxed) {
            let servers = self.clone();
            let found = self.finding.join(|| async move { servers.find().await });
            let ended = || StoreError::unavailable("no server is looked for: this process ends");
            found.await.ok_or_else(ended)?;
        }
        Ok(self.known())
    }

    async fn find(&self) {
        let failed = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_soon = failed().is_some_and(|failed| failed.elapsed() < SEARCH_AGAIN);
        // It may have been found since that was asked.
        if is_soon || !self.is_stale.swap(false, Ordering::Relaxed) {
            return;
        }
        let known = self.known();
        match self.plan.find(known.nodes()).await {
            Ok(layout) => {
                *failed() = None;
                if !layout.is_same(&known) {
                    let layout = Arc::new(layout);
                    *self.layout.write().unwrap_or_else(PoisonError::into_inner) = layout.clone();
                    // Who is checked from now on is checked for the part that it has now.
                    layout.nodes().iter().for_each(|node| node.doubt());
                }
            }
            // Those who know may be gone while the server itself is there.
            Err(error) => {
                tracing::debug!(%error, "the servers of the store are not found");
                *failed() = Some(Instant::now());
                self.stale();
            }
        }
    }

    /// The servers may have changed their parts.
    pub(super) fn stale(&self) {
        if self.plan.can_change() {
            self.is_stale.store(true, Ordering::Relaxed);
        }
    }

    /// The same, if that server is one of them: what was asked of one that another has taken the place
    /// of may fail long after that is known, and somebody may still tell the old parts.
    fn stale_by(&self, node: &Node) {
        let layout = self.known();
        if layout.nodes().iter().any(|it| std::ptr::eq(&**it, node)) {
            self.stale();
        }
    }

    /// Waits for the calls that go on, admits no more and disconnects.
    pub(super) async fn close(&self) {
        // Whoever closes the store waits for no look at the servers.
        self.lookout.close();
        // One that nobody polls any more does not end.
        let all = tokio::time::timeout(LAST_CALLS, self.calls.acquire_many(CALLS)).await;
        self.close_now();
        drop(all);
    }

    /// Admits no more calls and disconnects.
    pub(super) fn close_now(&self) {
        self.lookout.close();
        self.calls.close();
        for node in self.known().nodes() {
            node.disconnect();
        }
        self.plan.disconnect();
    }

    /// Whether this is how the servers are, as far as is known.
    pub(super) fn is_known(&self, layout: &Arc<Layout>) -> bool {
        Arc::ptr_eq(layout, &self.known())
    }

    pub(super) fn known(&self) -> Arc<Layout> {
        self.layout
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn routed(
        self: &Arc<Self>,
        partition: u16,
        call: &Call<'_>,
        effect: Effect,
    ) -> StoreResult<Value> {
        let mut attempt = 1;
        loop {
            let node = self.layout().await?.node(partition).clone();
            let error = match self.send(&node, partition, call, effect).await {
                Ok(value) => return Ok(value),
                Err(Trouble::Failed(error)) => error,
                Err(trouble) if attempt < ATTEMPTS && trouble.is_passing() => {
                    attempt += 1;
                    tokio::time::sleep(MOVING).await;
                    continue;
                }
                Err(trouble) => return Err(self.lost(&node, trouble)),
            };
            if attempt == ATTEMPTS || !self.again(&node, call, &error).await? {
                return Err(self.told(&node, &error, effect));
            }
            attempt += 1;
        }
    }

    async fn send(
        self: &Arc<Self>,
        node: &Arc<Node>,
        partition: u16,
        call: &Call<'_>,
        effect: Effect,
    ) -> Result<Value, Trouble> {
        let vouched = self.vouched(node).await.map_err(Trouble::NotSent)?;
        self.admits(node, &vouched, partition, effect)?;
        match call.bytes > LARGE {
            true => node.send_large(&call.cmd, call.bytes).await,
            false => node.send_over(vouched.live, &call.cmd).await,
        }
    }

    /// Whether a server may be asked for a partition: what it has of that was looked at. Else who asks
    /// could get past what is lost before anybody sees it, or writes past it before it is quarantined.
    pub(super) fn admits(
        &self,
        node: &Arc<Node>,
        vouched: &Vouched,
        partition: u16,
        effect: Effect,
    ) -> Result<(), Trouble> {
        // A master that became a replica may lack what was acknowledged, for readers too.
        let Some(checked) = &vouched.checked else {
            return Err(Trouble::Replica);
        };
        let look = checked.of(partition);
        match look {
            Look::Taken => return Ok(()),
            Look::Lost if effect == Effect::Reads => return Ok(()),
            // It is looked at again soon.
            Look::InVain | Look::Lost => {}
            Look::NotHere => {
                self.stale();
                // Or who asks goes by a layout that is not so any more.
                if Arc::ptr_eq(self.known().node(partition), node) {
                    node.doubt();
                }
            }
        }
        Err(Trouble::Unchecked(look))
    }

    /// Whether the call did not happen, for a reason that is out of the way now.
    async fn again(
        &self,
        node: &Arc<Node>,
        call: &Call<'_>,
        error: &RedisError,
    ) -> StoreResult<bool> {
        if let Some(script) = call.script.filter(|_| is_unknown(error)) {
            let loaded = node.send(&script.load()).await;
            loaded.map_err(|trouble| self.lost(node, trouble))?;
            return Ok(true);
        }
        match (is_elsewhere(error), is_misplaced(error)) {
            (false, _) => return Ok(false),
            (true, true) => self.stale(),
            // Some of a script's keys are here and some there. Nothing helps but time.
            (true, false) => tokio::time::sleep(MOVING).await,
        }
        Ok(true)
    }

    fn told(&self, node: &Node, error: &RedisError, effect: Effect) -> StoreError {
        if is_misplaced(error) {
            // It may come to have another's data before it is a master again.
            node.doubt();
        }
        if is_misplaced(error) || error.is_io_error() {
            self.stale_by(node);
        }
        failed(&node.name(), error, effect)
    }

    pub(super) fn lost(&self, node: &Node, trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Failed(error) => self.told(node, &error, Effect::Reads),
            Trouble::NotSent(_) | Trouble::Replica => {
                self.stale_by(node);
                trouble.told(node)
            }
            Trouble::Unchecked(_) => trouble.told(node),
        }
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers")
            .field("nodes", &self.known().nodes())
            .finish_non_exhaustive()
    }
}
