//! Room for session memory in the prompts of a step.

use super::Owner;
use crate::state_bytes::GROWTH;
use cairn_engine::outstanding::Work;

/// What the state has before a transition that may be given up: nothing is under way that would be lost.
#[derive(Debug)]
pub(super) struct AtRest {
    layer_bytes: usize,
}

impl Owner {
    pub(super) fn at_rest(&self) -> Option<AtRest> {
        let is_work = |work: &Work| matches!(work, Work::Plan { .. } | Work::RunStep(_));
        let is_at_rest = !self.active.keys().any(is_work);
        is_at_rest.then(|| AtRest {
            layer_bytes: self.session.all_layer_bytes(),
        })
    }

    /// Whether the process has room for what the transition that was just decided lets the state grow
    /// by. It is reserved before a model is asked: a step that is under way is not given up.
    pub(super) fn has_room(&mut self, before: Option<AtRest>) -> bool {
        let Some(AtRest { layer_bytes }) = before else {
            return true;
        };
        let expected = self.session.expected_layer_bytes();
        let growth = expected.saturating_sub(layer_bytes);
        let bytes = self.checkpoints.state_bytes() + growth;
        growth <= GROWTH || self.state_bytes.fit(bytes, self.deps.config.state_bytes)
    }
}
