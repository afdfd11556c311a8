//! Events about compactions of conversations.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::AttemptRef;
use crate::conversation::{CompactedMessages, CompactionKind};
use crate::failure::Failure;
use crate::message::Usage;
use crate::session::FullCause;

/// The model asked that its conversation be compacted.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRequested {
    pub attempt: AttemptRef,
    pub keep_in_mind: String,
}

/// The model of an attempt is asked for a summary of older messages.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryAsked {
    pub attempt: AttemptRef,
    pub messages: CompactedMessages,
    pub prompt: String,
    pub estimate: u64,
    pub max_output_tokens: u32,
    /// The answer to the question before was lost: it is charged as it was estimated.
    pub again: bool,
}

impl SummaryAsked {
    /// The owner asks only because an answer was lost.
    pub(crate) fn is_again(&self) -> bool {
        self.again
    }
}

/// Older messages of a conversation gave way to one.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextCompacted {
    pub attempt: AttemptRef,
    /// The context of a turn; empty for a step.
    pub context: String,
    pub messages: CompactedMessages,
    pub kind: CompactionKind,
    pub text: String,
    pub usage: Usage,
    pub provider: String,
    pub model: String,
    pub duration_ms: u64,
    /// The version that the context has from then on; 0 behind the mark.
    pub version: u64,
    /// How many messages gave way.
    pub replaced: u32,
    /// Estimated tokens of the request before. 0 for a compaction because of bytes: a request that is too long
    /// may be compacted once more at the same tool turn.
    pub tokens_before: u64,
    pub tokens_after: u64,
}

/// The next request of an attempt does not fit into the window of its model, and no compaction helps.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextFull {
    pub attempt: AttemptRef,
    pub cause: FullCause,
    pub tokens: u64,
    pub window: u64,
    pub failure: Option<Failure>,
    pub usage: Usage,
    pub provider: String,
    pub model: String,
    pub duration_ms: u64,
}
