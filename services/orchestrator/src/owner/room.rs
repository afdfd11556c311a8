//! Room for session memory in the prompts of a step.

use super::Owner;
use crate::state_bytes::GROWTH;
use cairn_engine::outstanding::Work;

impl Owner {
    /// Bytes of the layers if the session can be released now: neither an attempt nor planning is under
    /// way. None if it cannot, or if this owner begins no step.
    pub(super) fn layer_bytes_at_rest(&self) -> Option<usize> {
        let is_work = |work: &Work| matches!(work, Work::Plan { .. } | Work::RunStep(_));
        let begins_steps = self.runs_steps() && !self.inbox.is_stopping();
        let is_at_rest = begins_steps && !self.active.keys().any(is_work);
        is_at_rest.then(|| self.session.all_layer_bytes())
    }

    /// Reserves room for the layers that the decided transition leads to; false if there is none, and the
    /// session is to be released. A session with work under way is never released, so the room is
    /// reserved before a model is asked.
    pub(super) fn reserve_room(&mut self, layer_bytes_before: Option<usize>) -> bool {
        let Some(before) = layer_bytes_before else {
            return true;
        };
        let growth = self.session.expected_layer_bytes().saturating_sub(before);
        if growth <= GROWTH {
            return true;
        }
        let bytes = self.checkpoints.state_bytes() + growth;
        let fits = self.state_bytes.fit(bytes, self.deps.config.state_bytes);
        if fits {
            self.deps.store.make_room();
        }
        fits
    }
}
