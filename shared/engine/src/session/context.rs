//! Contexts: the named conversations of a session.

use super::{Apply, EffectfulCall, Envelope, SeenFiles, Session, Switched, name_of};
use crate::command::{Command, ContextOp, CreateContext, WhenFull};
use crate::conversation::{CompactedMessages, Conversation, ConversationRef, Entry, Op};
use crate::event::{AgentUse, ContextChanged, ContextCompacted, NotesFrame};
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
    /// Its agent; none for the plain default. A turn that begins brings the newest definition.
    pub agent: Option<AgentUse>,
    /// Its agent before a switch, of which no completed turn was told. It stays with a switch back: layers may
    /// have been written for the agent in between.
    pub switched: Option<Switched>,
    /// Its zones, with the system prompt once that was written. Its turn works behind the mark. It has no
    /// scratch: see [`Context::notes`].
    pub conversation: Conversation,
    /// The notes that its model keeps for itself.
    pub notes: String,
    /// The words around the notes, in the last message of a request.
    pub notes_frame: NotesFrame,
    /// Bytes of its messages before the mark.
    pub bytes: u64,
    /// Turns that completed.
    pub turns: u32,
    /// Calls with side effects of turns that failed, of which no completed turn knows.
    pub lost_calls: Vec<EffectfulCall>,
    /// What happens when a turn becomes too long for its model; none for the default.
    pub when_full: Option<WhenFull>,
    /// Messages were compacted, and no completed turn was told of it.
    pub untold_compaction: bool,
    /// The files that models have seen in it. It forgets them with a change that takes out a message.
    pub files: SeenFiles,
}

impl Context {
    /// The messages of its zones before the mark, in the order of a request, the window left aside.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let Conversation {
            immutable,
            compressed,
            incremental,
            ..
        } = &self.conversation;
        let entries = immutable.iter().chain(compressed).chain(incremental);
        entries.map(|entry| &*entry.message)
    }

    /// How many messages its zones have before the mark.
    pub fn len(&self) -> usize {
        let it = &self.conversation;
        it.immutable.len() + it.compressed.len() + it.incremental.len()
    }

    /// Its zones have no message before the mark.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the model of its turn is sent through its last reply. If it is asked for a summary of messages
    /// before the mark, it gets these messages also where no window shows them.
    pub(super) fn of_turn(&self, summed_up: Option<&CompactedMessages>) -> Conversation {
        let it = &self.conversation;
        let shown = it.in_window();
        let incremental: &[Entry] = match summed_up.filter(|messages| !messages.behind_mark) {
            Some(_) => &it.incremental,
            None => shown,
        };
        // What was counted are the messages of the window.
        let is_measured = incremental.len() == shown.len();
        Conversation {
            system: it.system.clone(),
            immutable: it.immutable.clone(),
            compressed: it.compressed.clone(),
            incremental: incremental.to_vec(),
            behind: it.behind.clone(),
            scratch: self.notes_frame.around(&self.notes),
            last_number: it.last_number,
            measured: it.measured.clone().filter(|_| is_measured),
            ..Conversation::default()
        }
    }

    /// The context that the command describes.
    pub(crate) fn new(create: &CreateContext) -> Self {
        let immutable = create.immutable.iter().cloned();
        let mut context = Self {
            prompt: create.prompt.clone(),
            conversation: Conversation {
                window: create.window,
                ..Conversation::beginning_with(immutable)
            },
            when_full: create.when_full,
            ..Self::default()
        };
        context.count_bytes();
        context
    }

    /// Makes changes that count as one: what a client asks for, and layers of the system prompt.
    fn change(&mut self, asked: Vec<ContextOp>, layers: Vec<Op>) -> Applied {
        for asked in asked {
            if let ContextOp::SetWhenFull(when_full) = asked {
                self.when_full = when_full;
            }
            let (bytes, takes_out) = (self.bytes_after(&asked), takes_out(&asked));
            if let Some(op) = asked.by_number(&self.conversation.incremental)? {
                self.conversation.apply_before_mark(op)?;
            }
            if takes_out {
                self.files = SeenFiles::default();
            }
            match bytes {
                Some(bytes) => self.bytes = bytes,
                None => self.count_bytes(),
            }
        }
        for op in layers {
            self.conversation.apply_before_mark(op)?;
        }
        Ok(())
    }

    /// Messages before the mark give way to one, and the next turn is to know. `name` is its own.
    pub(super) fn compact(&mut self, name: &str, compacted: &ContextCompacted) -> Applied {
        let ContextCompacted {
            messages,
            kind,
            text,
            version,
            ..
        } = compacted;
        self.conversation.compact(messages, *kind, text.clone())?;
        self.count_bytes();
        self.untold_compaction = true;
        self.version += 1;
        self.check_version(name, *version)
    }

    /// It has another agent from its next turn on. A model that was not told of an earlier switch knows the
    /// agent before that one.
    pub(crate) fn switch_agent(&mut self, agent: Option<AgentUse>) {
        let is_other = name_of(agent.as_ref()) != name_of(self.agent.as_ref());
        let from = std::mem::replace(&mut self.agent, agent);
        if is_other && self.switched.is_none() {
            self.switched = Some(Switched { from });
        }
    }

    /// It has this agent, whose definition has this window.
    pub(crate) fn set_agent(&mut self, agent: Option<AgentUse>, window: Option<u32>) {
        self.agent = agent;
        self.conversation.use_agent_window(window);
    }

    /// The turn that was to tell of a switch failed, so its model knows the agent before that one.
    pub(super) fn tell_switch_again(&mut self, switched: Option<Switched>) {
        self.switched = switched.or(self.switched.take());
    }

    fn check_version(&self, name: &str, expected: u64) -> Applied {
        if self.version == expected {
            return Ok(());
        }
        let what = format_args!("version {expected} of context {name}");
        Err(IllegalTransition::not_allowed(what, self.version, "next"))
    }

    /// Bytes of the messages after a change of single ones. None for a change that looks at many.
    fn bytes_after(&self, op: &ContextOp) -> Option<u64> {
        let said = &self.conversation.incremental;
        let at = |index: u32| said.get(index as usize).map_or(0, bytes_of);
        let (more, less) = match op {
            ContextOp::Append(message) | ContextOp::Insert { message, .. } => (message.bytes(), 0),
            ContextOp::Update { index, message } => (message.bytes(), at(*index)),
            ContextOp::Remove { index } => (0, at(*index)),
            ContextOp::Pop => (0, said.last().map_or(0, bytes_of)),
            ContextOp::SetWindow(_) | ContextOp::SetWhenFull(_) => (0, 0),
            ContextOp::Retain(_) | ContextOp::Clear => return None,
        };
        Some(self.bytes.saturating_add(more).saturating_sub(less))
    }

    fn count_bytes(&mut self) {
        self.bytes = self.messages().map(Message::bytes).sum();
    }

    /// Bytes of the messages behind the mark.
    pub(crate) fn bytes_behind(&self) -> u64 {
        self.conversation.behind.iter().map(bytes_of).sum()
    }

    /// Its turn ends. The messages of the turn through this number stay, none with 0, and `further` ones follow
    /// them.
    pub(super) fn end_turn(&mut self, kept_through: u32, further: Vec<Message>) -> Applied {
        let kept = self.conversation.move_mark(kept_through)?;
        if !kept.is_empty() {
            self.bytes += kept.iter().map(bytes_of).sum::<u64>();
            self.version += 1;
        }
        for message in further {
            self.bytes += message.bytes();
            self.conversation.apply_before_mark(Op::Append(message))?;
        }
        Ok(())
    }

    /// The messages of its turn stay, and with them what its model was told, wrote down and saw.
    pub(super) fn keep_turn(&mut self, notes: String, frame: Option<NotesFrame>, files: SeenFiles) {
        self.lost_calls.clear();
        self.notes = notes;
        if let Some(frame) = frame {
            self.notes_frame = frame;
        }
        self.files.take_in(files);
    }

    /// Its turn has completed, and its messages stay.
    pub(super) fn complete_turn(&mut self) {
        self.untold_compaction = false;
        self.turns += 1;
    }

    /// Keeps the newest calls of a turn that failed, for the next one.
    pub(super) fn lose(&mut self, calls: Vec<EffectfulCall>) {
        self.lost_calls.extend(calls);
        let before = self.lost_calls.len().saturating_sub(MOST_LOST_CALLS);
        self.lost_calls.drain(..before);
    }

    /// A run with a plan has reached its goal. A goal or an answer that says nothing is no message.
    pub(super) fn take_in_run(&mut self, goal: &str, answer: &str) -> Applied {
        let said = [Message::user(goal), Message::assistant(answer, Vec::new())];
        for message in said {
            if !message.text().trim().is_empty() {
                self.bytes += message.bytes();
                self.conversation.apply_before_mark(Op::Append(message))?;
            }
        }
        self.version += 1;
        Ok(())
    }
}

/// A message may be gone after the change, and with it what a model has seen.
fn takes_out(op: &ContextOp) -> bool {
    match op {
        ContextOp::Update { .. }
        | ContextOp::Remove { .. }
        | ContextOp::Pop
        | ContextOp::Retain(_)
        | ContextOp::Clear => true,
        ContextOp::Append(_)
        | ContextOp::Insert { .. }
        | ContextOp::SetWindow(_)
        | ContextOp::SetWhenFull(_) => false,
    }
}

fn bytes_of(entry: &Entry) -> u64 {
    entry.message.bytes()
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

    /// What the command that an event answers asks of a context. `answers` is the event's, and the state is
    /// the one before the event.
    pub(super) fn asked_of_context(&self, answers: u64) -> &[ContextOp] {
        let received = self.commands.get(&answers);
        match received.map(|received| &received.command) {
            Some(Command::ChangeContext(change)) => &change.ops,
            _ => &[],
        }
    }
}

impl Apply for ContextChanged {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let ops = session.with_texts(self.ops.clone())?;
        match &self.conversation {
            ConversationRef::Attempt(attempt) => {
                let received = session.commands.get(&envelope.answers);
                let steering = received.and_then(|received| match &received.command {
                    Command::SendMessage(sent) => Some(Op::Append(sent.message.clone())),
                    _ => None,
                });
                let ops = steering.into_iter().chain(ops);
                session.attempt_mut(*attempt)?.say(ops, self.is_steering);
                Ok(())
            }
            ConversationRef::Context(name) => {
                let received = session.commands.get(&envelope.answers);
                let command = received.map(|received| &received.command);
                // There is nothing to compact, and so no change.
                let is_change = !matches!(command, Some(Command::CompactContext(_)));
                let is_of_client = matches!(command, Some(Command::ChangeContext(_)));
                let asked = session.asked_of_context(envelope.answers).to_vec();
                let context = session.context_mut(name)?;
                context.change(asked, ops)?;
                context.version += u64::from(is_change);
                context.check_version(name, self.version)?;
                match is_of_client {
                    true => session.compact_anew(name),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Every session begins with one.
pub(super) fn main_alone() -> BTreeMap<String, Box<Context>> {
    BTreeMap::from([(MAIN.to_owned(), Box::default())])
}
