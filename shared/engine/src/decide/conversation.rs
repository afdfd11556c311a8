//! Writes the system prompt of a conversation, reminders of what has changed in it, and the message to
//! continue.

use super::{Decision, Rejection, words};
use crate::conversation::{KnownLayer, Layer, LayerKind, MemoryMark, Op, Reminder};
use crate::event::{AttemptRef, ContextChanged};
use crate::message::{FinishReason, Message};
use crate::prompt::memory::snapshot;
use crate::refusal::Refusal;
use crate::session::{Context, Purpose, RunStatus, Turn};
use crate::transitions::Applied;

/// The layers whose whole text is sent when they have changed.
const WHOLE: [LayerKind; 3] = [
    LayerKind::Prompt,
    LayerKind::Context,
    LayerKind::Environment,
];

impl Decision<'_> {
    /// Writes the system prompt of a step.
    pub(super) fn begin_conversation(&mut self, attempt: AttemptRef) -> Applied {
        let layers = self.layers_of(None);
        self.emit(ContextChanged::of_attempt(attempt, layers))
    }

    /// The system prompt of a context is written when it is created, and of the first one before its first
    /// turn.
    pub(crate) fn write_layers(&mut self, name: &str) -> Applied {
        let Some(context) = self.session.context(name) else {
            return Ok(());
        };
        let (version, layers) = (context.version + 1, self.layers_of(Some(context)));
        self.emit(ContextChanged::of_context(name, version, layers))
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
        let compacts = self.compacts(attempt).is_some();
        if !compacts && context.is_some_and(|context| context.conversation.system.is_empty()) {
            self.write_layers(&turn.context)?;
        }
        self.compact_before_request(attempt)?;
        let running = self.session.attempt(attempt).filter(|_| !compacts);
        let Some(is_told) = running.map(|running| running.rewrites > 0) else {
            return Ok(());
        };
        let context = self.session.context(&turn.context);
        let mut ops = Vec::new();
        if turn.tells_compaction && !is_told {
            ops.push(Op::Notice(words::COMPACTED.to_owned()));
        }
        if turn.purpose == Purpose::Conclude {
            ops.push(Op::Append(Message::user(words::CONCLUDE)));
        }
        let lost = context.and_then(|context| words::lost_calls(&context.lost_calls));
        ops.extend(lost.map(Op::Notice));
        ops.extend(self.reminders(attempt));
        match ops.is_empty() {
            true => Ok(()),
            false => self.emit(ContextChanged::of_attempt(attempt, ops)),
        }
    }

    /// All layers that have something to say.
    fn layers_of(&self, context: Option<&Context>) -> Vec<Op> {
        let layers = WHOLE.map(|kind| (kind, self.layer_now(kind, context)));
        let layers = layers.into_iter().filter(|(_, text)| !text.is_empty());
        let mut ops: Vec<_> = layers
            .map(|(kind, text)| self.layer(kind, text, MemoryMark::default()))
            .collect();
        // Once it has changed, the model needs to know since when it is told of changes.
        if self.session.memory.mark() != MemoryMark::default() {
            ops.push(self.memory_layer());
        }
        ops
    }

    /// Writes the layer of session memory as it is.
    pub(crate) fn memory_layer(&self) -> Op {
        let through = self.session.memory.mark();
        let written = self.session.layers.get(&LayerKind::Memory);
        match written.filter(|layer| layer.through == through) {
            Some(layer) => Op::UseLayer(KnownLayer {
                kind: LayerKind::Memory,
                number: layer.number,
                through,
            }),
            None => {
                let text = snapshot(self.session.memory.iter());
                self.layer(LayerKind::Memory, &text, through)
            }
        }
    }

    /// Writes a layer. The journal has a text once, as long as the state has it.
    fn layer(&self, kind: LayerKind, text: &str, through: MemoryMark) -> Op {
        match self.session.number_of(kind, text) {
            Some(number) => Op::UseLayer(KnownLayer {
                kind,
                number,
                through,
            }),
            None => Op::SetLayer(Layer {
                through,
                ..Layer::new(kind, text)
            }),
        }
    }

    /// The model is asked next: it gets what of its system prompt has changed. That does not wait for calls
    /// which are still to end, because results of pure calls may come with the next reply only.
    pub(crate) fn prepare_request(&mut self, attempt: AttemptRef) -> Applied {
        self.compact_before_request(attempt)?;
        self.say(attempt, None)
    }

    /// Session memory may have changed, and nothing else.
    pub(super) fn remind(&mut self, attempt: AttemptRef) -> Applied {
        self.say(attempt, None)
    }

    /// The same after a reply. One without calls ended nothing, and one that was cut is to continue. In a
    /// turn a reply without calls continues only because a person has said something.
    pub(super) fn answer_reply(&mut self, attempt: AttemptRef, finish: FinishReason) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let is_turn = self.session.turn(attempt).is_some();
        let nudge = match finish {
            FinishReason::Length => Some(words::CUT),
            _ if is_turn => None,
            _ => running.calls.is_empty().then_some(words::CONTINUE),
        };
        self.compact_before_request(attempt)?;
        self.say(attempt, nudge)
    }

    fn say(&mut self, attempt: AttemptRef, nudge: Option<&str>) -> Applied {
        let has_model = !self.is_tool_step(attempt) && self.compacts(attempt).is_none();
        if !has_model || self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        let nudge = nudge.map(|text| Op::Append(Message::user(text)));
        let ops: Vec<_> = nudge.into_iter().chain(self.reminders(attempt)).collect();
        match ops.is_empty() {
            true => Ok(()),
            false => self.emit(ContextChanged::of_attempt(attempt, ops)),
        }
    }

    /// The layers that are written otherwise by now, as the system prompt of an attempt.
    pub(super) fn renewed_layers(&self, attempt: AttemptRef) -> Vec<Op> {
        let known = self.session.attempt(attempt);
        let Some((running, said)) = known.zip(self.session.conversation_of(attempt)) else {
            return Vec::new();
        };
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let changed = WHOLE.into_iter().filter_map(|kind| {
            let now = self.layer_now(kind, context);
            let written = running.written(said, kind).map(|layer| &*layer.text);
            let is_written = now.is_empty() || written == Some(now);
            (!is_written).then(|| self.layer(kind, now, MemoryMark::default()))
        });
        let memory = running.written(said, LayerKind::Memory);
        let known = memory.map(|layer| layer.through).unwrap_or_default();
        let memory = (known != self.session.memory.mark()).then(|| self.memory_layer());
        changed.chain(memory).collect()
    }

    /// The layers that are not as the model was last sent them. A reminder in a context counts only while
    /// the context still sends it: a window, or a change of the messages, may have taken it out.
    fn reminders(&self, attempt: AttemptRef) -> Vec<Op> {
        let Some(running) = self.session.attempt(attempt) else {
            return Vec::new();
        };
        let Some(said) = self.session.conversation_of(attempt) else {
            return Vec::new();
        };
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let changed = WHOLE.into_iter().filter_map(|kind| {
            let now = self.layer_now(kind, context);
            let sent = running.sent(said, kind);
            let is_sent = sent.map_or(now.is_empty(), |sent| sent.is(now));
            (!is_sent).then(|| words::changed(kind, now))
        });
        let memory = self.memory_reminder(attempt, running.memory_mark(said));
        changed.chain(memory).map(Op::Remind).collect()
    }

    /// The keys of session memory that the model, which was sent these changes, does not know as they are;
    /// the whole, if the state does not know them any more.
    fn memory_reminder(&self, attempt: AttemptRef, sent: MemoryMark) -> Option<Reminder> {
        let memory = &self.session.memory;
        let now = memory.mark();
        if sent == now {
            return None;
        }
        match memory.changed_since(sent, attempt) {
            Some(keys) if keys.is_empty() => None,
            Some(keys) => Some(words::memory_changed(&keys, sent, now)),
            None => Some(words::memory_is(memory, now)),
        }
    }

    /// Compared at each report, so nothing is rendered here.
    fn layer_now<'s>(&'s self, kind: LayerKind, context: Option<&'s Context>) -> &'s str {
        match (kind, context) {
            (LayerKind::Prompt, None) => words::STEP,
            (LayerKind::Prompt, Some(_)) => words::TURN,
            (LayerKind::Context, context) => context.map_or("", |context| &context.prompt),
            (LayerKind::Environment, _) => self.facts.environment,
            (LayerKind::Agent | LayerKind::Capabilities | LayerKind::Instructions, _) => "",
            // Its changes are compared by their number.
            (LayerKind::Memory, _) => "",
        }
    }
}
