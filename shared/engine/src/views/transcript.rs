//! An attempt as the messages that its model was sent after the step context.

use crate::message::Message;
use crate::session::{Attempt, CallStatus};

/// Replies and results in order. A call that has no result yet has no message.
pub fn messages(attempt: &Attempt) -> Vec<Message> {
    let mut messages = Vec::new();
    for turn in &attempt.turns {
        let calls = turn.calls.iter().map(|call| call.call.clone());
        messages.push(Message::assistant(turn.text.clone(), calls.collect()));
        for call in &turn.calls {
            if let CallStatus::Finished {
                output, is_error, ..
            } = &call.status
            {
                messages.push(Message::tool(&call.call.id, output.clone(), *is_error));
            }
        }
    }
    messages
}
