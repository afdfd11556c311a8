//! The agent context: what a model is told of the pool, its task and the note.

use super::{CapabilityRow, PoolSummary};

/// What a model is told of the pool, its task and the note. Its text is the last part of the system prompt but
/// session memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentContext {
    /// When it was made, in milliseconds since 1970; not in the text.
    pub time_ms: u64,
    /// The counts of resources.
    pub pool: PoolSummary,
    /// The capabilities that a resource has free: those of [`PoolView::capabilities`](super::PoolView::capabilities)
    /// with an available resource.
    pub capabilities: Vec<CapabilityRow>,
    /// The task; none without one.
    pub task: Option<TaskContext>,
    /// The note of the run or the step; none without one.
    pub note: Option<String>,
    /// Ids of the resources that carry out the task.
    pub allotted: Vec<String>,
}

/// The task of an agent context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskContext {
    /// `step-N`.
    pub id: String,
    /// The description of the step.
    pub description: String,
    /// What it needs, as the plan names it.
    pub required_capabilities: Vec<String>,
    /// The id of the task in another system; not in the text.
    pub external_id: Option<String>,
}
