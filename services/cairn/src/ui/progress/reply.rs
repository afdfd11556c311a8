//! The last reply of a run.

use cairn_proto::event::{FinishReason, ReplyReceived};

/// The last reply of a model, with the beginnings that were cut.
#[derive(Debug, Clone, Default)]
pub struct LastReply {
    /// Its text.
    pub text: String,
    is_cut: bool,
}

impl LastReply {
    /// Takes the next reply. It continues one that was cut at the limit of its length.
    pub fn take(&mut self, reply: &ReplyReceived) {
        if !std::mem::take(&mut self.is_cut) {
            self.text.clear();
        }
        self.text.push_str(&reply.text);
        self.is_cut = reply.finish() == FinishReason::Length && reply.calls.is_empty();
    }
}
