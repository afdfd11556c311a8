//! Writes the system prompt of a conversation, reminders of what has changed in it, and the message to
//! continue.

use super::{Decision, Rejection};
use crate::conversation::{Layer, LayerKind, Op};
use crate::event::{AttemptRef, ContextChanged};
use crate::message::{FinishReason, Message};
use crate::prompt;
use crate::refusal::Refusal;
use crate::session::{Call, Context, RunStatus, Turn};
use crate::transitions::Applied;

const ALL: [LayerKind; 4] = [
    LayerKind::Prompt,
    LayerKind::Agent,
    LayerKind::Environment,
    LayerKind::Memory,
];

impl Decision<'_> {
    /// Writes the system prompt of a step. A layer that is as it was written last in this session is not
    /// written a second time.
    pub(super) fn begin_conversation(&mut self, attempt: AttemptRef) -> Applied {
        let (same_layers, ops) = self.layers_of(None);
        self.emit(ContextChanged {
            same_layers,
            ..ContextChanged::of_attempt(attempt, ops)
        })
    }

    /// The system prompt of a context is written when it is created, and of the first one before its first
    /// turn.
    pub(crate) fn write_layers(&mut self, name: &str) -> Applied {
        let Some(context) = self.session.context(name) else {
            return Ok(());
        };
        let (version, (same_layers, ops)) = (context.version + 1, self.layers_of(Some(context)));
        self.emit(ContextChanged {
            same_layers,
            ..ContextChanged::of_context(name, version, ops)
        })
    }

    /// The context of that name; the active one for an empty name.
    pub(crate) fn known_context(&self, name: &str) -> Result<&Context, Rejection> {
        let unknown = |message| Rejection::refused(Refusal::ContextNotFound, message);
        self.session.known_context(name).map_err(unknown)
    }

    /// The same for a context that is to be changed: no turn of it works.
    pub(crate) fn free_context(&self, name: &str) -> Result<&Context, Rejection> {
        let context = self.known_context(name)?;
        let name = self.session.context_name(name);
        let active = self.session.active_turn_of(name);
        match active.filter(|run| run.status == RunStatus::Running) {
            None => Ok(context),
            Some(run) => {
                let message = format!(
                    "run {} is a turn of context '{name}' and works; wait for its end, pause it or cancel it",
                    run.number
                );
                Err(Rejection::refused(Refusal::ContextBusy, message))
            }
        }
    }

    /// A turn begins: its model gets what has changed since its context was last sent, and which
    /// effects of lost turns it does not know.
    pub(super) fn begin_turn(&mut self, attempt: AttemptRef, turn: &Turn) -> Applied {
        let context = self.session.context(&turn.context);
        if context.is_some_and(|context| context.conversation.system.is_empty()) {
            self.write_layers(&turn.context)?;
        }
        let context = self.session.context(&turn.context);
        let mut ops = Vec::new();
        if turn.concludes {
            ops.push(Op::Append(Message::user(prompt::CONCLUDE)));
        }
        let lost = context.and_then(|context| prompt::lost_calls(&context.lost_calls));
        ops.extend(lost.map(Op::Notice));
        ops.extend(self.reminders(attempt));
        match ops.is_empty() {
            true => Ok(()),
            false => self.emit(ContextChanged::of_attempt(attempt, ops)),
        }
    }

    /// The layers that are as they were written last, and the others.
    fn layers_of(&self, context: Option<&Context>) -> (Vec<LayerKind>, Vec<Op>) {
        let layers = ALL.map(|kind| (kind, self.layer_now(kind, context)));
        let layers = layers.into_iter().filter(|(_, text)| !text.is_empty());
        let written = |kind: LayerKind| self.session.layers.get(&kind).map(String::as_str);
        let (same, new): (Vec<_>, Vec<_>) =
            layers.partition(|(kind, text)| written(*kind) == Some(*text));
        let same = same.into_iter().map(|(kind, _)| kind).collect();
        (same, new.into_iter().map(layer).map(Op::SetLayer).collect())
    }

    /// The model is asked next, once the calls of its last reply have ended: it gets what of its
    /// system prompt has changed.
    pub(crate) fn prepare_request(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let is_next = running.is_some_and(|running| running.calls.iter().all(Call::is_finished));
        match is_next {
            true => self.say(attempt, None),
            false => Ok(()),
        }
    }

    /// The same after a reply. One without calls ended nothing, and one that was cut is to continue. In a
    /// turn a reply without calls continues only because a person has said something.
    pub(super) fn answer_reply(&mut self, attempt: AttemptRef, finish: FinishReason) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let is_turn = self.session.turn(attempt).is_some();
        let nudge = match finish {
            FinishReason::Length => Some(prompt::CUT),
            _ if is_turn => None,
            _ => running.calls.is_empty().then_some(prompt::CONTINUE),
        };
        self.say(attempt, nudge)
    }

    /// What has changed reaches the next request, also if calls are still to end before it.
    pub(super) fn remind(&mut self, attempts: &[AttemptRef]) -> Applied {
        for attempt in attempts {
            self.say(*attempt, None)?;
        }
        Ok(())
    }

    fn say(&mut self, attempt: AttemptRef, nudge: Option<&str>) -> Applied {
        if self.is_tool_step(attempt) || self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        let nudge = nudge.map(|text| Op::Append(Message::user(text)));
        let ops: Vec<_> = nudge.into_iter().chain(self.reminders(attempt)).collect();
        match ops.is_empty() {
            true => Ok(()),
            false => self.emit(ContextChanged::of_attempt(attempt, ops)),
        }
    }

    /// The layers that are not as the model was last sent them. A reminder in a context counts only while
    /// the context still sends it: a window, or a change of the messages, may have taken it out.
    fn reminders(&self, attempt: AttemptRef) -> Vec<Op> {
        let Some(running) = self.session.attempt(attempt) else {
            return Vec::new();
        };
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let is_sent = |kind: LayerKind, text: &str| match (running.layer(kind), context) {
            (Some(sent), _) => sent == text,
            (None, Some(context)) => context.sends_layer(kind, text),
            (None, None) => text.is_empty(),
        };
        let layers = ALL
            .map(|kind| (kind, self.layer_now(kind, context)))
            .into_iter();
        let changed = layers.filter(|(kind, text)| !is_sent(*kind, text));
        changed.map(layer).map(Op::Remind).collect()
    }

    /// Compared at each report, so nothing is rendered here that has not changed.
    fn layer_now<'s>(&'s self, kind: LayerKind, context: Option<&'s Context>) -> &'s str {
        match (kind, context) {
            (LayerKind::Prompt, None) => prompt::STEP,
            (LayerKind::Prompt, Some(_)) => prompt::TURN,
            (LayerKind::Agent, context) => context.map_or("", |context| &context.prompt),
            (LayerKind::Environment, _) => self.facts.environment,
            (LayerKind::Memory, _) => self.session.memory.snapshot(),
        }
    }
}

fn layer((kind, text): (LayerKind, &str)) -> Layer {
    Layer {
        kind,
        text: text.to_owned(),
    }
}
