//! What every part of the orchestrator uses.

use crate::admission::Backlog;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::key::SessionKey;
use crate::owners::Owners;
use crate::store::Store;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_rpc::{Link, RpcError};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::broadcast;

/// Shared by all owners and handlers.
#[derive(Debug)]
pub(crate) struct Deps {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) planner: PlannerServiceClient<Link>,
    pub(crate) executor: ExecutorServiceClient<Link>,
    pub(crate) owners: Owners,
    pub(crate) backlog: Backlog,
    /// Sessions whose owner had to give up, with the reason: watchers are told.
    pub(crate) stalled: broadcast::Sender<(SessionKey, RpcError)>,
    pub(crate) catalogue: RwLock<Arc<Catalogue>>,
}

impl Deps {
    /// The latest reading of the catalogue.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_catalogue(&self, catalogue: Catalogue) {
        *self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
    }
}
