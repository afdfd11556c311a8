//! Contexts: the named conversations of a session.

use super::{Apply, EffectfulCall, Envelope, Session};
use crate::command::{Command, CreateContext};
use crate::conversation::{Conversation, ConversationRef, LayerKind, MemoryMark, Op, Sent};
use crate::event::{ContextChanged, NotesFrame};
use crate::message::Message;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The context that every session has from its start.
pub const MAIN: &str = "main";

/// Most lost calls that the next turn is reminded of.
const MOST_LOST_CALLS: usize = 100;

/// A conversation that turns continue, by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Grows by one with each change.
    pub version: u64,
    /// The system prompt that its creator gave; may be empty.
    pub prompt: String,
    /// How many of the newest incremental messages a request has; none for all.
    pub window: Option<u32>,
    /// Its zones, with the system prompt once that was written. It has no scratch: see
    /// [`Context::notes`].
    pub conversation: Conversation,
    /// The notes that its model keeps for itself.
    pub notes: String,
    /// The words around the notes, in the last message of a request.
    pub notes_frame: NotesFrame,
    /// Bytes of its messages.
    pub bytes: u64,
    /// Turns that completed.
    pub turns: u32,
    /// Calls with side effects of turns that failed, of which no completed turn knows.
    pub lost_calls: Vec<EffectfulCall>,
}

impl Context {
    /// The messages of its zones, in the order of a request, the window left aside.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let Conversation {
            immutable,
            compressed,
            incremental,
            ..
        } = &self.conversation;
        immutable.iter().chain(compressed).chain(incremental)
    }

    /// How many messages its zones have.
    pub fn len(&self) -> usize {
        let it = &self.conversation;
        it.immutable.len() + it.compressed.len() + it.incremental.len()
    }

    /// Its zones have no message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The incremental messages that a request has.
    pub fn in_window(&self) -> &[Message] {
        &self.conversation.incremental[self.window_start()..]
    }

    /// Index of the first incremental message that a request has.
    fn window_start(&self) -> usize {
        let length = self.conversation.incremental.len();
        let shown = self.window.map_or(length, |most| most as usize);
        length.saturating_sub(shown)
    }

    /// What the model of a turn is sent before that turn's own messages. All of it stays as it is until
    /// the turn ends, so the incremental messages stand with the compressed ones.
    pub(crate) fn before_turn(&self) -> Conversation {
        let compressed = self.conversation.compressed.iter();
        Conversation {
            system: self.conversation.system.clone(),
            immutable: self.conversation.immutable.clone(),
            compressed: compressed.chain(self.in_window()).cloned().collect(),
            scratch: self.notes_frame.around(&self.notes),
            ..Conversation::default()
        }
    }

    /// What its model reads as a layer: in the last reminder of it that a request has, or in the system
    /// prompt if there is none.
    pub(crate) fn sent(&self, kind: LayerKind) -> Option<Sent<'_>> {
        self.conversation.sent(kind, self.window_start())
    }

    /// The changes of session memory that its model knows.
    pub(crate) fn memory_mark(&self) -> MemoryMark {
        let written = self.conversation.layer(LayerKind::Memory);
        let written = written.map(|layer| layer.through).unwrap_or_default();
        self.conversation.memory_mark(written, self.window_start())
    }

    /// The context that the command describes.
    pub(crate) fn new(create: &CreateContext) -> Self {
        let mut context = Self {
            prompt: create.prompt.clone(),
            window: create.window,
            ..Self::default()
        };
        context.conversation.immutable.clone_from(&create.immutable);
        context.count_bytes();
        context
    }

    /// Makes changes that count as one.
    fn change(&mut self, ops: impl IntoIterator<Item = Op>) -> Applied {
        for op in ops {
            if let Op::SetWindow(window) = &op {
                self.window = *window;
            }
            let bytes = self.bytes_after(&op);
            self.conversation.apply(op)?;
            match bytes {
                Some(bytes) => self.bytes = bytes,
                None => self.count_bytes(),
            }
        }
        self.version += 1;
        Ok(())
    }

    /// Bytes of the messages after a change of single ones. None for a change that looks at many.
    fn bytes_after(&self, op: &Op) -> Option<u64> {
        let said = &self.conversation.incremental;
        let at = |index: u32| said.get(index as usize).map_or(0, Message::bytes);
        let (more, less) = match op {
            Op::Append(message) | Op::Insert { message, .. } => (message.bytes(), 0),
            Op::Update { index, message } => (message.bytes(), at(*index)),
            Op::Remove { index } => (0, at(*index)),
            Op::Pop => (0, said.last().map_or(0, Message::bytes)),
            Op::SetLayer(_) | Op::UseLayer(_) | Op::SetWindow(_) => (0, 0),
            Op::Retain(_) | Op::Clear | Op::Compact { .. } | Op::Remind(_) | Op::Notice(_) => {
                return None;
            }
        };
        Some(self.bytes.saturating_add(more).saturating_sub(less))
    }

    fn count_bytes(&mut self) {
        self.bytes = self.messages().map(Message::bytes).sum();
    }

    /// Appends the messages of a completed turn.
    pub(super) fn take_in(&mut self, turn: Conversation) {
        self.bytes += turn.incremental.iter().map(Message::bytes).sum::<u64>();
        self.conversation.take_in(turn);
        self.lost_calls.clear();
        self.turns += 1;
        self.version += 1;
    }

    /// Keeps the newest calls of a turn that failed, for the next one.
    pub(super) fn lose(&mut self, calls: Vec<EffectfulCall>) {
        self.lost_calls.extend(calls);
        let before = self.lost_calls.len().saturating_sub(MOST_LOST_CALLS);
        self.lost_calls.drain(..before);
    }

    /// A run with a plan has reached its goal. A goal or an answer that says nothing is no message.
    pub(super) fn take_in_run(&mut self, goal: &str, answer: &str) {
        let mut said = vec![Message::user(goal), Message::assistant(answer, Vec::new())];
        said.retain(|message| !message.text().trim().is_empty());
        self.bytes += said.iter().map(Message::bytes).sum::<u64>();
        self.conversation.incremental.extend(said);
        self.version += 1;
    }
}

impl Session {
    /// The context of that name; the active one for an empty name.
    pub fn context(&self, name: &str) -> Option<&Context> {
        self.contexts.get(self.context_name(name)).map(Box::as_ref)
    }

    /// The same. The error names, for people, the contexts that there are.
    ///
    /// # Errors
    /// There is no such context.
    pub fn known_context(&self, name: &str) -> Result<&Context, String> {
        self.context(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = known.join(", ");
            format!("there is no context '{name}'; there are: {known}")
        })
    }

    /// An empty name is the active context.
    pub fn context_name<'a>(&'a self, name: &'a str) -> &'a str {
        match name {
            "" => &self.active_context,
            name => name,
        }
    }

    pub(crate) fn context_mut(&mut self, name: &str) -> Result<&mut Context, IllegalTransition> {
        let context = self.contexts.get_mut(name).map(Box::as_mut);
        context.ok_or_else(|| IllegalTransition::missing(format_args!("context {name}")))
    }

    /// All changes of an event, with those that its command brought. `answers` is the event's, and the
    /// state is the one before the event.
    pub fn ops_of(&self, changed: &ContextChanged, answers: u64) -> Vec<Op> {
        let received = self.commands.get(&answers);
        let mut ops = match received.map(|received| &received.command) {
            Some(Command::SendMessage(sent)) => vec![Op::Append(sent.message.clone())],
            Some(Command::ChangeContext(change)) => change.ops.clone(),
            _ => Vec::new(),
        };
        ops.extend(changed.ops.iter().cloned());
        ops
    }
}

impl Apply for ContextChanged {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let ops = session.ops_of(self, envelope.answers);
        let ops = session.with_texts(ops)?;
        match &self.conversation {
            ConversationRef::Attempt(attempt) => {
                session.attempt_mut(*attempt)?.say(ops, self.is_steering);
                Ok(())
            }
            ConversationRef::Context(name) => {
                let context = session.context_mut(name)?;
                context.change(ops)?;
                if context.version != self.version {
                    let what = format_args!("version {} of context {name}", self.version);
                    return Err(IllegalTransition::not_allowed(
                        what,
                        context.version,
                        "next",
                    ));
                }
                Ok(())
            }
        }
    }
}

/// Every session begins with one.
pub(super) fn main_alone() -> BTreeMap<String, Box<Context>> {
    BTreeMap::from([(MAIN.to_owned(), Box::default())])
}
