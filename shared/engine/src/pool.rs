//! The pool: resources, what they can do, and what a step needs of them. All of it is a value of a moment; who
//! keeps it live is the owner's affair.

mod context;
mod grants;
mod need;
#[cfg(test)]
mod testing;
mod tools;
mod view;

pub use context::{AgentContext, TaskContext};
pub use grants::{Grant, Grants};
pub use need::{MAX_LEVEL, MAX_NAME, Missing, Need, NeedError, Needed, is_capability};
pub use tools::ResourceTools;
pub use view::{
    Capabilities, CapabilityRow, CapabilityTools, EXECUTOR, MCP_SERVER, PoolSummary, PoolView,
    ResourceState, ResourceView,
};

use crate::event::AttemptRef;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// What the outside knows of the pool at the time of a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// The resources as they are now.
    pub view: Arc<PoolView>,
    /// The resources that attempts have, by attempt: those with a slot.
    pub allotted: BTreeMap<AttemptRef, Vec<String>>,
    /// What the operator granted to agents.
    pub grants: Arc<Grants>,
}

impl PoolFacts {
    /// Nothing is known of any resource, and nothing is granted.
    pub fn none() -> &'static Self {
        static NONE: LazyLock<PoolFacts> = LazyLock::new(PoolFacts::default);
        &NONE
    }
}
