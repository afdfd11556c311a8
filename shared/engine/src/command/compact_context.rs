//! Replaces the older messages of a context by a summary.

use serde::{Deserialize, Serialize};

/// Let a model sum up the older incremental messages of a context. The summary takes their place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactContext {
    /// Its name; empty for the active one.
    pub context: String,
    /// The version that the context must have; none for any.
    pub expected_version: Option<u64>,
    /// How many of the newest incremental messages stay. One more stays if a result would lose its call.
    pub keep: u32,
    /// What the model is asked; none for the prompt that is built in. At most
    /// [`MAX_COMPACTION_TEXT`](crate::limits::MAX_COMPACTION_TEXT) bytes.
    pub prompt: Option<String>,
    /// What the summary is to keep, added to the prompt; may be empty. At most as many bytes.
    pub keep_in_mind: String,
    /// The model; empty for the default.
    pub model: String,
    /// The trace that the run belongs to; see `cairn/event/v1/event.proto`.
    pub trace_parent: String,
}
