//! The resources that carry out attempts, and the attempts that wait for their slots.

mod following;

use super::pool::{self, Pool, PoolSnapshot, PoolTools};
use super::queue::{Asked, MemberId, Members, Presence, Queue, Reserved, Ticket, Trial, Wants};
use super::shortage::{self, Shortages};
use super::slot::Slot;
use crate::config::Patience;
use cairn_engine::pool::{Grants, Missing, Need, PoolView, ResourceTools};
use cairn_proto::executor::NotifyShortageRequest;
use cairn_proto::memory::DocumentKind;
use cairn_rpc::metrics::{self, gauge};
use cairn_rpc::{Link, RpcError};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// First and longest pause before an executor that does not report is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// All executors. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Executors(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) patience: Patience,
    /// Counts all changes, those of slots included.
    all: watch::Sender<u64>,
    /// Counts the changes of what resources there are, and of what they can do.
    changes: watch::Sender<u64>,
    /// Counts the slots that become free.
    freed: watch::Sender<u64>,
    /// What resources there are is known: they have reported once, or cannot be reached.
    is_known: watch::Sender<bool>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: Queue<Instant>,
    followed: HashMap<MemberId, Followed>,
    /// The link has named its processes.
    has_members: bool,
    /// Where waiting attempts expect their slots.
    waiting: HashMap<Ticket<Instant>, oneshot::Sender<Slot>>,
    /// The last value of the gauge; none before the first.
    shown: Option<usize>,
    pool: Pool,
    shortages: Shortages,
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

/// The task that keeps the executors live, as long as this is kept.
#[derive(Debug)]
pub(super) struct Following {
    _task: AbortOnDropHandle<()>,
}

impl Executors {
    /// Follows the executors behind a link. The caller keeps the second part as long as it needs them.
    pub(super) fn follow(link: &Link, patience: Patience) -> (Self, Following) {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            patience,
            all: watch::Sender::new(0),
            changes: watch::Sender::new(0),
            freed: watch::Sender::new(0),
            is_known: watch::Sender::new(false),
        });
        let following = following::follow(Arc::downgrade(&shared), link.members());
        let task = AbortOnDropHandle::new(tokio::spawn(following));
        (Self(shared), Following { _task: task })
    }

    /// Follows the documents of the pool, which memory keeps.
    pub(super) fn follow_documents(
        &self,
        memory: &Link,
    ) -> impl Future<Output = ()> + Send + use<> {
        let follow = |kind| pool::follow(Arc::downgrade(&self.0), memory.clone(), kind);
        let (resources, grants) = (follow(DocumentKind::Resource), follow(DocumentKind::Grant));
        async move {
            tokio::join!(resources, grants);
        }
    }

    /// Takes in what the catalogue says of the pool, and the level of release that all tools can read.
    pub(super) fn set_tools(&self, level: u32, tools: &Arc<PoolTools>) {
        self.0.change(|state| {
            state.queue.members.set_tools_level(level);
            state.pool.set_tools(tools, &mut state.queue.members)
        });
    }

    /// A slot for an attempt, unless none is free or others wait for one.
    pub(super) fn try_slot(&self, wants: &Wants) -> Option<Slot> {
        let mut state = self.0.lock();
        let reserved = state.queue.reserve(wants)?;
        let slot = self.0.slot(&state, reserved);
        drop(state);
        count(&self.0.all);
        match slot {
            Ok(slot) => Some(slot),
            Err(reserved) => {
                self.0.release(&reserved);
                None
            }
        }
    }

    /// The executor has reported that it stops.
    pub(super) fn is_draining(&self, id: &str) -> bool {
        self.0.lock().queue.members.is_draining(id)
    }

    /// The tools that an executor may use now; none if it is not there any more.
    pub(super) fn tools_of(&self, id: &str) -> Option<Arc<ResourceTools>> {
        let state = self.0.lock();
        let member = state.queue.members.get(id)?;
        Some(member.described().tools.clone())
    }

    /// The resources as they are now, and what was granted to agents.
    pub(super) fn view(&self) -> (Arc<PoolView>, Arc<Grants>) {
        let mut state = self.0.lock();
        let State { queue, pool, .. } = &mut *state;
        (pool.view(&mut queue.members), pool.grants().clone())
    }

    /// What was granted to agents.
    pub(super) fn grants(&self) -> Arc<Grants> {
        self.0.lock().pool.grants().clone()
    }

    /// The pool at a moment.
    pub(super) fn snapshot(&self) -> PoolSnapshot {
        let mut state = self.0.lock();
        let State {
            queue,
            pool,
            shortages,
            ..
        } = &mut *state;
        let mut waiting = BTreeMap::new();
        for (need, count) in queue.needs().chain(shortages.lacking()) {
            for name in need.capabilities.keys() {
                let waits = waiting.entry(name.clone()).or_insert(0_u32);
                *waits = waits.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            }
        }
        pool.snapshot(&mut queue.members, waiting)
    }

    /// Resources that can be reached have what is needed, free or not.
    pub(super) fn has(&self, need: &Need) -> bool {
        self.0.presence(need) == Presence::Reached
    }

    /// The free slots of this moment.
    pub(super) fn trial(&self) -> Trial {
        Trial::new(&self.0.lock().queue.members)
    }

    /// Changes with all that the pool shows.
    pub(super) fn all_changes(&self) -> watch::Receiver<u64> {
        self.0.all.subscribe()
    }

    /// Changes with what resources there are, and with what they can do.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    /// How often that has changed.
    pub(super) fn version(&self) -> u64 {
        *self.0.changes.borrow()
    }

    /// Has those that follow the pool look at it again.
    pub(super) fn look_again(&self) {
        count(&self.0.changes);
    }

    /// Changes with each slot that becomes free.
    pub(super) fn freed(&self) -> watch::Receiver<u64> {
        self.0.freed.subscribe()
    }

    /// Whether it is known what resources there are.
    pub(super) fn known(&self) -> watch::Receiver<bool> {
        self.0.is_known.subscribe()
    }
}

impl State {
    /// Returns whether the executor is lost, and was not before.
    fn refuse(&mut self, reserved: &Reserved, error: &RpcError) -> bool {
        self.queue.members.release(reserved);
        let id = &reserved.member;
        let is_lost = Link::did_not_begin(error);
        let is_news = is_lost && self.queue.members.lose(id);
        if is_lost || error.reason_name() == "NO_FREE_SLOT" {
            self.queue.members.doubt(id);
            if let Some(followed) = self.followed.get(id) {
                followed.refresh.notify_one();
            }
        }
        is_news
    }

    /// An executor has to be asked anew. Returns how long to wait before that.
    fn pause_of(&mut self, id: &str) -> Duration {
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

    fn links(&self) -> Vec<Link> {
        self.followed.values().map(|it| it.link.clone()).collect()
    }

    /// All that there is has reported, or cannot be reached, and the documents were listed.
    fn is_known(&self) -> bool {
        let has_documents = self.pool.has_resources && self.pool.has_grants;
        let members = &self.queue.members;
        let is_followed = |id: &MemberId| members.get(id).is_some();
        let has_all = self.has_members && self.followed.keys().all(is_followed);
        has_documents && has_all && members.have_answered()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Changes the pool. `change` returns whether the pool differs then.
    pub(super) fn change_pool(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Pool, &mut Members) -> bool,
    ) {
        self.change(|state| change(&mut state.pool, &mut state.queue.members));
    }

    /// Changes the state, and gives free slots to waiting attempts. `change` returns whether there are other resources
    /// then, or they have other capabilities.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.lock();
        let differs = change(&mut state);
        let is_known = state.is_known();
        self.serve(state);
        if differs {
            count(&self.changes);
        }
        self.is_known.send_if_modified(|known| {
            let is_news = is_known && !*known;
            *known |= is_known;
            is_news
        });
    }

    /// The slot, unless its executor is not followed any more.
    fn slot(self: &Arc<Self>, state: &State, reserved: Reserved) -> Result<Slot, Reserved> {
        let members = &state.queue.members;
        let followed = state.followed.get(&reserved.member);
        let member = members.get(&reserved.member);
        let (Some(followed), Some(member)) = (followed, member) else {
            return Err(reserved);
        };
        let described = member.described();
        let extras = reserved.extras.iter();
        let resources = std::iter::once(&described.id).chain(extras);
        Ok(Slot {
            executors: Arc::downgrade(self),
            level: members.level_of(&reserved.member),
            link: followed.link.clone(),
            resources: resources.map(|id| id.as_ref().to_owned()).collect(),
            tools: described.tools.clone(),
            reserved,
            is_used: false,
        })
    }

    /// Puts an attempt into the queue.
    pub(super) fn enter(
        self: &Arc<Self>,
        asked: &Asked<Instant>,
    ) -> (Ticket<Instant>, oneshot::Receiver<Slot>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let ticket = state.queue.wait(asked);
        state.waiting.insert(ticket, sender);
        self.serve(state);
        (ticket, receiver)
    }

    /// Takes an attempt out of the queue, if it is there.
    pub(super) fn leave(&self, asked: &Asked<Instant>, ticket: Ticket<Instant>) {
        let mut state = self.lock();
        state.queue.leave(asked, ticket);
        let sender = state.waiting.remove(&ticket);
        self.settle(state);
        drop(sender);
    }

    /// Gives free slots to waiting attempts.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut unclaimed = Vec::new();
        while let Some((ticket, reserved)) = state.queue.serve() {
            let sender = state.waiting.remove(&ticket);
            match (self.slot(&state, reserved), sender) {
                // One that stopped waiting just now gives its slot back, once the lock is free.
                (Ok(slot), Some(sender)) => unclaimed.extend(sender.send(slot).err()),
                (Ok(slot), None) => unclaimed.push(slot),
                (Err(reserved), _) => state.queue.members.release(&reserved),
            }
        }
        self.settle(state);
        drop(unclaimed);
    }

    /// Publishes what follows from a change of the state: gauges, ended shortages, and the count of changes.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        state.publish();
        let State {
            queue, shortages, ..
        } = &mut *state;
        let notices = shortages.end_over(queue);
        self.notify(state, &notices);
        count(&self.all);
    }

    fn notify(&self, state: MutexGuard<'_, State>, notices: &[NotifyShortageRequest]) {
        if !notices.is_empty() {
            let links = state.links();
            drop(state);
            shortage::send(notices, links);
        }
    }

    pub(super) fn presence(&self, need: &Need) -> Presence {
        self.lock().queue.members.presence(need)
    }

    /// An attempt lacks what it needs. Returns what that is.
    pub(super) fn report_short(&self, need: &Need, is_none: bool) -> Vec<Missing> {
        let mut state = self.lock();
        let State {
            queue,
            pool,
            shortages,
            ..
        } = &mut *state;
        let missing = pool.view(&mut queue.members).missing(need);
        if missing.is_empty() {
            return missing;
        }
        let notices = shortages.begin(need, &missing, is_none);
        self.notify(state, &notices);
        missing
    }

    /// An attempt waits for what no resource has.
    pub(super) fn begin_lack(&self, need: &Need) {
        self.lock().shortages.begin_lack(need);
        count(&self.all);
    }

    /// It waits no more, or in the queue.
    pub(super) fn end_lack(&self, need: &Need) {
        let mut state = self.lock();
        state.shortages.end_lack(need);
        self.settle(state);
    }

    /// An attempt has begun in its slot.
    pub(super) fn begin(&self, reserved: &Reserved, version: u64) {
        let mut state = self.lock();
        state.queue.members.begin(reserved, version);
        if let Some(followed) = state.followed.get_mut(&reserved.member) {
            followed.failures = 0;
        }
        drop(state);
        count(&self.all);
    }

    /// An attempt was refused.
    pub(super) fn refuse(self: &Arc<Self>, reserved: &Reserved, error: &RpcError) {
        self.change(|state| state.refuse(reserved, error));
    }

    /// A slot was not used.
    pub(super) fn release(self: &Arc<Self>, reserved: &Reserved) {
        let mut state = self.lock();
        state.queue.members.release(reserved);
        self.serve(state);
        count(&self.freed);
    }

    /// An attempt has ended.
    pub(super) fn end(self: &Arc<Self>, reserved: &Reserved, is_by_executor: bool) {
        let mut state = self.lock();
        match is_by_executor {
            true => state.queue.members.end_by_executor(reserved),
            false => state.queue.members.end(reserved),
        }
        self.serve(state);
        count(&self.freed);
    }
}

fn count(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count += 1);
}
