//! Writes the system prompt of a conversation, reminders of what has changed in it, and the message to
//! continue.

use super::{Decision, Rejection, words};
use crate::conversation::{
    Conversation, KnownLayer, Layer, LayerKind, MemoryMark, Op, Reminder, Sent, as_lines,
};
use crate::event::{AttemptRef, ContextChanged, EventKind};
use crate::message::{FinishReason, Message};
use crate::prompt::memory::snapshot;
use crate::refusal::Refusal;
use crate::session::{Agent, Attempt, Context, Purpose, RunStatus, Switched, Turn};
use crate::transitions::{Applied, IllegalTransition};

/// The layers whose whole text is sent when they have changed.
const WHOLE: [LayerKind; 5] = [
    LayerKind::Prompt,
    LayerKind::Agent,
    LayerKind::Context,
    LayerKind::Environment,
    LayerKind::Capabilities,
];

impl Decision<'_> {
    /// Writes the system prompt of a step. The instructions of the folder and the mode follow its first message.
    pub(super) fn begin_conversation(&mut self, attempt: AttemptRef) -> Applied {
        let agent = self.session.agent_of(attempt);
        let mut ops = self.layers_of(Some(attempt), None, agent);
        let text = self.layer_now(LayerKind::Instructions, None, agent);
        if !text.is_empty() {
            ops.push(Op::Remind(words::instructions(text, false)));
        }
        let mode = words::mode(self.session.mode);
        if !mode.is_empty() {
            ops.push(Op::Remind(words::mode_is(mode)));
        }
        self.emit(ContextChanged::of_attempt(attempt, ops))
    }

    /// The system prompt of a context is written when it is created, and of the first one before its first
    /// turn.
    pub(crate) fn write_layers(&mut self, name: &str) -> Applied {
        let Some(context) = self.session.context(name) else {
            return Ok(());
        };
        let agent = context.agent.as_ref();
        let agent = agent.and_then(|used| self.session.agent(used));
        let layers = self.layers_of(None, Some(context), agent);
        let version = context.version + 1;
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
    /// effects of lost turns it does not know. A switch of the agent writes the system prompt anew, which costs
    /// what providers keep of the conversation once.
    pub(super) fn begin_turn(&mut self, attempt: AttemptRef, turn: &Turn) -> Applied {
        let context = self.session.context(&turn.context);
        let compacts = self.compacts(attempt).is_some();
        if !compacts && context.is_some_and(|context| context.conversation.system.is_empty()) {
            self.write_layers(&turn.context)?;
        }
        let before = self.events.len();
        self.compact_before_request(attempt)?;
        if compacts || self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        let mut newer = self.events.iter().skip(before);
        let is_told = newer.any(|event| matches!(event.kind, EventKind::ContextCompacted(_)));
        let mut ops = match &turn.switched {
            Some(switched) => self.switch(attempt, switched)?,
            None => Vec::new(),
        };
        let context = self.session.context(&turn.context);
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

    /// The layers as the agent of an attempt has them are written anew. Returns what its model is told: the
    /// switch, if the conversation has a message of before and the agent is another one than then, and what an
    /// older reminder says otherwise.
    fn switch(
        &mut self,
        attempt: AttemptRef,
        switched: &Switched,
    ) -> Result<Vec<Op>, IllegalTransition> {
        let layers = self.renewed_layers(attempt);
        if !layers.is_empty() {
            self.emit(ContextChanged::of_attempt(attempt, layers))?;
        }
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let (Some(context), Some(running)) = (context, self.session.attempt(attempt)) else {
            return Ok(Vec::new());
        };
        let now = self.session.agent_of(attempt);
        let was = switched.from.as_ref();
        let was = was.and_then(|used| self.session.agent(used));
        let grants = &self.facts.pool.grants;
        let notice = || Op::Notice(words::switched(switched.name(), was, now, grants));
        let is_other = switched.name() != self.session.agent_name(attempt.run);
        let is_told = is_other && !context.is_empty();
        let mut ops: Vec<_> = is_told.then(notice).into_iter().collect();
        // A model reads an older reminder after the layer. One of another text is followed by this one; of a
        // layer that was not written anew, the usual reminders do that.
        let said = &context.conversation;
        let misleads = |kind, now: &str| {
            let is = |sent: Option<Sent<'_>>| sent.is_some_and(|sent| sent.is(now));
            let is_written = is(running.sent(said, kind));
            let is_reminded = matches!(said.sent(kind), Some(Sent::Digest(_)));
            is_written && is_reminded && !is(said.sent(kind))
        };
        let again = WHOLE.into_iter().filter_map(|kind| {
            let text = self.layer_now(kind, Some(context), now);
            misleads(kind, text).then(|| Op::Remind(words::changed(kind, text)))
        });
        ops.extend(again);
        if let Some(pool) = self.pool_context(Some(attempt)) {
            let names = as_lines(&pool.names());
            if misleads(LayerKind::Pool, &names) {
                ops.push(Op::Remind(words::pool_is(&pool.text(), &names)));
            }
        }
        Ok(ops)
    }

    /// All layers that have something to say: those of an attempt at a step, or of a context.
    fn layers_of(
        &self,
        attempt: Option<AttemptRef>,
        context: Option<&Context>,
        agent: Option<&Agent>,
    ) -> Vec<Op> {
        let layers = WHOLE.map(|kind| (kind, self.layer_now(kind, context, agent)));
        let layers = layers.into_iter().filter(|(_, text)| !text.is_empty());
        let mut ops: Vec<_> = layers
            .map(|(kind, text)| self.layer(kind, text, MemoryMark::default()))
            .collect();
        let pool = self.pool_context(attempt);
        ops.extend(pool.map(|pool| self.pool_layer(&pool)));
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
                names: Vec::new(),
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
                names: Vec::new(),
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
        if self.is_gated(attempt) {
            return Ok(());
        }
        self.compact_before_request(attempt)?;
        self.say(attempt, None)
    }

    /// Session memory may have changed, and nothing else.
    pub(super) fn remind(&mut self, attempt: AttemptRef) -> Applied {
        match self.is_gated(attempt) {
            // It is told with what follows from the answers.
            true => Ok(()),
            false => self.say(attempt, None),
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
        let (context, agent) = (self.context_of(attempt), self.session.agent_of(attempt));
        let changed = WHOLE.into_iter().filter_map(|kind| {
            let now = self.layer_now(kind, context, agent);
            let written = running.written(said, kind).map(|layer| &*layer.text);
            let is_written = written.unwrap_or_default() == now;
            (!is_written).then(|| self.layer(kind, now, MemoryMark::default()))
        });
        let pool = self.renewed_pool_layer(attempt, running, said);
        let memory = running.written(said, LayerKind::Memory);
        let known = memory.map(|layer| layer.through).unwrap_or_default();
        let memory = (known != self.session.memory.mark()).then(|| self.memory_layer());
        changed.chain(pool).chain(memory).collect()
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
        let (context, agent) = (self.context_of(attempt), self.session.agent_of(attempt));
        let changed = WHOLE.into_iter().filter_map(|kind| {
            let now = self.layer_now(kind, context, agent);
            let sent = running.sent(said, kind);
            let is_sent = sent.map_or(now.is_empty(), |sent| sent.is(now));
            (!is_sent).then(|| words::changed(kind, now))
        });
        let pool = self.pool_reminder(attempt, running, said);
        let instructions = self.instructions_reminder(running, said, agent);
        let mode = self.mode_reminder(running, said);
        let memory = self.memory_reminder(attempt, running.memory_mark(said));
        let all = changed
            .chain(pool)
            .chain(instructions)
            .chain(mode)
            .chain(memory);
        all.map(Op::Remind).collect()
    }

    /// The instructions of the folder, unless the model has them in a message as they are. No system prompt has
    /// them, so a compaction or a window can take them away.
    fn instructions_reminder(
        &self,
        running: &Attempt,
        said: &Conversation,
        agent: Option<&Agent>,
    ) -> Option<Reminder> {
        let now = self.layer_now(LayerKind::Instructions, None, agent);
        let sent = running.sent(said, LayerKind::Instructions);
        let is_sent = sent.map_or(now.is_empty(), |sent| sent.is(now));
        (!is_sent).then(|| words::instructions(now, sent.is_some()))
    }

    /// The mode, unless the model has it in a message as it is. A compaction or a window can take that away.
    fn mode_reminder(&self, running: &Attempt, said: &Conversation) -> Option<Reminder> {
        let now = words::mode(self.session.mode);
        let sent = running.sent(said, LayerKind::Mode);
        let is_sent = sent.map_or(now.is_empty(), |sent| sent.is(now));
        (!is_sent).then(|| words::mode_is(now))
    }

    /// Tells the models at work of the mode, with their next requests.
    pub(crate) fn tell_mode(&mut self) -> Applied {
        let active = self.session.active_run().map(|run| run.number);
        let attempts = active.map_or_else(Vec::new, |run| self.running(run));
        attempts
            .into_iter()
            .try_for_each(|attempt| self.remind(attempt))
    }

    /// The context of a turn; none for a step.
    fn context_of(&self, attempt: AttemptRef) -> Option<&Context> {
        let turn = self.session.turn(attempt)?;
        self.session.context(&turn.context)
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
    fn layer_now<'s>(
        &'s self,
        kind: LayerKind,
        context: Option<&'s Context>,
        agent: Option<&'s Agent>,
    ) -> &'s str {
        let definition = agent.map(|agent| &*agent.definition);
        match kind {
            LayerKind::Prompt if context.is_none() => self.facts.prompts.step(),
            LayerKind::Prompt => self.facts.prompts.turn(),
            LayerKind::Agent => definition.map_or("", |agent| &agent.prompt),
            LayerKind::Context => context.map_or("", |context| &context.prompt),
            LayerKind::Environment => self.facts.environment,
            LayerKind::Capabilities => agent.map_or("", |agent| &agent.capabilities),
            LayerKind::Instructions => definition.map_or("", |agent| &agent.instructions),
            LayerKind::Mode => words::mode(self.session.mode),
            // Their changes are compared by names, and by their number.
            LayerKind::Pool | LayerKind::Memory => "",
        }
    }
}
