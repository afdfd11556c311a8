//! Questions for tests.

use crate::Asked;
use cairn_engine::event::{AttemptRef, CallRef, Effect};
use cairn_engine::hooks::{AskedCall, Gate, Payload, Point, Question};
use cairn_engine::session::StepNo;

/// The name of the call that [`asked`] is about.
pub(crate) fn name_of_call() -> CallRef {
    CallRef {
        attempt: attempt(),
        tool_turn: 5,
        index: 1,
    }
}

/// About a call of `shell_exec` with these arguments, before it is made.
pub(crate) fn asked(arguments: &str) -> Asked {
    asked_about(Point::PreToolCall, Payload::Call(call(arguments)))
}

/// A call with these arguments.
pub(crate) fn call(arguments: &str) -> AskedCall {
    AskedCall {
        call: name_of_call(),
        tool: "shell_exec".to_owned(),
        arguments: arguments.to_owned(),
        asked: None,
        effect: Effect::Effectful,
    }
}

/// A question of the first step of run 2.
pub(crate) fn asked_about(point: Point, payload: Payload) -> Asked {
    Asked {
        key: "k-1".to_owned(),
        namespace: "team".to_owned(),
        session: "s-1".to_owned(),
        hook: "guard".to_owned(),
        question: Question {
            gate: Gate::of_attempt(point, attempt(), 5),
            index: 1,
            tool: Some("shell_exec".to_owned()),
            context: String::new(),
            agent: "default".to_owned(),
            model: String::new(),
            turn_index: Some(4),
            step_index: Some(0),
            payload,
        },
        trace: None,
    }
}

fn attempt() -> AttemptRef {
    AttemptRef {
        run: 2,
        step: StepNo::new(1),
        attempt: 3,
    }
}
