//! Notices: the changes of a context's messages, for those who follow it.

use super::Session;
use crate::conversation::{ConversationRef, Op};
use crate::event::{ContextChanged, Event, EventKind};
use crate::message::{Message, Role};
use crate::transitions::IllegalTransition;

/// A change of the messages of a context. Indices count the incremental messages, from 0.
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
}

impl Session {
    /// Folds the event numbered `seq`, and returns the changes of the messages of one context.
    ///
    /// An operation gives one notice. Each message that is added at the end gives one of its own: also
    /// those of a turn that completes, and the goal and the answer of a run with a plan.
    ///
    /// # Errors
    /// The event does not fit; the state is then of no use any more.
    pub fn apply_noting(
        &mut self,
        seq: u64,
        event: &Event,
        context: &str,
    ) -> Result<Vec<Notice>, IllegalTransition> {
        let noted = self.contexts.get(context).and_then(|known| {
            let is_it = |changed: &&ContextChanged| {
                matches!(&changed.conversation, ConversationRef::Context(name) if name == context)
            };
            let EventKind::ContextChanged(changed) = &event.kind else {
                return None;
            };
            let changed = Some(changed).filter(is_it)?;
            let ops = self.ops_of(changed, event.answers);
            Some(notices(&known.conversation.incremental, &ops))
        });
        let length = |session: &Self| {
            let known = session.contexts.get(context);
            known.map_or(0, |known| known.conversation.incremental.len())
        };
        let before = length(self);
        self.apply(seq, event)?;
        if let Some(noted) = noted {
            return Ok(noted);
        }
        let known = self.contexts.get(context);
        let messages = known.map_or(&[][..], |known| &known.conversation.incremental);
        let added = messages.iter().skip(before).cloned();
        Ok(added.map(Notice::Appended).collect())
    }
}

/// The notices of changes that are valid for these messages.
fn notices(messages: &[Message], ops: &[Op]) -> Vec<Notice> {
    let mut messages: Vec<&Message> = messages.iter().collect();
    let mut notices = Vec::with_capacity(ops.len());
    for op in ops {
        notices.extend(notice(&mut messages, op));
    }
    notices
}

/// Of one change. The messages are then as they are after it, except for a reminder, which only attempts
/// have, and a compaction, which has no notice.
fn notice<'m>(messages: &mut Vec<&'m Message>, op: &'m Op) -> Option<Notice> {
    Some(match op {
        Op::Append(message) => {
            messages.push(message);
            Notice::Appended(message.clone())
        }
        Op::Update { index, message } => {
            *messages.get_mut(*index as usize)? = message;
            let (index, message) = (*index, message.clone());
            Notice::Updated { index, message }
        }
        Op::Insert { index, message } => {
            let at = (*index as usize).min(messages.len());
            messages.insert(at, message);
            let (index, message) = (*index, message.clone());
            Notice::Inserted { index, message }
        }
        Op::Remove { index } => {
            messages.get(*index as usize)?;
            messages.remove(*index as usize);
            Notice::Removed { index: *index }
        }
        Op::Pop => Notice::Popped(messages.pop().cloned()),
        Op::Retain(role) => {
            messages.retain(|message| message.role == *role);
            Notice::Retained(*role)
        }
        Op::Clear => {
            messages.clear();
            Notice::Cleared
        }
        Op::Compact { messages: gone, .. } => {
            messages.drain(..(*gone as usize).min(messages.len()));
            return None;
        }
        Op::SetLayer(_) | Op::Remind(_) | Op::Notice(_) => return None,
    })
}
