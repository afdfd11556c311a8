//! Changes the messages of a context.

use super::Handle;
use super::submit_turn::full;
use crate::conversation::Op;
use crate::decide::{Decision, Rejection};
use crate::event::ContextChanged;
use crate::limits::{MAX_CONTEXT, MAX_EXTENSION};
use crate::message::{Message, Role};
use crate::session::Context;
use serde::{Deserialize, Serialize};

/// Change the incremental messages of a context, all at once or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeContext {
    /// Its name; empty for the active one.
    pub context: String,
    /// The version that the context must have; none for any.
    pub expected_version: Option<u64>,
    /// The changes, in order: of messages, not of layers.
    pub ops: Vec<Op>,
}

impl ChangeContext {
    fn check(&self, name: &str, context: &Context) -> Result<(), Rejection> {
        if let Some(expected) = self.expected_version
            && expected != context.version
        {
            let message = format!(
                "context '{name}' has version {}, and version {expected} was expected; read it again",
                context.version
            );
            return Err(Rejection::refused("VERSION_MISMATCH", message));
        }
        let added: u64 = self.ops.iter().filter_map(message_of).map(Message::bytes).sum();
        if added > MAX_EXTENSION {
            let message = format!("{added} bytes of messages are added; at most {MAX_EXTENSION} are allowed at once");
            return Err(Rejection::refused("LIMIT", message));
        }
        if context.bytes + added > MAX_CONTEXT {
            return Err(Rejection::refused("LIMIT", full(name, context.bytes + added)));
        }
        let mut length = context.conversation.incremental.len();
        for op in &self.ops {
            check_op(op, name, &mut length)?;
        }
        Ok(())
    }
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Append(message) | Op::Update { message, .. } | Op::Insert { message, .. } => Some(message),
        _ => None,
    }
}

/// The index of an op has to fit the length at its time.
fn check_op(op: &Op, name: &str, length: &mut usize) -> Result<(), Rejection> {
    if message_of(op).is_some_and(|message| message.role == Role::System) {
        let message = "a message of the role system is no part of a context; its system prompt is given when it is created";
        return Err(Rejection::refused("BAD_MESSAGE", message));
    }
    let within = |index: u32, end: usize| match (index as usize) < end {
        true => Ok(()),
        false => {
            let message = format!("index {index} is beyond context '{name}': allowed is less than {end}");
            Err(Rejection::refused("BAD_INDEX", message))
        }
    };
    match op {
        Op::Append(_) => *length += 1,
        Op::Update { index, .. } => within(*index, *length)?,
        Op::Insert { index, .. } => {
            within(*index, *length + 1)?;
            *length += 1;
        }
        Op::Remove { index } => {
            within(*index, *length)?;
            *length -= 1;
        }
        Op::Pop => *length = length.saturating_sub(1),
        // How many stay is not known before; no index follows these in one request.
        Op::Clear | Op::Retain(_) => *length = 0,
        Op::Compact { .. } | Op::SetLayer(_) | Op::Remind(_) | Op::Notice(_) => {
            let message = "only messages can be changed";
            return Err(Rejection::refused("BAD_MESSAGE", message));
        }
    }
    Ok(())
}

impl Handle for ChangeContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let name = decision.session.context_name(&self.context).to_owned();
        let context = decision.free_context(&name)?;
        self.check(&name, context)?;
        let last = context.conversation.incremental.last();
        let popped = last.filter(|_| self.ops.contains(&Op::Pop)).cloned();
        let version = context.version + 1;
        // The command itself has the changes.
        decision.answer(ContextChanged {
            popped,
            ..ContextChanged::of_context(&name, version, Vec::new())
        })
    }
}
