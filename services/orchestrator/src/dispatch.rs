//! Where steps are carried out: the executors, and the tools that they may call.

mod catalogue;

pub(crate) use catalogue::{Catalogue, refresh};

use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_rpc::Link;
use std::sync::{Arc, PoisonError, RwLock};

/// Sends attempts to executors.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) executor: ExecutorServiceClient<Link>,
    catalogue: RwLock<Arc<Catalogue>>,
}

impl Dispatcher {
    pub(crate) fn new(executor: &Link, catalogue: Catalogue) -> Self {
        Self {
            executor: ExecutorServiceClient::new(executor.clone()),
            catalogue: RwLock::new(Arc::new(catalogue)),
        }
    }

    /// The latest reading of the catalogue.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let latest = self.catalogue.read();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_catalogue(&self, catalogue: Catalogue) {
        let latest = self.catalogue.write();
        *latest.unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
    }
}
