//! Events about a step and its attempts.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::{AttemptRef, Effect};
use crate::conversation::{ConversationRef, Op};
use crate::escape::lines;
use crate::failure::Failure;
use crate::message::Message;
use crate::session::StepNo;
use serde::{Deserialize, Serialize};

/// An attempt at a step began.
#[derive(Debug, Clone, PartialEq)]
pub struct StepStarted {
    pub attempt: AttemptRef,
    pub tool_effect: Option<Effect>,
    pub tool_digest: String,
    pub tool_previews: bool,
    pub tool_hooked: bool,
    pub context: String,
}

/// The conversation of an attempt, or a context, changed otherwise than by a reply or a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextChanged {
    pub conversation: ConversationRef,
    pub ops: Vec<Op>,
    pub version: u64,
    pub popped: Option<Message>,
    pub is_steering: bool,
}

impl ContextChanged {
    /// Changes of an attempt's conversation.
    pub(crate) fn of_attempt(attempt: AttemptRef, ops: Vec<Op>) -> Self {
        Self {
            conversation: ConversationRef::Attempt(attempt),
            ops,
            version: 0,
            popped: None,
            is_steering: false,
        }
    }

    /// Changes of a context, which has this version from then on.
    pub(crate) fn of_context(name: &str, version: u64, ops: Vec<Op>) -> Self {
        Self {
            conversation: ConversationRef::Context(name.to_owned()),
            version,
            ..Self::of_attempt(AttemptRef::default(), ops)
        }
    }

    /// The owner itself writes it for the model of an attempt; no person steers by it.
    pub(crate) fn is_of_owner(&self) -> bool {
        matches!(self.conversation, ConversationRef::Attempt(_)) && !self.is_steering
    }
}

/// An attempt continues after its owner or its executor was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptContinued {
    pub attempt: AttemptRef,
}

/// A step ended well.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCompleted {
    pub attempt: AttemptRef,
    pub response: String,
    pub summary: String,
}

impl StepCompleted {
    /// The end of a turn: its last reply is the response.
    pub(crate) fn of_turn(attempt: AttemptRef) -> Self {
        Self {
            attempt,
            response: String::new(),
            summary: String::new(),
        }
    }
}

/// A step ended badly.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFailed {
    pub attempt: AttemptRef,
    pub failure: Failure,
}

/// A step will not be done.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSkipped {
    pub run: u32,
    pub step: StepNo,
    pub reason: String,
    pub by_person: bool,
    pub hook: String,
}

/// The model split its step.
#[derive(Debug, Clone, PartialEq)]
pub struct SubGoalAdded {
    pub attempt: AttemptRef,
    pub index: u32,
    pub text: String,
}

/// The model turned to one part of its step.
#[derive(Debug, Clone, PartialEq)]
pub struct SubGoalFocused {
    pub attempt: AttemptRef,
    pub index: u32,
}

/// A part of the step is done.
#[derive(Debug, Clone, PartialEq)]
pub struct SubGoalCompleted {
    pub attempt: AttemptRef,
    pub index: u32,
    pub summary: String,
}

/// The model gave a part of its step up.
#[derive(Debug, Clone, PartialEq)]
pub struct SubGoalDropped {
    pub attempt: AttemptRef,
    pub index: u32,
}

/// The model wrote a note.
#[derive(Debug, Clone, PartialEq)]
pub struct ScratchpadWritten {
    pub attempt: AttemptRef,
    pub text: String,
    pub replaces: bool,
    pub frame: Option<NotesFrame>,
}

/// The words around the notes of a context, in the last message of its requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesFrame {
    pub before: String,
    pub after: String,
}

impl NotesFrame {
    /// The message with the notes; empty without any.
    pub(crate) fn around(&self, notes: &str) -> String {
        match notes.trim_end() {
            "" => String::new(),
            notes => format!("{}{}{}", self.before, lines(notes), self.after),
        }
    }
}
