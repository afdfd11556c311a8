//! The pool: resources, what they can do, and what a step needs of them. All of it is a value of a moment. Callers
//! keep it live.

mod context;
mod grants;
mod need;
#[cfg(test)]
mod testing;
mod tools;
mod view;

pub use context::{AgentContext, TaskContext};
pub use grants::{Grant, Grants};
pub use need::{MAX_LEVEL, MAX_NAME, MAX_NEEDED, Missing, Need, NeedError, Needed, is_capability};
pub use tools::ResourceTools;
pub use view::{
    Capabilities, CapabilityRow, CapabilityTools, EXECUTOR, MCP_SERVER, PoolSummary, PoolView,
    ResourceState, ResourceView,
};

use crate::event::AttemptRef;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The pool at the time of a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// The resources as they are now.
    pub view: Arc<PoolView>,
    /// The resources of the attempts that have a slot.
    pub allotted: BTreeMap<AttemptRef, Vec<String>>,
    /// What the operator granted to agents.
    pub grants: Arc<Grants>,
}

impl PoolFacts {
    /// A pool without resources and grants.
    pub fn none() -> &'static Self {
        static NONE: LazyLock<PoolFacts> = LazyLock::new(PoolFacts::default);
        &NONE
    }
}
