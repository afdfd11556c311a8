//! What a node is made of, and why it does not start.

use cairn_engine::failure::Failure;
use cairn_hooks::{Hook, Means, SystemHooks};
use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps};
use cairn_model::ModelRegistry;
use cairn_planner::PlanParser;
use cairn_rpc::{Authenticate, BuildError, RpcError};
use cairn_tools::Programs;
use std::error::Error as _;
use std::sync::Arc;

/// What a node is made of, checked.
#[allow(
    missing_debug_implementations,
    reason = "the environment may hold secrets"
)]
pub struct Parts {
    /// Where sessions are stored, and how large they may get.
    pub memory: MemoryConfig,
    /// The store's clock. The orchestrator's name is added to the local owners.
    pub memory_deps: MemoryDeps,
    /// Files, limits, commands.
    pub tools: cairn_tools::Config,
    /// What configured commands are started with.
    pub programs: Programs,
    /// Tools besides the file tools and the configured commands.
    pub more_tools: Vec<Arc<dyn cairn_tools::Tool>>,
    /// Hooks of this process by their names, for hooks of the settings that have neither a command nor a url.
    pub more_hooks: Vec<(String, Arc<dyn Hook>)>,
    /// Where a process that is alone over a store in a file keeps allowances of servers and of changed tools, and
    /// confirmations of files; without it, they end with the process.
    pub trust: Option<cairn_boot::Trust>,
    /// The models.
    pub models: Arc<ModelRegistry>,
    /// Slots and retries.
    pub executor: cairn_executor::Config,
    /// Retries.
    pub planner: cairn_planner::Config,
    /// Reads the plans of models.
    pub plan_parser: Arc<dyn PlanParser>,
    /// Leases and limits.
    pub orchestrator: cairn_orchestrator::Config,
    /// Who may call the node over a socket.
    pub authenticators: Authenticators,
}

impl Parts {
    /// Makes what asks hooks, unless it is given, or no part of this process could ask one.
    #[must_use]
    pub(super) fn with_hook_executor(mut self) -> Self {
        let config = &self.orchestrator;
        let mut hooks = config.hooks.iter();
        let is_needed = !self.more_hooks.is_empty()
            || !config.hook_addresses.is_empty()
            || hooks.any(|hook| hook.means != Means::InProcess);
        if config.hook_executor.is_none() && is_needed {
            let Programs {
                environment,
                supervisor,
                ..
            } = self.programs.clone();
            let asking = SystemHooks::new(self.tools.workspace.clone(), environment, supervisor);
            let registered = self.more_hooks.iter().cloned();
            let asking = registered.fold(asking, |all, (name, hook)| all.with(name, hook));
            self.orchestrator.hook_executor = Some(Arc::new(asking));
        }
        self
    }
}

/// Who may call a node over a socket: asked once for each call. Calls of this process are
/// authenticated as well, so an authenticator decides for every caller.
///
/// A server without one admits this process, and others over a Unix socket.
#[derive(Clone, Default)]
#[allow(missing_debug_implementations, reason = "they may hold credentials")]
pub struct Authenticators {
    /// On listeners for clients; names the caller.
    pub public: Option<Arc<dyn Authenticate>>,
    /// On the listener for Cairn's services; admits the process that calls.
    pub internal: Option<Arc<dyn Authenticate>>,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened: it is said there which of its parts.
    #[error(transparent)]
    Store(#[from] cairn_memory::BuildError),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    ReadOnly(#[from] cairn_memory::sqlite::OpenError),
    /// The tools cannot be set up.
    #[error("the tools cannot be set up")]
    Tools(#[from] cairn_tools::BuildError),
    /// Something is missing that the services need, such as `tool_registry`, or that asks the hooks of the settings.
    #[error(transparent)]
    Config(#[from] Failure),
    /// The services do not fit together.
    #[error("the services cannot be put together")]
    Build(#[from] BuildError),
    /// A service does not answer another.
    #[error("a service does not answer")]
    Rpc(#[from] RpcError),
}

impl StartError {
    /// Why an orchestrator is not built.
    pub(super) fn of_orchestrator(error: RpcError) -> Self {
        let cause = error.source();
        let failure = cause.and_then(|cause| cause.downcast_ref::<Failure>());
        match failure.cloned() {
            Some(failure) => Self::Config(failure),
            None => Self::Rpc(error),
        }
    }
}
