//! How many bytes the layers of a session have.

use super::{PlanState, Run, RunStatus, Session, Step};
use crate::conversation::{LayerKind, Op};

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

    /// Bytes of the layers that the session, its contexts and running attempts have.
    pub fn all_layer_bytes(&self) -> usize {
        let own: usize = self.layers.values().map(String::len).sum();
        own + self.layer_bytes()
    }

    /// The same once a step asks a model, if one may: the session and the conversation of that step then
    /// have the text of session memory.
    pub fn expected_layer_bytes(&self) -> usize {
        let now = self.all_layer_bytes();
        let Some(run) = self.active_run().filter(|run| may_ask_model(run)) else {
            return now;
        };
        let memory = self.memory.snapshot().len();
        let own = self.layers.get(&LayerKind::Memory).map_or(0, String::len);
        let is_asked = run.running_attempts().any(|(_, step, _)| asks_model(step));
        let of_step = if is_asked { 0 } else { memory };
        now + memory.saturating_sub(own) + of_step
    }
}

/// A step of the run asks a model, or its plan to come may have one that does.
fn may_ask_model(run: &Run) -> bool {
    if !matches!(run.status, RunStatus::Planning | RunStatus::Running) {
        return false;
    }
    let steps = run.plan.as_ref().map(PlanState::current);
    steps.is_none_or(|mut steps| steps.any(|(_, step)| !step.has_ended() && asks_model(step)))
}

fn asks_model(step: &Step) -> bool {
    step.plan.tool.is_none()
}
