//! Where steps are carried out: the resources with free slots, and the tools that they may call.

mod asleep;
mod catalogue;
mod executors;
mod pool;
mod queue;
mod shortage;
mod slot;
mod waiting;

pub(crate) use asleep::Lacks;
pub(crate) use catalogue::{
    Catalogue, EVERY_AGENT, PartOf, SEPARATOR, Use, answer, compiled, matcher, refresh,
};
pub(crate) use pool::{OF_AGENT, OF_EXECUTOR, PoolSnapshot, Registered, ResourceDetails};
pub(crate) use queue::Trial;
pub(crate) use slot::{Slot, Used};
pub(crate) use waiting::{Lack, Waited};

use crate::config::Patience;
use crate::key::SessionKey;
use asleep::Asleep;
use cairn_engine::event::AttemptRef;
use cairn_engine::pool::{Grants, Need, PoolFacts, ResourceTools};
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{Link, Namespace};
use executors::{Executors, Following};
use futures::{Stream, StreamExt as _};
use queue::{Asked, Wants};
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a claim waits until the resources are known.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// The services that carry out steps, or say which resources do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchLinks<'a> {
    pub(crate) executor: &'a Link,
    pub(crate) tools: &'a Link,
}

/// An attempt that asks for a slot.
#[derive(Debug, Clone)]
pub(crate) struct Waits {
    pub(crate) key: SessionKey,
    /// When it began to wait.
    pub(crate) since: Instant,
    /// What it needs of its resources.
    pub(crate) need: Arc<Need>,
    /// The level of release that its executor must have.
    pub(crate) level: u32,
    /// That all resources are taken was reported before.
    pub(crate) is_reported: bool,
}

/// Sends steps to executors that have a free slot and what the step needs.
///
/// The dispatcher never queues a step at an executor. A step waits here until a slot is free, so to
/// cancel it costs nothing. Waiting steps are served in turn over namespaces and their sessions, the oldest
/// of a session first. A step that nothing can serve delays no other.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    executors: Executors,
    tools: Link,
    catalogue: RwLock<Arc<Catalogue>>,
    asleep: Asleep,
    _following: Following,
}

impl Dispatcher {
    /// Follows the executors from now on.
    pub(crate) fn new(links: DispatchLinks<'_>, catalogue: Catalogue, patience: Patience) -> Self {
        let (executors, following) = Executors::follow(links.executor, patience);
        executors.set_tools(catalogue.level, &catalogue.pool);
        Self {
            executors,
            tools: links.tools.clone(),
            catalogue: RwLock::new(Arc::new(catalogue)),
            asleep: Asleep::default(),
            _following: following,
        }
    }

    /// Follows registrations and grants, which memory keeps, until stopped: before memory ends.
    pub(crate) fn follow_documents(
        &self,
        memory: &Link,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let follow = self.executors.follow_documents(memory);
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = follow => {}
            }
        }
    }

    /// A slot for an attempt, unless none can serve it or others wait for one.
    pub(crate) fn try_slot(&self, need: &Arc<Need>, level: u32) -> Option<Slot> {
        let need = need.clone();
        self.executors.try_slot(&Wants { need, level })
    }

    /// Waits for such a slot, after a pause. The stream ends with the slot, or once no resource has what the attempt
    /// needs. Before that it may report that all resources that have it are taken.
    pub(crate) fn slot(
        &self,
        waits: Waits,
        pause: Option<Duration>,
    ) -> impl Stream<Item = Waited> + Send + use<> {
        let asked = Asked {
            namespace: waits.key.namespace,
            session: waits.key.id,
            since: waits.since,
            wants: Wants {
                need: waits.need,
                level: waits.level,
            },
        };
        self.executors.wait(asked, pause, waits.is_reported)
    }

    /// An attempt waits for what no resource had when another process looked.
    pub(crate) fn lack(&self, need: &Arc<Need>) -> Lack {
        self.executors.lack(need)
    }

    /// A session falls asleep that was owned here. Its attempts count as waiting until it is owned or listed no more.
    pub(crate) fn park(&self, key: &SessionKey, lacks: Lacks) {
        self.asleep.park(key, lacks);
    }

    /// A session is owned here again. Returns what it lacked when it fell asleep here.
    pub(crate) fn take_parked(&self, key: &SessionKey) -> Lacks {
        self.asleep.take(key)
    }

    /// The store listed these sessions as waiting after `asked`, and no others if these are all.
    pub(crate) fn note_waiting(
        &self,
        waiting: &HashSet<SessionKey>,
        asked: Instant,
        are_all: bool,
    ) {
        self.asleep.note_waiting(waiting, asked, are_all);
    }

    /// A session was woken for a need.
    pub(crate) fn note_woken(&self, key: SessionKey, need: Need) {
        self.asleep.wake(key, need);
    }

    /// A session that was woken has a slot, or was not woken.
    pub(crate) fn forget_woken(&self, key: &SessionKey) {
        self.asleep.forget_woken(key);
    }

    /// What sessions need that were woken just now, and have no slot here yet.
    pub(crate) fn woken(&self) -> Vec<Need> {
        self.asleep.woken()
    }

    /// Returns once the resources of a slot have lacked what an attempt needs for `lost_after`.
    pub(crate) fn lost(
        &self,
        slot: &Slot,
        need: Arc<Need>,
    ) -> impl Future<Output = ()> + Send + use<> {
        self.executors.lost(slot.held(), need)
    }

    /// The executor has reported that it stops: to lose it is no failure.
    pub(crate) fn is_draining(&self, executor: &str) -> bool {
        self.executors.is_draining(executor)
    }

    /// The tools that an executor may use now; none if it is not there any more.
    pub(crate) fn tools_of(&self, executor: &str) -> Option<Arc<ResourceTools>> {
        self.executors.tools_of(executor)
    }

    /// What decisions about sessions of a namespace need to know of the pool. These attempts have these resources.
    pub(crate) fn pool_facts(
        &self,
        namespace: &Namespace,
        allotted: BTreeMap<AttemptRef, Vec<String>>,
    ) -> PoolFacts {
        let (view, grants) = self.executors.view();
        PoolFacts {
            view,
            allotted,
            grants: of_namespace(namespace, grants),
        }
    }

    /// What the operator granted to the agents of a namespace.
    pub(crate) fn grants(&self, namespace: &Namespace) -> Arc<Grants> {
        of_namespace(namespace, self.executors.grants())
    }

    /// The pool at a moment.
    pub(crate) fn pool(&self) -> Arc<PoolSnapshot> {
        Arc::new(self.executors.snapshot())
    }

    /// Changes with all that the pool shows, and as often as slots do.
    pub(crate) fn pool_changes(&self) -> watch::Receiver<u64> {
        self.executors.all_changes()
    }

    /// Changes with what resources there are, what they can do, and what is granted.
    pub(crate) fn resource_changes(&self) -> watch::Receiver<u64> {
        self.executors.changes()
    }

    /// The count of these changes.
    pub(crate) fn pool_version(&self) -> u64 {
        self.executors.version()
    }

    /// Makes those that follow the resources look at them again.
    pub(crate) fn look_again(&self) {
        self.executors.look_again();
    }

    /// Changes with each slot that becomes free.
    pub(crate) fn freed(&self) -> watch::Receiver<u64> {
        self.executors.freed()
    }

    /// Resources that can be reached have what is needed, free or not.
    pub(crate) fn has(&self, need: &Need) -> bool {
        self.executors.has(need)
    }

    /// The free slots of this moment, to find out which attempts there are slots for.
    pub(crate) fn trial(&self) -> Trial {
        self.executors.trial()
    }

    /// Waits until it is known what resources there are, but not for long.
    pub(crate) fn known(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.executors.known();
        async move {
            let known = known.wait_for(|is_known| *is_known);
            // A resource that is not known by then counts as absent.
            let _ = tokio::time::timeout(FIRST_LOOK, known).await;
        }
    }

    /// The tools service.
    pub(crate) fn tools(&self) -> ToolsServiceClient<Link> {
        ToolsServiceClient::new(self.tools.clone())
    }

    /// Each process of the tools service, as they are now.
    pub(crate) async fn each_tools(&self) -> Vec<ToolsServiceClient<Link>> {
        let mut members = pin!(self.tools.members());
        let now = members.next().await.unwrap_or_default();
        let tools = now.into_iter().map(|member| member.link);
        tools.map(ToolsServiceClient::new).collect()
    }

    /// The latest reading of the catalogue.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let latest = self.catalogue.read();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_catalogue(&self, catalogue: Catalogue) {
        let (level, pool) = (catalogue.level, catalogue.pool.clone());
        let latest = self.catalogue.write();
        *latest.unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
        // A capability counts once its tools can be offered.
        self.executors.set_tools(level, &pool);
    }
}

/// The pool belongs to the operator, whose namespace is "default".
pub(crate) fn is_operator(namespace: &Namespace) -> bool {
    *namespace == Namespace::default()
}

/// Grants are for the operator's agents.
fn of_namespace(namespace: &Namespace, grants: Arc<Grants>) -> Arc<Grants> {
    match is_operator(namespace) {
        true => grants,
        false => Arc::default(),
    }
}
