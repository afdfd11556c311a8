//! Events about agents.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/agent.proto`.

use crate::agent::AgentDefinition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A definition of an agent is used from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefined {
    pub agent: Arc<AgentDefinition>,
    pub digest: String,
    pub capabilities: String,
}

/// Which definition is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentUse {
    pub name: String,
    pub digest: String,
}
