//! How many bytes the layers of a session have.

use super::Session;
use crate::conversation::Op;

impl Session {
    /// Bytes of the layers that contexts and running attempts have, or will have with the next request.
    /// The journal may have a text once that many of them have.
    pub fn layer_bytes(&self) -> usize {
        let running = || {
            let run = self.active_run().into_iter();
            let attempts = run.flat_map(|run| run.running_attempts());
            attempts.map(|(_, _, attempt)| attempt)
        };
        let ops = running().flat_map(|attempt| &attempt.waiting_ops);
        let waiting = ops.filter_map(|op| match op {
            Op::SetLayer(layer) | Op::Remind(layer) => Some(layer),
            _ => None,
        });
        let conversations = self.contexts.values().map(|it| &it.conversation);
        let conversations = conversations.chain(running().map(|it| &it.conversation));
        let layers = conversations.flat_map(|it| it.system.iter().chain(&it.changed));
        layers.chain(waiting).map(|layer| layer.text.len()).sum()
    }

    /// The same with the session's own layers, once a step asks a model if one may: the session and the
    /// conversation of that step then have the text of session memory.
    pub fn expected_layer_bytes(&self) -> usize {
        let memory = match self.may_ask_model() {
            true => 2 * self.memory.snapshot().len(),
            false => 0,
        };
        self.all_layer_bytes().max(memory)
    }

    /// Bytes of the layers that the session, its contexts and running attempts have.
    pub fn all_layer_bytes(&self) -> usize {
        let own: usize = self.layers.values().map(String::len).sum();
        own + self.layer_bytes()
    }

    fn may_ask_model(&self) -> bool {
        self.active_run().is_some_and(|run| {
            let steps = run.plan.as_ref().map(|plan| plan.current());
            steps.is_none_or(|mut steps| {
                steps.any(|(_, step)| !step.has_ended() && step.plan.tool.is_none())
            })
        })
    }
}
