//! The executors behind a link, and the slots that they report.

use super::queue::{MemberId, Queue, Ticket};
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::{
    ExecutorState, RunStepRequest, RunStepResponse, WatchStatusRequest, WatchStatusResponse,
};
use cairn_proto::{SLOTS_VERSION, START_BYTES};
use cairn_rpc::metrics::{self, gauge};
use cairn_rpc::{Link, Member, Namespace, RpcError};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt as _};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};

/// First and longest pause before an executor that does not report is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// All executors. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Executors(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue<Instant>,
    followed: HashMap<MemberId, Followed>,
    /// Where waiting attempts expect their slots.
    waiting: HashMap<Ticket<Instant>, oneshot::Sender<Slot>>,
    /// The last value of the gauge; none before the first.
    shown: Option<usize>,
}

/// An executor that is followed.
#[derive(Debug)]
struct Followed {
    link: Link,
    /// Asks for its status anew: what it reported last is not so.
    refresh: Arc<Notify>,
    /// Refusals and broken streams since an attempt began there.
    failures: u32,
    _watching: AbortOnDropHandle<()>,
}

/// A slot that is reserved for one attempt. Dropping it gives it to the next.
#[derive(Debug)]
pub(crate) struct Slot {
    executors: Weak<Shared>,
    id: MemberId,
    level: u32,
    link: Link,
    is_used: bool,
}

impl Slot {
    /// The executor that it belongs to.
    pub(crate) fn executor(&self) -> &Arc<str> {
        &self.id
    }

    /// How much that executor can read.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    /// Begins the attempt.
    ///
    /// # Errors
    /// Those of the executor. One that has no free slot after all, or cannot be reached, gets no attempt
    /// until it reports again.
    pub(crate) async fn run_step(
        mut self,
        requests: Request<UnboundedReceiver<RunStepRequest>>,
    ) -> Result<(Streaming<RunStepResponse>, Used), Status> {
        let mut executor = ExecutorServiceClient::new(self.link.clone());
        let (open, gate) = oneshot::channel::<()>();
        let gate = Some(gate).filter(|_| requests.metadata().contains_key(START_BYTES));
        let requests = requests.map(|messages| Gated { gate, messages });
        let begun = executor.run_step(requests).await;
        drop(open);
        if let Some(executors) = self.executors.upgrade() {
            let mut state = executors.lock();
            match &begun {
                Ok(answer) => state.begin(&self.id, version_of(answer.metadata())),
                Err(status) => state.refuse(&self.id, &RpcError::from_status(status)),
            }
            self.is_used = true;
        }
        let used = Used {
            executors: self.executors.clone(),
            id: self.id.clone(),
        };
        Ok((begun?.into_inner(), used))
    }
}

/// The messages of an owner. A large start waits until the executor has memory for it.
struct Gated {
    /// Ends when its sender is dropped.
    gate: Option<oneshot::Receiver<()>>,
    messages: UnboundedReceiver<RunStepRequest>,
}

impl Stream for Gated {
    type Item = RunStepRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(gate) = &mut self.gate {
            let _ = ready!(Pin::new(gate).poll(context));
            self.gate = None;
        }
        self.messages.poll_next_unpin(context)
    }
}

/// A slot that an attempt has. To drop it before the stream of the attempt says that its owner lets go.
#[derive(Debug)]
pub(crate) struct Used {
    executors: Weak<Shared>,
    id: MemberId,
}

impl Used {
    /// The executor has ended the stream: it has freed the slot, and reports that.
    pub(crate) fn end_by_executor(mut self) {
        self.executors = Weak::new();
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(executors) = self.executors.upgrade() {
            let mut state = executors.lock();
            state.queue.end(&self.id);
            executors.serve(state);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(executors) = self.executors.upgrade().filter(|_| !self.is_used) {
            let mut state = executors.lock();
            state.queue.release(&self.id);
            executors.serve(state);
        }
    }
}

impl Executors {
    /// Follows the executors behind a link, whose tools have this level. The caller keeps the handle as long
    /// as it needs them.
    pub(super) fn follow(link: &Link, tools_level: u32) -> (Self, AbortOnDropHandle<()>) {
        let shared = Arc::new(Shared::default());
        shared.lock().queue.set_tools_level(tools_level);
        let following = follow(Arc::downgrade(&shared), link.members());
        let task = AbortOnDropHandle::new(tokio::spawn(following));
        (Self(shared), task)
    }

    /// The tools that all executors use can read this much.
    pub(super) fn set_tools_level(&self, level: u32) {
        let mut state = self.0.lock();
        state.queue.set_tools_level(level);
        self.0.serve(state);
    }

    /// A slot of an executor of that level, unless none is free or others wait for one.
    pub(super) fn try_slot(&self, needs: u32) -> Option<Slot> {
        let mut state = self.0.lock();
        let id = state.queue.reserve(needs)?;
        self.0.slot(&state, id)
    }

    /// Waits for such a slot. The attempt of a namespace that waits longest gets the next one, in turn over
    /// namespaces.
    pub(super) async fn slot(&self, namespace: Namespace, since: Instant, needs: u32) -> Slot {
        loop {
            let (waiting, slot) = self.wait(&namespace, since, needs);
            self.0.serve(self.0.lock());
            let slot = slot.await;
            drop(waiting);
            if let Ok(slot) = slot {
                return slot;
            }
        }
    }

    fn wait<'a>(
        &'a self,
        namespace: &'a Namespace,
        since: Instant,
        needs: u32,
    ) -> (Waiting<'a>, oneshot::Receiver<Slot>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        let ticket = state.queue.wait(namespace, since, needs);
        state.waiting.insert(ticket, sender);
        let waiting = Waiting {
            executors: &self.0,
            namespace,
            ticket,
        };
        (waiting, receiver)
    }

    /// The executor has reported that it stops.
    pub(super) fn is_draining(&self, id: &str) -> bool {
        self.0.lock().queue.is_draining(id)
    }
}

/// Takes an attempt out of the queue when it stops waiting.
struct Waiting<'a> {
    executors: &'a Shared,
    namespace: &'a Namespace,
    ticket: Ticket<Instant>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.executors.lock();
        state.queue.leave(self.namespace, self.ticket);
        state.waiting.remove(&self.ticket);
        state.publish();
    }
}

/// The version of the reports that count an attempt. Without one, the next report does.
fn version_of(metadata: &MetadataMap) -> u64 {
    let version = metadata.get(SLOTS_VERSION);
    let version = version.and_then(|version| version.to_str().ok()?.parse().ok());
    version.unwrap_or(u64::MAX)
}

impl State {
    fn begin(&mut self, id: &str, version: u64) {
        self.queue.begin(id, version);
        if let Some(followed) = self.followed.get_mut(id) {
            followed.failures = 0;
        }
    }

    fn refuse(&mut self, id: &str, error: &RpcError) {
        self.queue.release(id);
        if error.reason_name() == "NO_FREE_SLOT" || Link::did_not_begin(error) {
            self.queue.lose(id);
            if let Some(followed) = self.followed.get(id) {
                followed.refresh.notify_one();
            }
        }
    }

    /// An executor has to be asked anew. Returns how long to wait before that.
    fn fail(&mut self, id: &str) -> Duration {
        self.queue.lose(id);
        let failures = self.followed.get_mut(id).map_or(0, |followed| {
            followed.failures = followed.failures.saturating_add(1);
            followed.failures - 1
        });
        (FIRST_PAUSE * (1 << failures.min(6))).min(LONGEST_PAUSE)
    }

    fn publish(&mut self) {
        let waiting = self.queue.waiting();
        if self.shown.replace(waiting) != Some(waiting) {
            gauge!(metrics::STEPS_WAITING).set(waiting as f64);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(self: &Arc<Self>, state: &State, id: MemberId) -> Option<Slot> {
        let link = state.followed.get(&id)?.link.clone();
        Some(Slot {
            executors: Arc::downgrade(self),
            level: state.queue.level_of(&id),
            id,
            link,
            is_used: false,
        })
    }

    /// Gives free slots to those who wait.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut unclaimed = Vec::new();
        while let Some((ticket, id)) = state.queue.serve() {
            let slot = self.slot(&state, id);
            let sender = state.waiting.remove(&ticket);
            if let (Some(slot), Some(sender)) = (slot, sender) {
                // One that stopped waiting just now gives its slot back, once the lock is free.
                unclaimed.extend(sender.send(slot).err());
            }
        }
        state.publish();
        drop(state);
        drop(unclaimed);
    }

    fn report(self: &Arc<Self>, id: &str, status: &WatchStatusResponse) {
        let is_draining = status.state() == ExecutorState::Draining;
        let mut state = self.lock();
        let free = status.free_slots;
        state.queue.report(id, status.version, free, is_draining);
        state.queue.set_level(id, status.level);
        self.serve(state);
    }
}

/// Watches each executor as long as it is one.
async fn follow(executors: Weak<Shared>, members: impl Stream<Item = Vec<Member>>) {
    let mut members = std::pin::pin!(members);
    while let Some(members) = members.next().await {
        let Some(shared) = executors.upgrade() else {
            return;
        };
        let mut state = shared.lock();
        let State {
            queue, followed, ..
        } = &mut *state;
        followed.retain(|id, _| {
            let is_member = members.iter().any(|member| *member.address == **id);
            if !is_member {
                queue.remove(id);
            }
            is_member
        });
        for Member { address, link } in members {
            let id: MemberId = address.into();
            followed.entry(id.clone()).or_insert_with(|| {
                let refresh = Arc::new(Notify::new());
                let watching = watch(executors.clone(), id, link.clone(), refresh.clone());
                Followed {
                    link,
                    refresh,
                    failures: 0,
                    _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
                }
            });
        }
    }
}

/// Takes in what an executor reports, and asks anew when its stream ends or is no longer right.
async fn watch(executors: Weak<Shared>, id: MemberId, link: Link, refresh: Arc<Notify>) {
    loop {
        let reported = tokio::select! {
            reported = take_reports(&executors, &id, &link) => reported,
            () = refresh.notified() => Ok(()),
        };
        let Some(shared) = executors.upgrade() else {
            return;
        };
        let pause = shared.lock().fail(&id);
        drop(shared);
        if let Err(status) = reported {
            let error = RpcError::from_status(&status);
            tracing::debug!(executor = &*id, %error, "executor does not report");
        }
        tokio::time::sleep(pause).await;
    }
}

async fn take_reports(executors: &Weak<Shared>, id: &str, link: &Link) -> Result<(), Status> {
    let mut executor = ExecutorServiceClient::new(link.clone());
    let reports = executor.watch_status(WatchStatusRequest {}).await?;
    let mut reports = reports.into_inner();
    while let Some(status) = reports.message().await? {
        let Some(executors) = executors.upgrade() else {
            return Ok(());
        };
        executors.report(id, &status);
    }
    Ok(())
}
