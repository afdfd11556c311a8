//! Room for session memory in the prompts of a step.

use super::Owner;
use crate::state_bytes::GROWTH;
use cairn_engine::outstanding::Work;

impl Owner {
    /// Bytes of the layers before a transition that may be given up: nothing is under way that would be
    /// lost. None for another transition.
    pub(super) fn layer_bytes_at_rest(&self) -> Option<usize> {
        let is_work = |work: &Work| matches!(work, Work::Plan { .. } | Work::RunStep(_));
        let is_at_rest = !self.active.keys().any(is_work);
        is_at_rest.then(|| self.session.all_layer_bytes())
    }

    /// Whether the process has room for the layers that follow from the transition that was just decided,
    /// if that may be given up. It is reserved before a model is asked: a step that is under way is not
    /// given up.
    pub(super) fn has_room(&mut self, layer_bytes_before: Option<usize>) -> bool {
        let Some(before) = layer_bytes_before else {
            return true;
        };
        let growth = self.session.expected_layer_bytes().saturating_sub(before);
        let bytes = self.checkpoints.state_bytes() + growth;
        growth <= GROWTH || self.state_bytes.fit(bytes, self.deps.config.state_bytes)
    }
}
