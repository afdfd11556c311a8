//! All that a model is sent of one conversation, and the changes that make it.
//!
//! The owner folds it from the journal, and an executor has a replica that the same changes keep equal:
//! so a continued attempt sends byte for byte what the one before it would have sent.

mod reminders;

pub use reminders::Reminders;

use crate::event::AttemptRef;
use crate::key::text_digest;
use crate::message::{Message, Part, Role};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which part of the system prompt a text is. The order is theirs in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LayerKind {
    /// What the model is for and how it works.
    Prompt,
    /// What the conversation's own prompt says, of its context or its agent.
    Agent,
    /// Where it works, as the settings of the owner say.
    Environment,
    /// Session memory.
    Memory,
}

/// How many changes of session memory a text has.
///
/// Changes by the owner and by clients count apart: a client's change can come to stand in the journal
/// before changes that the owner has decided already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryMark {
    /// Changes by attempts and commands.
    pub owner: u64,
    /// Changes by clients.
    pub clients: u64,
}

impl MemoryMark {
    /// What a model knows that knew these changes, once it has read a text of the keys that changed between
    /// `since` and `through`. Without `since` the text has all of session memory. Its values are those of
    /// `through`, also if the model knew later ones.
    pub(crate) fn after(self, since: Option<Self>, through: Self) -> Self {
        let misses = |since: Self| self.owner < since.owner || self.clients < since.clients;
        match since.is_some_and(misses) {
            true => Self {
                owner: self.owner.min(through.owner),
                clients: self.clients.min(through.clients),
            },
            false => through,
        }
    }
}

/// A part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Which.
    pub kind: LayerKind,
    /// Its text; empty if there is nothing to say. Conversations share it, and a checkpoint has it once,
    /// under its number.
    #[serde(skip)]
    pub text: Arc<str>,
    /// The number of the text in its session, from 1; 0 for one that no session has taken in.
    pub number: u32,
    /// Of session memory: the changes that the text has.
    pub through: MemoryMark,
}

impl Layer {
    /// A layer that no session has taken in.
    pub fn new(kind: LayerKind, text: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            text: text.into(),
            number: 0,
            through: MemoryMark::default(),
        }
    }
}

/// A part of the system prompt whose text the session has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLayer {
    /// Which.
    pub kind: LayerKind,
    /// The number of its text.
    pub number: u32,
    /// As [`Layer::through`].
    pub through: MemoryMark,
}

/// A part of a message that tells the model of a change of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminder {
    /// As the model reads it.
    pub text: String,
    /// What the model knows by it.
    pub of: Reminded,
}

/// What a model knows by a reminder, or by a call of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reminded {
    /// The whole text of a layer other than session memory.
    Layer {
        /// Which.
        kind: LayerKind,
        /// The digest of its text.
        digest: String,
    },
    /// What has changed in session memory.
    Memory {
        /// The changes that the model knows without it; none if it has the whole of session memory.
        since: Option<MemoryMark>,
        /// The changes that the model knows with it.
        through: MemoryMark,
    },
}

impl Reminded {
    /// The layer that it is about.
    pub fn kind(&self) -> LayerKind {
        match self {
            Self::Layer { kind, .. } => *kind,
            Self::Memory { .. } => LayerKind::Memory,
        }
    }
}

/// What a model was last sent as a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent<'a> {
    Text(&'a str),
    /// Of the text that a reminder has.
    Digest(&'a str),
}

impl Sent<'_> {
    /// It was this text.
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Text(sent) => sent == text,
            Self::Digest(digest) => digest == text_digest(text),
        }
    }
}

/// What a model is sent, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The system prompt, by kind. A later change of a layer is a message, so that no byte before it
    /// changes.
    pub system: Vec<Layer>,
    /// What its incremental messages tell of changed layers, by reminders and by calls of the model that
    /// change session memory.
    pub reminders: Reminders,
    /// What it began with.
    pub immutable: Vec<Message>,
    /// What stands for older messages.
    pub compressed: Vec<Message>,
    /// What was said since.
    pub incremental: Vec<Message>,
    /// The last message, with the notes that the model keeps for itself; empty for none.
    pub scratch: String,
}

/// Whose conversation it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConversationRef {
    /// An attempt under way.
    Attempt(AttemptRef),
    /// A context of the session, by its name.
    Context(String),
}

/// A change of a conversation. Indices are those of the incremental messages, from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Adds a message at the end.
    Append(Message),
    /// Puts another message in the place of one.
    Update {
        /// Its index.
        index: u32,
        /// The new one.
        message: Message,
    },
    /// Puts a message before another one, or at the end.
    Insert {
        /// The index that it gets.
        index: u32,
        /// The new one.
        message: Message,
    },
    /// Takes a message out.
    Remove {
        /// Its index.
        index: u32,
    },
    /// Takes the last message out, if there is one.
    Pop,
    /// Takes out all messages of other roles.
    Retain(Role),
    /// Takes all messages out.
    Clear,
    /// Puts a message in the place of the oldest ones. It joins the compressed messages.
    Compact {
        /// How many it stands for.
        messages: u32,
        /// What stands for them.
        summary: Message,
    },
    /// Writes a layer of the system prompt.
    SetLayer(Layer),
    /// Writes a layer of the system prompt whose text the session has. Folding puts [`Op::SetLayer`] in
    /// its place, so no conversation meets it.
    UseLayer(KnownLayer),
    /// A layer has changed: a text about it is added as by [`Op::Notice`].
    Remind(Reminder),
    /// Tells the model something beside what the person says: a text that is added to the last message
    /// if that is the user's, else as a message of the user.
    Notice(String),
    /// Sends so many of the latest messages; none for all. It is the context's, and changes no message.
    SetWindow(Option<u32>),
}

impl Op {
    /// The level that each needs; see [`LEVEL`](crate::level::LEVEL).
    fn since(&self) -> u32 {
        match self {
            Self::Append(_) => 1,
            Self::Update { .. } => 1,
            Self::Insert { .. } => 1,
            Self::Remove { .. } => 1,
            Self::Pop => 1,
            Self::Retain(_) => 1,
            Self::Clear => 1,
            Self::Compact { .. } => 1,
            Self::SetLayer(_) => 1,
            Self::UseLayer(_) => 1,
            Self::Remind(_) => 1,
            Self::Notice(_) => 1,
            Self::SetWindow(_) => 1,
        }
    }

    /// The lowest level of a reader that can read all of them; 1 for none.
    pub(crate) fn needs_of(ops: &[Self]) -> u32 {
        ops.iter().map(Self::since).max().unwrap_or(1)
    }
}

impl Conversation {
    /// Applies a change.
    ///
    /// # Errors
    /// An index is beyond the end; nothing has changed then.
    pub fn apply(&mut self, op: Op) -> Applied {
        let length = self.incremental.len();
        let within = |index: u32, end: usize| match index as usize {
            at if at < end => Ok(at),
            _ => Err(IllegalTransition::missing(format_args!(
                "message {index} of {length}"
            ))),
        };
        match op {
            Op::Append(message) => self.incremental.push(message),
            Op::Update { index, message } => {
                let at = within(index, length)?;
                self.incremental[at] = message;
                self.reminders.moved(|it| (it != at).then_some(it));
            }
            Op::Insert { index, message } => {
                let at = within(index, length + 1)?;
                self.incremental.insert(at, message);
                let moved = |it: usize| it + usize::from(it >= at);
                self.reminders.moved(|it| Some(moved(it)));
            }
            Op::Remove { index } => {
                let at = within(index, length)?;
                drop(self.incremental.remove(at));
                let moved = |it: usize| it - usize::from(it > at);
                self.reminders.moved(|it| (it != at).then(|| moved(it)));
            }
            Op::Pop => {
                drop(self.incremental.pop());
                let end = self.incremental.len();
                self.reminders.moved(|it| (it < end).then_some(it));
            }
            Op::Retain(role) => self.retain(role),
            Op::Clear => {
                self.incremental.clear();
                self.reminders = Reminders::default();
            }
            Op::Compact { messages, summary } => {
                let end = within(messages, length + 1)?;
                drop(self.incremental.drain(..end));
                self.reminders.moved(|it| it.checked_sub(end));
                self.compressed.push(summary);
            }
            Op::SetLayer(layer) => set(&mut self.system, layer),
            Op::UseLayer(KnownLayer { number, .. }) => {
                return Err(IllegalTransition::missing(format_args!("text {number}")));
            }
            Op::Remind(Reminder { text, of }) => {
                let at = self.remind(Part::Text(text));
                self.reminders.note(at, of);
            }
            Op::Notice(text) => _ = self.remind(Part::Text(text)),
            Op::SetWindow(_) => {}
        }
        Ok(())
    }

    fn retain(&mut self, role: Role) {
        let mut kept = 0;
        let places = self.incremental.iter().map(|message| {
            let place = (message.role == role).then_some(kept);
            kept += usize::from(place.is_some());
            place
        });
        let places: Vec<Option<usize>> = places.collect();
        self.incremental.retain(|message| message.role == role);
        self.reminders.moved(|it| places.get(it).copied().flatten());
    }

    /// Adds a part to the last message if that is the user's, else as a message of the user. Returns the
    /// index of the message.
    fn remind(&mut self, part: Part) -> usize {
        match self.incremental.last_mut() {
            Some(last) if last.role == Role::User => last.parts.push(part),
            _ => self.incremental.push(Message {
                role: Role::User,
                parts: vec![part],
            }),
        }
        self.incremental.len() - 1
    }

    /// The last message tells of a change also without a reminder.
    pub(crate) fn tell(&mut self, of: Reminded) {
        if let Some(last) = self.incremental.len().checked_sub(1) {
            self.reminders.note(last, of);
        }
    }

    /// The layer as it is written.
    pub fn layer(&self, kind: LayerKind) -> Option<&Layer> {
        self.system.iter().find(|layer| layer.kind == kind)
    }

    /// What the model was last sent as this layer, if it is sent the messages from this index on; none if
    /// nothing was. Of session memory there is [`Conversation::memory_mark`].
    pub(crate) fn sent(&self, kind: LayerKind, from: usize) -> Option<Sent<'_>> {
        match self.reminders.last(kind, from) {
            Some(Reminded::Layer { digest, .. }) => Some(Sent::Digest(digest)),
            _ => self.layer(kind).map(|layer| Sent::Text(&layer.text)),
        }
    }

    /// The changes of session memory that the model knows, if it is sent the messages from this index on.
    /// `written` are those of the layer.
    pub(crate) fn memory_mark(&self, written: MemoryMark, from: usize) -> MemoryMark {
        self.reminders.memory_mark(written, from)
    }

    /// Adds what was said in a turn, with the reminders in it.
    pub(crate) fn take_in(&mut self, turn: Self) {
        let before = self.incremental.len();
        self.reminders.take_in(turn.reminders, before);
        self.incremental.extend(turn.incremental);
    }

    /// All messages of a request. The first [`Conversation::stable`] of them never change.
    pub fn messages(&self) -> Vec<Message> {
        let layers = self.system.iter().map(|layer| layer.text.trim_end());
        let layers: Vec<_> = layers.filter(|text| !text.is_empty()).collect();
        let system = (!layers.is_empty()).then(|| Message::system(layers.join("\n\n")));
        let zones = [&self.immutable, &self.compressed, &self.incremental];
        let said = zones.into_iter().flatten().cloned();
        let scratch = (!self.scratch.is_empty()).then(|| Message::user(&*self.scratch));
        system.into_iter().chain(said).chain(scratch).collect()
    }

    /// How many messages at the beginning of a request stay as they are until a compaction.
    pub fn stable(&self) -> usize {
        let has_system = self
            .system
            .iter()
            .any(|layer| !layer.text.trim_end().is_empty());
        usize::from(has_system) + self.immutable.len() + self.compressed.len()
    }
}

/// Layers are few, and stand in the order of their kinds.
fn set(layers: &mut Vec<Layer>, layer: Layer) {
    match layers.binary_search_by_key(&layer.kind, |other| other.kind) {
        Ok(at) => layers[at] = layer,
        Err(at) => layers.insert(at, layer),
    }
}
