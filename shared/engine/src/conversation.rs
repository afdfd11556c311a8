//! All that a model is sent of one conversation, and the changes that make it.
//!
//! The owner folds it from the journal, and an executor has a replica that the same changes keep equal:
//! so a continued attempt sends byte for byte what the one before it would have sent.

use crate::event::AttemptRef;
use crate::message::{Message, Part, Role};
use crate::prompt;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

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

/// A part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Which.
    pub kind: LayerKind,
    /// Its text; none if there is nothing to say.
    pub text: String,
}

/// What a model is sent, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The system prompt, by kind. A later change of a layer is a message, so that no byte before it
    /// changes.
    pub system: Vec<Layer>,
    /// The newest text of layers that changed since they were written.
    pub changed: Vec<Layer>,
    /// What it began with.
    pub immutable: Vec<Message>,
    /// What stands for older messages.
    pub compressed: Vec<Message>,
    /// What was said since.
    pub incremental: Vec<Message>,
    /// Notes that the model keeps for itself, sent after all messages; empty for none.
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
    /// A layer has changed: its new text is added as by [`Op::Notice`].
    Remind(Layer),
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
            Op::Update { index, message } => self.incremental[within(index, length)?] = message,
            Op::Insert { index, message } => {
                self.incremental.insert(within(index, length + 1)?, message);
            }
            Op::Remove { index } => drop(self.incremental.remove(within(index, length)?)),
            Op::Pop => drop(self.incremental.pop()),
            Op::Retain(role) => self.incremental.retain(|message| message.role == role),
            Op::Clear => self.incremental.clear(),
            Op::Compact { messages, summary } => {
                let end = within(messages, length + 1)?;
                drop(self.incremental.drain(..end));
                self.compressed.push(summary);
            }
            Op::SetLayer(layer) => {
                self.changed.retain(|other| other.kind != layer.kind);
                set(&mut self.system, layer);
            }
            Op::Remind(layer) => {
                self.remind(Part::Text(prompt::reminder(&layer)));
                set(&mut self.changed, layer);
            }
            Op::Notice(text) => self.remind(Part::Text(text)),
            Op::SetWindow(_) => {}
        }
        Ok(())
    }

    fn remind(&mut self, part: Part) {
        match self.incremental.last_mut() {
            Some(last) if last.role == Role::User => last.parts.push(part),
            _ => self.incremental.push(Message {
                role: Role::User,
                parts: vec![part],
            }),
        }
    }

    /// What the model was last sent as this layer; none if nothing was.
    pub fn layer(&self, kind: LayerKind) -> Option<&str> {
        let mut newest = self.changed.iter().chain(&self.system);
        let layer = newest.find(|layer| layer.kind == kind)?;
        Some(&layer.text)
    }

    /// Adds what was said in a turn, with the layers that its model was reminded of.
    pub(crate) fn take_in(&mut self, turn: Self) {
        self.incremental.extend(turn.incremental);
        for layer in turn.changed {
            set(&mut self.changed, layer);
        }
    }

    /// All messages of a request. The first [`Conversation::stable`] of them never change.
    pub fn messages(&self) -> Vec<Message> {
        let layers = self.system.iter().map(|layer| layer.text.trim_end());
        let layers: Vec<_> = layers.filter(|text| !text.is_empty()).collect();
        let system = (!layers.is_empty()).then(|| Message::system(layers.join("\n\n")));
        let zones = [&self.immutable, &self.compressed, &self.incremental];
        let said = zones.into_iter().flatten().cloned();
        let scratch = prompt::scratch(&self.scratch).map(Message::user);
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
