//! The changes of a conversation, and how it takes them.

use super::{Conversation, Entry, KnownLayer, Layer, LayerKind, Reminder, place};
use crate::message::{Message, Notice, Part, Role};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A change of a conversation, on one side of its mark. It names messages by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Adds a message at the end.
    Append(Message),
    /// Puts another message in the place of one. It gets the same number.
    Update {
        /// The number of the message.
        number: u32,
        /// The new one.
        message: Message,
    },
    /// Puts a message before another one, or at the end.
    Insert {
        /// The number of the message that follows it; none for the end.
        before: Option<u32>,
        /// The new one.
        message: Message,
    },
    /// Takes a message out.
    Remove {
        /// Its number.
        number: u32,
    },
    /// Takes the last message out, if there is one.
    Pop,
    /// Takes out all messages of other roles.
    Retain(Role),
    /// Takes all messages out.
    Clear,
    /// Writes a layer of the system prompt.
    SetLayer(Layer),
    /// Writes a layer of the system prompt whose text the session has. Folding puts [`Op::SetLayer`] in
    /// its place, so no conversation meets it.
    UseLayer(KnownLayer),
    /// A layer has changed: a text about it is added as by [`Op::Notice`].
    Remind(Reminder),
    /// Tells the model something beside what the person says: a [`Part::Notice`] that is added to the last
    /// message if that is the user's, else as a message of the user.
    Notice(String),
    /// Sends so many of the latest messages before the mark; none for all. It changes no message.
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

/// A side of the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Behind,
}

impl Conversation {
    /// Applies a change of an attempt, which is behind the mark.
    ///
    /// # Errors
    /// A number names no message there; nothing has changed then.
    pub fn apply(&mut self, op: Op) -> Applied {
        self.change(Side::Behind, op)
    }

    /// Applies a change of a context, which is before the mark.
    ///
    /// # Errors
    /// A number names no message there; nothing has changed then.
    pub(crate) fn apply_before_mark(&mut self, op: Op) -> Applied {
        self.change(Side::Before, op)
    }

    fn change(&mut self, side: Side, op: Op) -> Applied {
        let keeps_measured = self.keeps_measured(side, &op);
        match op {
            Op::Append(message) => self.insert(side, None, message)?,
            Op::Insert { before, message } => self.insert(side, before, message)?,
            Op::Update { number, message } => {
                let at = place(self.side(side), number)?;
                let entry = &mut self.side(side)[at];
                entry.message = Arc::new(message);
                entry.compaction = None;
                self.reminders.forget([number]);
            }
            Op::Remove { number } => {
                let at = place(self.side(side), number)?;
                drop(self.side(side).remove(at));
                self.reminders.forget([number]);
            }
            Op::Pop => {
                let gone = self.side(side).pop();
                self.reminders.forget(gone.map(|entry| entry.number));
            }
            Op::Retain(role) => self.keep(side, |message| message.role == role),
            Op::Clear => self.keep(side, |_| false),
            Op::SetLayer(layer) => set(&mut self.system, layer),
            Op::UseLayer(KnownLayer { number, .. }) => {
                return Err(IllegalTransition::missing(format_args!("text {number}")));
            }
            Op::Remind(Reminder { text, of }) => {
                let is_of_workspace = of.kind() == LayerKind::Instructions;
                let number = self.remind(side, text, is_of_workspace);
                self.reminders.note(number, of);
            }
            Op::Notice(text) => _ = self.remind(side, text, false),
            Op::SetWindow(window) => self.window = window,
        }
        if !keeps_measured {
            self.measured = None;
        }
        Ok(())
    }

    fn side(&mut self, side: Side) -> &mut Vec<Entry> {
        match side {
            Side::Before => &mut self.incremental,
            Side::Behind => &mut self.behind,
        }
    }

    fn insert(&mut self, side: Side, before: Option<u32>, message: Message) -> Applied {
        let at = match before {
            Some(number) => place(self.side(side), number)?,
            None => self.side(side).len(),
        };
        let entry = self.numbered(message);
        self.side(side).insert(at, entry);
        Ok(())
    }

    /// Takes the other messages out.
    fn keep(&mut self, side: Side, is_kept: impl Fn(&Message) -> bool) {
        let mut gone = Vec::new();
        self.side(side).retain(|entry| {
            let is_kept = is_kept(&entry.message);
            if !is_kept {
                gone.push(entry.number);
            }
            is_kept
        });
        self.reminders.forget(gone);
    }

    /// Adds a notice to the last message if that is the user's, else as a message of the user. Returns the
    /// number of the message.
    fn remind(&mut self, side: Side, text: String, is_of_workspace: bool) -> u32 {
        let part = Part::Notice(Notice {
            text,
            is_of_workspace,
        });
        match self.side(side).last_mut() {
            Some(last) if last.message.role == Role::User => {
                Arc::make_mut(&mut last.message).parts.push(part);
                last.number
            }
            _ => {
                let entry = self.numbered(Message {
                    role: Role::User,
                    parts: vec![part],
                });
                let number = entry.number;
                self.side(side).push(entry);
                number
            }
        }
    }
}

/// Layers are few, and stand in the order of their kinds.
fn set(layers: &mut Vec<Layer>, layer: Layer) {
    match layers.binary_search_by_key(&layer.kind, |other| other.kind) {
        Ok(at) => layers[at] = layer,
        Err(at) => layers.insert(at, layer),
    }
}
