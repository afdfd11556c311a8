//! How many bytes the layers of a session have.

use super::{Attempt, PlanState, Run, Session, Step};
use crate::conversation::{LayerKind, Op};

impl Session {
    /// Bytes of the layers that contexts and running attempts have, or will have with the next request.
    /// The journal may have such a text only once.
    pub fn layer_bytes(&self) -> usize {
        let waiting = waiting_ops(self).filter_map(|op| match op {
            Op::SetLayer(layer) | Op::Remind(layer) => Some(layer),
            _ => None,
        });
        let conversations = self.contexts.values().map(|it| &it.conversation);
        let conversations = conversations.chain(running(self).map(|it| &it.conversation));
        let layers = conversations.flat_map(|it| it.system.iter().chain(&it.changed));
        layers.chain(waiting).map(|layer| layer.text.len()).sum()
    }

    /// Bytes of the layers that the session, its contexts and running attempts have. A reminder that waits
    /// counts twice: it becomes a message as well.
    pub fn all_layer_bytes(&self) -> usize {
        let own: usize = self.layers.values().map(String::len).sum();
        let reminders = waiting_ops(self).filter_map(|op| match op {
            Op::Remind(layer) => Some(layer.text.len()),
            _ => None,
        });
        own + self.layer_bytes() + reminders.sum::<usize>()
    }

    /// These bytes once the next step asks a model: the session and the conversation of that step then
    /// have the text of session memory. The bytes of now if no step may ask one.
    pub fn expected_layer_bytes(&self) -> usize {
        let now = self.all_layer_bytes();
        let Some(run) = self.active_run().filter(|run| has_step_for_model(run)) else {
            return now;
        };
        let memory = self.memory.snapshot().len();
        let own = self.layers.get(&LayerKind::Memory).map_or(0, String::len);
        let is_asked = run.running_attempts().any(|(_, step, _)| asks_model(step));
        let of_step = if is_asked { 0 } else { memory };
        now + memory.saturating_sub(own) + of_step
    }
}

fn running(session: &Session) -> impl Iterator<Item = &Attempt> {
    let run = session.active_run().into_iter();
    let attempts = run.flat_map(|run| run.running_attempts());
    attempts.map(|(_, _, attempt)| attempt)
}

fn waiting_ops(session: &Session) -> impl Iterator<Item = &Op> {
    running(session).flat_map(|attempt| &attempt.waiting_ops)
}

/// A step of the run asks a model, or a plan to come may have one that does.
fn has_step_for_model(run: &Run) -> bool {
    if !run.is_active() {
        return false;
    }
    let steps = run.plan.as_ref().map(PlanState::current);
    steps.is_none_or(|mut steps| steps.any(|(_, step)| !step.has_ended() && asks_model(step)))
        || !run.revisions.requests.is_empty()
}

fn asks_model(step: &Step) -> bool {
    step.plan.tool.is_none()
}
