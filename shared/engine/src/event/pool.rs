//! Events about the pool: the resources that carry out an attempt, and what the pool lacks for one.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::AttemptRef;
use crate::pool::Missing;
use serde::{Deserialize, Serialize};

/// Resources of the pool carry out an attempt from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptPlaced {
    pub attempt: AttemptRef,
    pub resources: Vec<String>,
    pub waited_ms: u64,
}

/// Nothing is carried out for an attempt, because the pool lacks what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityShort {
    pub attempt: AttemptRef,
    pub missing: Vec<Missing>,
    pub kind: ShortageKind,
}

/// Resources have what an attempt waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityFound {
    pub attempt: AttemptRef,
}

/// Why a capability is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ShortageKind {
    /// Each resource that has it is taken, stops or cannot be reached.
    Busy,
    /// No resource has it.
    None,
}
