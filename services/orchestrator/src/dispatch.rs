//! Where steps are carried out: the executors with free slots, and the tools that they may call.

mod catalogue;
mod executors;
mod queue;

pub(crate) use catalogue::{
    Catalogue, EVERY_AGENT, PartOf, SEPARATOR, Use, answer, compiled, matcher, refresh,
};
pub(crate) use executors::{Slot, Used};

use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{Link, Namespace};
use executors::Executors;
use futures::StreamExt as _;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Sends steps to executors that have a free slot.
///
/// The dispatcher never queues a step at an executor. A step waits here until a slot is free, so to
/// cancel it costs nothing. The oldest waiting step is served first, in turn over namespaces.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    executors: Executors,
    tools: Link,
    catalogue: RwLock<Arc<Catalogue>>,
    _following: AbortOnDropHandle<()>,
}

impl Dispatcher {
    /// Follows the executors behind a link from now on. The tools are those behind another.
    pub(crate) fn new(executor: &Link, tools: &Link, catalogue: Catalogue) -> Self {
        let (executors, following) = Executors::follow(executor, catalogue.level);
        Self {
            executors,
            tools: tools.clone(),
            catalogue: RwLock::new(Arc::new(catalogue)),
            _following: following,
        }
    }

    /// A slot of an executor of that level, unless none is free or others wait for one.
    pub(crate) fn try_slot(&self, needs: u32) -> Option<Slot> {
        self.executors.try_slot(needs)
    }

    /// Waits for such a slot, as an attempt that waits since then.
    pub(crate) fn slot(
        &self,
        namespace: Namespace,
        since: Instant,
        needs: u32,
    ) -> impl Future<Output = Slot> + Send + use<> {
        let executors = self.executors.clone();
        async move { executors.slot(namespace, since, needs).await }
    }

    /// The executor has reported that it stops: to lose it is no failure.
    pub(crate) fn is_draining(&self, executor: &str) -> bool {
        self.executors.is_draining(executor)
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
        self.executors.set_tools_level(catalogue.level);
        let latest = self.catalogue.write();
        *latest.unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
    }
}
