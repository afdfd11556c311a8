//! The name of a question.

use super::Point;
use crate::event::{AttemptRef, CallRef};
use serde::{Deserialize, Serialize};

/// Names a question within a session. Fields that a point has no use for are 0; see `cairn/event/v1/event.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gate {
    /// The point.
    pub point: Point,
    /// Run, step and attempt.
    pub attempt: AttemptRef,
    /// The tool turn, or the turn index.
    pub turn: u32,
    /// The call, the try, or how often it was asked.
    pub index: u32,
}

impl Gate {
    /// Of a point of a run.
    pub fn of_run(point: Point, run: u32) -> Self {
        let attempt = AttemptRef {
            run,
            ..AttemptRef::default()
        };
        Self::of_attempt(point, attempt, 0)
    }

    /// Of a point of an attempt.
    pub fn of_attempt(point: Point, attempt: AttemptRef, turn: u32) -> Self {
        Self {
            point,
            attempt,
            turn,
            index: 0,
        }
    }

    /// Of the result of a call.
    pub fn of_result(call: CallRef) -> Self {
        Self {
            index: call.index,
            ..Self::of_attempt(Point::PostToolCall, call.attempt, call.tool_turn)
        }
    }

    /// The call at a position of the reply that the gate is about.
    pub fn call_at(self, index: u32) -> CallRef {
        CallRef {
            attempt: self.attempt,
            tool_turn: self.turn,
            index,
        }
    }

    /// The key that goes with every repetition of the question to one hook, and with no other question.
    pub fn key(self, namespace: &str, session: &str, hook: &str) -> String {
        crate::key::hook_key(namespace, session, hook, self)
    }
}
