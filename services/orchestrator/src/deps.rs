//! What owners, claims and requests use alike.

use crate::config::Config;
use crate::dispatch::Dispatcher;
use crate::hooks::Hooks;
use crate::knowledge::Knowledge;
use crate::state_bytes::OwnedBytes;
use crate::store::{LastAcknowledged, Store};
use crate::workspace::WorkspaceFiles;
use cairn_engine::hooks::PresentHooks;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_rpc::{Link, Namespace, RpcError};
use std::sync::Arc;

/// Settings, and the ways to other services.
#[derive(Debug)]
pub(crate) struct Deps {
    pub(crate) config: Config,
    pub(crate) store: Store,
    /// How many bytes of state the sessions of this process have.
    pub(crate) owned: Arc<OwnedBytes>,
    pub(crate) dispatch: Arc<Dispatcher>,
    /// The files of the workspace, as they were read last.
    pub(crate) workspace: WorkspaceFiles,
    pub(crate) planner: PlannerServiceClient<Link>,
    /// The hooks that there are, and how they are asked.
    pub(crate) hooks: Hooks,
    /// Pages of knowledge, and how they are found.
    pub(crate) knowledge: Knowledge,
    /// What the store acknowledged to owners that ended while it did not answer.
    pub(crate) last_acknowledged: LastAcknowledged,
}

impl Deps {
    /// The hooks that runs of a namespace choose from.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) async fn present_hooks(
        &self,
        namespace: &Namespace,
    ) -> Result<PresentHooks, RpcError> {
        self.hooks.present(&self.store, namespace).await
    }
}
