//! The last reply of a run.

use cairn_proto::event::hook_mutation::Change;
use cairn_proto::event::{FinishReason, HookPoint, HooksAnswered, ReplyReceived};

/// The last reply of a model, with the beginnings that were cut.
#[derive(Debug, Clone, Default)]
pub struct LastReply {
    /// Its text.
    pub text: String,
    /// Where the text of the newest reply begins.
    newest: usize,
    is_cut: bool,
}

impl LastReply {
    /// Takes the next reply. It continues one that was cut at the limit of its length.
    pub fn take(&mut self, reply: &ReplyReceived) {
        if !std::mem::take(&mut self.is_cut) {
            self.text.clear();
        }
        self.newest = self.text.len();
        self.text.push_str(&reply.text);
        self.is_cut = reply.finish() == FinishReason::Length && reply.calls.is_empty();
    }

    /// Takes the text that hooks put in the place of the reply's.
    pub(super) fn hooked(&mut self, event: &HooksAnswered) {
        if event.gate.unwrap_or_default().point() != HookPoint::PostRequest {
            return;
        }
        let mutations = event.outcomes.iter().filter_map(|it| it.mutation.as_ref());
        for change in mutations.filter_map(|mutation| mutation.change.as_ref()) {
            if let Change::Text(text) = change {
                self.text.truncate(self.newest);
                self.text.push_str(text);
            }
        }
    }
}
