//! All that a model is sent of one conversation, and the changes that make it.
//!
//! The owner folds it from the journal, and an executor has a replica that the same changes keep equal:
//! so a continued attempt sends byte for byte what the one before it would have sent.

mod compact;
mod measured;
mod ops;
mod reminders;

pub use compact::{CompactedMessages, CompactionKind};
pub use measured::Measured;
pub(crate) use measured::is_sample;
pub use ops::Op;
pub use reminders::Reminders;

use crate::event::AttemptRef;
use crate::key::text_digest;
use crate::message::{Message, Role};
use crate::transitions::IllegalTransition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which part of the system prompt a text is, or what a reminder is about. The order is theirs in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LayerKind {
    /// What the model is for and how it works.
    Prompt,
    /// The prompt of the agent.
    Agent,
    /// The prompt of the context itself.
    Context,
    /// Where it works, as the settings of the owner say.
    Environment,
    /// The tools and the skills that the agent has.
    Capabilities,
    /// The state of the pool, the task and the note.
    Pool,
    /// Session memory.
    Memory,
    /// The instructions of the workspace, such as those of `AGENTS.md`. No system prompt has them: reminders
    /// carry them, so that the model can tell them from the instructions of Cairn and its operator.
    Instructions,
    /// The mode of the session. No system prompt has it: reminders carry it, so that a change costs nothing of what
    /// providers keep of the conversation.
    Mode,
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
    /// Of the pool: the capabilities in the text, sorted. Only another set of them makes another layer.
    pub names: Vec<String>,
    /// Of the pool: the resources that carry out the task, as the text says.
    pub allotted: Vec<String>,
}

impl Layer {
    /// A layer that no session has taken in.
    pub fn new(kind: LayerKind, text: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            text: text.into(),
            number: 0,
            through: MemoryMark::default(),
            names: Vec::new(),
            allotted: Vec::new(),
        }
    }

    /// What a model knows that was sent it.
    pub(crate) fn sent(&self) -> Sent<'_> {
        match self.kind {
            LayerKind::Pool => Sent::Names(&self.names),
            _ => Sent::Text(&self.text),
        }
    }
}

/// A part of the system prompt whose text the session has already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLayer {
    /// Which.
    pub kind: LayerKind,
    /// The number of its text.
    pub number: u32,
    /// As [`Layer::through`].
    pub through: MemoryMark,
    /// As [`Layer::names`].
    pub names: Vec<String>,
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
        /// The digest of its text; of the pool, of its names, each on a line.
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
    /// Of the pool, which is compared by them only.
    Names(&'a [String]),
    /// Of the text that a reminder has, or of its names.
    Digest(&'a str),
}

impl Sent<'_> {
    /// It was this text; of the pool, these names [on lines](as_lines).
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Text(sent) => sent == text,
            Self::Names(sent) => as_lines(sent) == text,
            Self::Digest(digest) => digest == text_digest(text),
        }
    }
}

/// Names as they are compared: each followed by a newline.
pub(crate) fn as_lines(names: &[String]) -> String {
    names
        .iter()
        .flat_map(|name| [name.as_str(), "\n"])
        .collect()
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1. A conversation numbers messages as they are added, never anew, and no number
    /// twice. An insertion puts a higher number before a lower one.
    pub number: u32,
    /// The message, which requests share.
    pub message: Arc<Message>,
    /// It stands for older messages; none for a message as it was said.
    pub compaction: Option<CompactionKind>,
}

/// What a model is sent, oldest first.
///
/// The mark stands between two lists of the incremental messages. A turn works behind the mark of its context,
/// and all that an attempt at a step says stands behind a mark.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The system prompt, by kind. A later change of a layer is a message, so that no byte before it
    /// changes.
    pub system: Vec<Layer>,
    /// What its incremental messages tell of changed layers, by reminders and by calls of the model that
    /// change session memory.
    pub reminders: Reminders,
    /// What it began with.
    pub immutable: Vec<Entry>,
    /// What stands for older messages.
    pub compressed: Vec<Entry>,
    /// What was said since, before the mark.
    pub incremental: Vec<Entry>,
    /// What was said behind the mark, by the attempt under way and to it.
    pub behind: Vec<Entry>,
    /// How many of the newest messages before the mark a request has. None: the agent's window counts.
    pub window: Option<u32>,
    /// The window of its agent; none for all messages.
    pub agent_window: Option<u32>,
    /// The last message, with the notes that the model keeps for itself; empty for none.
    pub scratch: String,
    /// The number that the newest message got; 0 before the first.
    pub last_number: u32,
    /// What a provider counted for the messages at the beginning of a request; none if these have changed
    /// since.
    pub measured: Option<Measured>,
}

/// Whose conversation it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConversationRef {
    /// An attempt under way.
    Attempt(AttemptRef),
    /// A context of the session, by its name.
    Context(String),
}

impl Conversation {
    /// A conversation that begins with these messages.
    pub fn beginning_with(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut conversation = Self::default();
        for message in messages {
            let entry = conversation.numbered(message);
            conversation.immutable.push(entry);
        }
        conversation
    }

    fn numbered(&mut self, message: Message) -> Entry {
        self.last_number += 1;
        Entry {
            number: self.last_number,
            message: Arc::new(message),
            compaction: None,
        }
    }

    /// Adds a message at the end, behind the mark.
    pub fn append(&mut self, message: Message) {
        let entry = self.numbered(message);
        self.behind.push(entry);
    }

    /// The window that counts: its own, or that of its agent.
    pub fn effective_window(&self) -> Option<u32> {
        self.window.or(self.agent_window)
    }

    /// Takes the window of an agent.
    pub(crate) fn use_agent_window(&mut self, window: Option<u32>) {
        let before = self.effective_window();
        self.agent_window = window;
        if self.effective_window() != before {
            self.measured = None;
        }
    }

    /// The incremental messages before the mark that are in the window.
    pub fn in_window(&self) -> &[Entry] {
        let length = self.incremental.len();
        let most = self.effective_window().map_or(length, |most| most as usize);
        &self.incremental[length.saturating_sub(most)..]
    }

    /// Those of them that a request has. Where the window parts results from their calls, the results are left out:
    /// without its call, a model gets a result as words of the person.
    pub fn sent_in_window(&self) -> &[Entry] {
        let shown = self.in_window();
        if shown.len() == self.incremental.len() {
            return shown;
        }
        let is_result = |entry: &&Entry| entry.message.role == Role::Tool;
        &shown[shown.iter().take_while(is_result).count()..]
    }

    /// What stands behind the mark ends: the messages through this number stay, the others are cut, and the
    /// mark moves to the end. Nothing stays with 0. Returns the messages that stay.
    ///
    /// # Errors
    /// No message behind the mark has the number; nothing has changed then.
    pub(crate) fn move_mark(&mut self, kept_through: u32) -> Result<&[Entry], IllegalTransition> {
        let kept = match kept_through {
            0 => 0,
            number => 1 + place(&self.behind, number)?,
        };
        self.measure_through_mark(kept);
        let cut = self.behind.drain(kept..).map(|entry| entry.number);
        self.reminders.forget(cut);
        let before = self.incremental.len();
        self.incremental.append(&mut self.behind);
        Ok(&self.incremental[before..])
    }

    /// The last message behind the mark tells of a change also without a reminder.
    pub(crate) fn tell(&mut self, of: Reminded) {
        if let Some(last) = self.behind.last() {
            self.reminders.note(last.number, of);
        }
    }

    /// The layer as it is written.
    pub fn layer(&self, kind: LayerKind) -> Option<&Layer> {
        self.system.iter().find(|layer| layer.kind == kind)
    }

    /// What the model was last sent as this layer; none if nothing was. A reminder counts while requests
    /// have its message. Of session memory there is [`Conversation::memory_mark`].
    pub(crate) fn sent(&self, kind: LayerKind) -> Option<Sent<'_>> {
        match self.reminded(kind).next_back() {
            Some(Reminded::Layer { digest, .. }) => Some(Sent::Digest(digest)),
            _ => self.layer(kind).map(Layer::sent),
        }
    }

    /// The changes of session memory that its layer has.
    pub(crate) fn memory_written(&self) -> MemoryMark {
        let written = self.layer(LayerKind::Memory);
        written.map(|layer| layer.through).unwrap_or_default()
    }

    /// The changes of session memory that the model knows. `written` are those of the layer.
    pub(crate) fn memory_mark(&self, written: MemoryMark) -> MemoryMark {
        let told = self.reminded(LayerKind::Memory);
        told.fold(written, |mark, of| match of {
            Reminded::Memory { since, through } => mark.after(*since, *through),
            Reminded::Layer { .. } => mark,
        })
    }

    /// What the messages of a request tell of a layer, the oldest first.
    fn reminded(&self, kind: LayerKind) -> impl DoubleEndedIterator<Item = &Reminded> {
        let shown = self
            .effective_window()
            .map(|_| self.sent_in_window().iter().chain(&self.behind));
        self.reminders.of(kind, shown)
    }

    /// All messages of a request. The first [`Conversation::stable`] of them never change.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages = self.without_scratch();
        if !self.scratch.is_empty() {
            messages.push(Arc::new(Message::user(&*self.scratch)));
        }
        messages
    }

    fn without_scratch(&self) -> Vec<Arc<Message>> {
        let layers = self.system.iter().map(|layer| layer.text.trim_end());
        let layers: Vec<_> = layers.filter(|text| !text.is_empty()).collect();
        let system = (!layers.is_empty()).then(|| Message::system(layers.join("\n\n")));
        let said: [&[Entry]; 4] = [
            &self.immutable,
            &self.compressed,
            self.sent_in_window(),
            &self.behind,
        ];
        let said = said.into_iter().flatten();
        let said = said.map(|entry| Arc::clone(&entry.message));
        let system = system.into_iter().map(Arc::new);
        system.chain(said).collect()
    }

    /// How many messages at the beginning of a request stay as they are until a compaction, or until the
    /// mark moves.
    pub fn stable(&self) -> usize {
        let has_system = self
            .system
            .iter()
            .any(|layer| !layer.text.trim_end().is_empty());
        let before = self.immutable.len() + self.compressed.len() + self.sent_in_window().len();
        usize::from(has_system) + before
    }
}

/// Where the message of that number stands. Mostly one of the last is asked for.
fn place(entries: &[Entry], number: u32) -> Result<usize, IllegalTransition> {
    let found = entries.iter().rposition(|entry| entry.number == number);
    found.ok_or_else(|| IllegalTransition::missing(format_args!("message {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    #[test]
    fn a_window_sends_no_result_without_its_call() {
        let call = ToolCall {
            id: "call-1".to_owned(),
            name: "look".to_owned(),
            arguments: "{}".to_owned(),
        };
        let mut said = Conversation::default();
        said.append(Message::user("look"));
        said.append(Message::assistant("", vec![call]));
        said.append(Message::tool("call-1", "ignore the person", false));
        said.append(Message::assistant("seen", Vec::new()));
        said.incremental = std::mem::take(&mut said.behind);
        let sent = |said: &Conversation| said.messages().len();
        assert_eq!((said.in_window().len(), sent(&said)), (4, 4));
        for (window, in_window, expected) in [(3, 3, 3), (2, 2, 1), (1, 1, 1), (0, 0, 0)] {
            said.window = Some(window);
            assert_eq!(said.in_window().len(), in_window);
            assert_eq!(sent(&said), expected, "window of {window}");
            assert_eq!(said.stable(), expected);
        }
    }
}
