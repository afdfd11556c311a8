//! Messages that a conversation has had, and that requests do not have any more.
//!
//! There are two kinds. A compaction puts one message in the place of others, and the state forgets those: a fold of
//! the journal finds them again. Messages before the window of a context are in the state, and no request has them.
//! A message that a client removed or replaced is neither, and so is one of a turn that kept nothing.

use super::Session;
use crate::conversation::{ConversationRef, Entry};
use crate::event::{AttemptRef, ContextCompacted, EventKind};
use crate::message::{Message, Part, Role};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The state tool that finds pages and such messages.
pub(crate) const RETRIEVE: &str = "retrieve";
/// The state tool that saves a page.
pub(crate) const SAVE_KNOWLEDGE: &str = "save_knowledge";

/// State tools that models are offered where they can be of use, and that are answered everywhere.
pub const KNOWLEDGE_TOOLS: [&str; 2] = [RETRIEVE, SAVE_KNOWLEDGE];

/// What the requests of an attempt do not have of its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// Whose conversation it is.
    pub conversation: ConversationRef,
    /// The messages before its window.
    pub before_window: Vec<Entry>,
    /// The numbers of its messages that stand for older ones.
    pub stand_ins: BTreeSet<u32>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its number in the conversation.
    pub number: u32,
    /// Who said it.
    pub role: Role,
    /// Its text, its calls and the results of calls.
    pub text: Arc<str>,
}

/// The messages that compactions replaced, as a fold of the journal finds them. Texts are kept up to a bound, and the
/// ones that were replaced first go first.
#[derive(Debug)]
pub struct Originals {
    most_bytes: usize,
    bytes: usize,
    /// In the order in which they were replaced.
    kept: VecDeque<(ConversationRef, Remembered)>,
    /// Of each message that was replaced, the number of the one that stands for it. That one may have been replaced
    /// itself.
    replaced_by: HashMap<ConversationRef, HashMap<u32, u32>>,
}

impl Originals {
    /// None yet. At most so many bytes of text are kept.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            bytes: 0,
            kept: VecDeque::new(),
            replaced_by: HashMap::new(),
        }
    }

    /// Bytes of the texts that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes the messages that an event replaces. The state is the one before the event.
    pub fn note(&mut self, session: &Session, event: &EventKind) {
        match event {
            EventKind::ContextCompacted(compacted) => self.note_compaction(session, compacted),
            // A new context of the name numbers its messages anew.
            EventKind::ContextDestroyed(destroyed) => {
                self.forget(&ConversationRef::Context(destroyed.context.clone()));
            }
            _ => {}
        }
    }

    /// Those for which a message of the conversation stands, in the order in which they were replaced.
    pub fn of<'a>(&'a self, unsent: &'a Unsent) -> impl Iterator<Item = &'a Remembered> {
        let replaced_by = self.replaced_by.get(&unsent.conversation);
        let has_stand_in = move |number: u32| {
            replaced_by.is_some_and(|by| unsent.stand_ins.contains(&stand_in(by, number)))
        };
        let kept = self.kept.iter();
        let kept = kept.filter(move |(of, _)| *of == unsent.conversation);
        kept.filter(move |(_, message)| has_stand_in(message.number))
            .map(|(_, message)| message)
    }

    fn note_compaction(&mut self, session: &Session, compacted: &ContextCompacted) {
        let attempt = compacted.attempt;
        let Some(said) = session.conversation_of(attempt) else {
            return;
        };
        // The fold refuses an event that names other messages.
        let Ok(gone) = said.replaced_by(compacted.kind, &compacted.messages) else {
            return;
        };
        let conversation = session.conversation_ref(attempt);
        let by = said.last_number + 1;
        let replaced_by = self.replaced_by.entry(conversation.clone()).or_default();
        // A client has put such a message in the place of one that stood for others.
        let plain = gone.iter().filter(|entry| entry.compaction.is_none());
        let plain: HashSet<u32> = plain.map(|entry| entry.number).collect();
        replaced_by.retain(|_, by| !plain.contains(by));
        replaced_by.extend(gone.iter().map(|entry| (entry.number, by)));
        for message in remembered(gone) {
            self.bytes += message.text.len();
            self.kept.push_back((conversation.clone(), message));
        }
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        while self.bytes > self.most_bytes {
            let Some((conversation, message)) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= message.text.len();
            if let Some(replaced_by) = self.replaced_by.get_mut(&conversation) {
                replaced_by.remove(&message.number);
            }
        }
    }

    fn forget(&mut self, conversation: &ConversationRef) {
        self.replaced_by.remove(conversation);
        self.kept.retain(|(of, _)| of != conversation);
        let texts = self.kept.iter().map(|(_, message)| message.text.len());
        self.bytes = texts.sum();
    }
}

/// The number of the message that stands for the message of this number at last. A stand-in has a higher number than
/// what it replaces, so this ends.
fn stand_in(replaced_by: &HashMap<u32, u32>, number: u32) -> u32 {
    let mut number = number;
    while let Some(by) = replaced_by.get(&number) {
        number = *by;
    }
    number
}

impl Unsent {
    /// The messages before the window that say something.
    pub fn said_before_window(&self) -> impl Iterator<Item = Remembered> {
        remembered(&self.before_window)
    }
}

impl Session {
    /// What the requests of an attempt do not have of its conversation. None once the attempt is over.
    pub fn unsent(&self, attempt: AttemptRef) -> Option<Unsent> {
        self.attempt(attempt)?;
        let said = self.conversation_of(attempt)?;
        let before = said.incremental.len() - said.sent_in_window().len();
        let zones = [&said.compressed, &said.incremental, &said.behind];
        let entries = zones.into_iter().flatten();
        let stand_ins = entries.filter(|entry| entry.compaction.is_some());
        Some(Unsent {
            conversation: self.conversation_ref(attempt),
            before_window: said.incremental[..before].to_vec(),
            stand_ins: stand_ins.map(|entry| entry.number).collect(),
        })
    }

    /// The requests of an attempt may lack messages of its conversation: it has a window, or was compacted.
    pub fn may_lack_messages(&self, attempt: AttemptRef) -> bool {
        let said = self.conversation_of(attempt);
        said.is_some_and(|said| said.effective_window().is_some() || !said.compressed.is_empty())
    }

    /// The list of the attempt's agent, or the options of its turn, have the tool by its whole name.
    pub fn names_tool(&self, attempt: AttemptRef, tool: &str) -> bool {
        let agent = self.agent_of(attempt);
        let listed = agent.and_then(|agent| agent.definition.tools.as_deref());
        let turn = self.turn(attempt);
        let asked = turn.and_then(|turn| turn.options.tools.as_deref());
        let mut names = [listed, asked].into_iter().flatten().flatten();
        names.any(|name| name == tool)
    }

    fn conversation_ref(&self, attempt: AttemptRef) -> ConversationRef {
        match self.turn(attempt) {
            Some(turn) => ConversationRef::Context(turn.context.clone()),
            None => ConversationRef::Attempt(attempt),
        }
    }
}

/// What the messages say that a person, a model or a tool said. What stands for older messages is left out: those say
/// it themselves.
fn remembered<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
) -> impl Iterator<Item = Remembered> {
    let mut searches = HashSet::new();
    let entries = entries.into_iter();
    let said = entries.filter(|entry| entry.compaction.is_none());
    said.filter_map(move |entry| {
        let text = text_of(&entry.message, &mut searches);
        (!text.trim().is_empty()).then(|| Remembered {
            number: entry.number,
            role: entry.message.role,
            text: text.into(),
        })
    })
}

/// What a message says, without notices of Cairn, pictures and what only a provider reads. `searches` has the calls of
/// `retrieve` before it. They and their results are left out: else a search would find the searches before it, and
/// not what these found.
fn text_of(message: &Message, searches: &mut HashSet<String>) -> String {
    let mut texts = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => texts.push(text.clone()),
            Part::Call(call) if call.name == RETRIEVE => {
                searches.insert(call.id.clone());
            }
            Part::Call(call) => {
                searches.remove(&call.id);
                texts.push(format!("{} {}", call.name, call.arguments));
            }
            Part::Result(result) if searches.contains(&result.call_id) => {}
            Part::Result(result) => texts.push(result.text.clone()),
            Part::Media(_) | Part::Opaque(_) | Part::Notice(_) => {}
        }
    }
    texts.join("\n")
}

#[cfg(test)]
mod tests;
