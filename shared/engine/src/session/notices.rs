//! Notices: the changes of a context's messages, for those who follow it.

use super::Session;
use crate::command::ContextOp;
use crate::conversation::{CompactionKind, ConversationRef, Entry};
use crate::event::{ContextCompacted, Event, EventKind};
use crate::message::{Message, Role};
use crate::transitions::IllegalTransition;
use std::collections::BTreeMap;

/// A change of the messages of a context. Indices count the incremental messages before the mark, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A message was added at the end.
    Appended(Message),
    /// A message was replaced.
    Updated {
        /// Its index.
        index: u32,
        /// The new message.
        message: Message,
    },
    /// A message was inserted.
    Inserted {
        /// The index that it has.
        index: u32,
        /// The message.
        message: Message,
    },
    /// A message was removed.
    Removed {
        /// The index that it had.
        index: u32,
    },
    /// The last message was removed; none if there was none.
    Popped(Option<Message>),
    /// All messages of other roles were removed.
    Retained(Role),
    /// All messages were removed.
    Cleared,
    /// Older messages gave way to one, which joined the compressed messages.
    Compacted {
        /// The index of the last of them: all through this one are gone. None if only compressed messages gave
        /// way.
        through: Option<u32>,
        /// What stands for them.
        kind: CompactionKind,
        /// The message that stands for them.
        message: Message,
    },
}

/// What an event changes of a context that is there after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Its name.
    pub context: String,
    /// The version that it has then.
    pub version: u64,
    /// The changes of its messages, in order.
    pub notices: Vec<Notice>,
}

impl Session {
    /// Folds the event numbered `seq`, and returns the contexts that it changes or creates.
    ///
    /// An operation gives one notice, and so does a compaction. Each message that is added at the end gives
    /// one of its own: also those of a turn that completes, and the goal and the answer of a run with a plan.
    ///
    /// # Errors
    /// The event does not fit; the state is then of no use any more.
    pub fn apply_noting(
        &mut self,
        seq: u64,
        event: &Event,
    ) -> Result<Vec<Noted>, IllegalTransition> {
        let mut noted = self.noted(event);
        let before = self.contexts.iter().map(|(name, context)| {
            let length = context.conversation.incremental.len();
            (name.clone(), (context.version, length))
        });
        let before: BTreeMap<_, _> = before.collect();
        self.apply(seq, event)?;
        let mut changed = Vec::new();
        for (name, context) in &self.contexts {
            let known = before.get(name);
            let length = context.conversation.incremental.len();
            if known == Some(&(context.version, length)) {
                continue;
            }
            let notices = match noted.take_if(|(changed, _)| *changed == *name) {
                Some((_, notices)) => notices,
                None => {
                    let length = known.map_or(0, |(_, length)| *length);
                    let added = context.conversation.incremental.iter().skip(length);
                    added
                        .map(|entry| Notice::Appended(Message::clone(&entry.message)))
                        .collect()
                }
            };
            changed.push(Noted {
                context: name.clone(),
                version: context.version,
                notices,
            });
        }
        Ok(changed)
    }

    /// The context that the event changes by operations or by a compaction, and the notices of these. Indices
    /// are those before the event.
    fn noted(&self, event: &Event) -> Option<(String, Vec<Notice>)> {
        let changed = match &event.kind {
            EventKind::ContextChanged(changed) => changed,
            EventKind::ContextCompacted(compacted) => return self.noted_compaction(compacted),
            _ => return None,
        };
        let ConversationRef::Context(name) = &changed.conversation else {
            return None;
        };
        let known = self.contexts.get(name)?;
        let asked = self.asked_of_context(event.answers);
        let notices = notices(&known.conversation.incremental, asked);
        Some((name.clone(), notices))
    }

    /// What happens behind the mark is no change of the context.
    fn noted_compaction(&self, compacted: &ContextCompacted) -> Option<(String, Vec<Notice>)> {
        let (messages, kind) = (compacted.messages, compacted.kind);
        if messages.behind_mark {
            return None;
        }
        let name = &self.turn(compacted.attempt)?.context;
        let said = &self.contexts.get(name)?.conversation.incremental;
        let mut numbered = said.iter().zip(0..);
        let last = numbered.find(|(entry, _)| entry.number == messages.through);
        let notice = Notice::Compacted {
            through: last.map(|(_, index)| index),
            kind,
            message: kind.message(compacted.text.clone()),
        };
        Some((name.clone(), vec![notice]))
    }
}

/// The notices of changes that are valid for these messages.
fn notices(messages: &[Entry], asked: &[ContextOp]) -> Vec<Notice> {
    let mut messages: Vec<&Message> = messages.iter().map(|entry| &*entry.message).collect();
    let mut notices = Vec::with_capacity(asked.len());
    for op in asked {
        notices.extend(notice(&mut messages, op));
    }
    notices
}

/// Of one change. The messages are then as they are after it. One that changes no message has none.
fn notice<'m>(messages: &mut Vec<&'m Message>, op: &'m ContextOp) -> Option<Notice> {
    Some(match op {
        ContextOp::Append(message) => {
            messages.push(message);
            Notice::Appended(message.clone())
        }
        ContextOp::Update { index, message } => {
            *messages.get_mut(*index as usize)? = message;
            let (index, message) = (*index, message.clone());
            Notice::Updated { index, message }
        }
        ContextOp::Insert { index, message } => {
            let at = (*index as usize).min(messages.len());
            messages.insert(at, message);
            let (index, message) = (*index, message.clone());
            Notice::Inserted { index, message }
        }
        ContextOp::Remove { index } => {
            messages.get(*index as usize)?;
            messages.remove(*index as usize);
            Notice::Removed { index: *index }
        }
        ContextOp::Pop => Notice::Popped(messages.pop().cloned()),
        ContextOp::Retain(role) => {
            messages.retain(|message| message.role == *role);
            Notice::Retained(*role)
        }
        ContextOp::Clear => {
            messages.clear();
            Notice::Cleared
        }
        ContextOp::SetWindow(_) | ContextOp::SetWhenFull(_) => return None,
    })
}
