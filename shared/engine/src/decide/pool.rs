//! What models read of the pool: the layer of the system prompt, and reminders of other capabilities.

use super::{Decision, words};
use crate::conversation::{
    Conversation, KnownLayer, Layer, LayerKind, MemoryMark, Op, Reminder, as_lines,
};
use crate::event::AttemptRef;
use crate::pool::{AgentContext, PoolView, ResourceState, ResourceView, TaskContext};
use crate::session::Attempt;
use std::sync::Arc;

impl Decision<'_> {
    /// The agent context as it is now: of an attempt, or of a context without a turn. None if the pool has no resource.
    pub(super) fn pool_context(&self, attempt: Option<AttemptRef>) -> Option<AgentContext> {
        let step = attempt.filter(|&attempt| self.session.turn(attempt).is_none());
        match step {
            Some(step) => self.step_context(step, &self.allotted(step)),
            None => self.agent_context(attempt, &[], None, None),
        }
    }

    /// The same for a step which these resources carry out.
    pub(super) fn step_context(
        &self,
        attempt: AttemptRef,
        allotted: &[String],
    ) -> Option<AgentContext> {
        let (run, step) = (self.session.run(attempt.run)?, self.session.step(attempt)?);
        let task = step.task(attempt.step, Some(run));
        let note = step.prompt_note(Some(run));
        self.agent_context(Some(attempt), allotted, Some(task), note)
    }

    fn agent_context(
        &self,
        attempt: Option<AttemptRef>,
        allotted: &[String],
        task: Option<TaskContext>,
        note: Option<String>,
    ) -> Option<AgentContext> {
        let pool = self.facts.pool;
        if pool.view.resources.is_empty() {
            return None;
        }
        let view = self.free_for(attempt);
        let allotted = allotted.to_vec();
        Some(AgentContext::of(
            &view,
            self.facts.now,
            task,
            note,
            allotted,
        ))
    }

    /// The resources that an attempt has, or would get now.
    fn allotted(&self, attempt: AttemptRef) -> Vec<String> {
        let pool = self.facts.pool;
        match pool.allotted.get(&attempt) {
            Some(resources) => resources.clone(),
            None => {
                let need = self.session.need_of(attempt);
                let view = self.free_for(Some(attempt));
                view.candidate(&need).unwrap_or_default()
            }
        }
    }

    /// The pool as an attempt finds it: neither its own resources are taken, nor those of attempts that have just
    /// ended.
    fn free_for(&self, attempt: Option<AttemptRef>) -> Arc<PoolView> {
        let pool = self.facts.pool;
        let held = pool.allotted.iter();
        let free = held.filter(|&(&holder, _)| {
            Some(holder) == attempt || self.session.attempt(holder).is_none()
        });
        let free: Vec<&str> = free.flat_map(|(_, ids)| ids).map(String::as_str).collect();
        with_free(&pool.view, &free)
    }

    /// Writes the layer. The journal has a text once, as long as the state has it.
    pub(super) fn pool_layer(&self, now: &AgentContext) -> Op {
        let (kind, text, names) = (LayerKind::Pool, now.text(), now.names());
        match self.session.number_of(kind, &text) {
            Some(number) => Op::UseLayer(KnownLayer {
                kind,
                number,
                through: MemoryMark::default(),
                names,
            }),
            None => Op::SetLayer(Layer {
                names,
                allotted: now.allotted.clone(),
                ..Layer::new(kind, text)
            }),
        }
    }

    /// Writes the layer, if it names other capabilities than there are now.
    pub(super) fn renewed_pool_layer(
        &self,
        attempt: AttemptRef,
        running: &Attempt,
        said: &Conversation,
    ) -> Option<Op> {
        let now = self.pool_context(Some(attempt))?;
        let written = running.written(said, LayerKind::Pool);
        let is_written = written.map_or(&[][..], |layer| layer.names.as_slice()) == now.names();
        (!is_written).then(|| self.pool_layer(&now))
    }

    /// The whole text, if the model last read of other capabilities. A step without a reply has the layer.
    pub(super) fn pool_reminder(
        &self,
        attempt: AttemptRef,
        running: &Attempt,
        said: &Conversation,
    ) -> Option<Reminder> {
        let is_turn = self.session.turn(attempt).is_some();
        if !is_turn && running.tool_turns == 0 && running.written(said, LayerKind::Pool).is_some() {
            return None;
        }
        let now = self.pool_context(Some(attempt))?;
        let names = as_lines(&now.names());
        let sent = running.sent(said, LayerKind::Pool);
        let is_sent = sent.map_or(names.is_empty(), |sent| sent.is(&names));
        (!is_sent).then(|| words::pool_is(&now.text(), &names))
    }
}

/// The pool where a slot of each of these resources is not taken.
fn with_free(view: &Arc<PoolView>, free: &[&str]) -> Arc<PoolView> {
    let is_freed = |resource: &ResourceView| {
        resource.state == ResourceState::Busy && free.iter().any(|id| **id == *resource.id)
    };
    if !view.resources.iter().any(is_freed) {
        return Arc::clone(view);
    }
    let mut view = PoolView::clone(view);
    for resource in &mut view.resources {
        if is_freed(resource) {
            resource.state = ResourceState::Available;
            resource.free = resource.free.max(1);
        }
    }
    Arc::new(view)
}
