//! Steers what is running: the model reads the message before its turn or step ends.

use super::Handle;
use crate::conversation::Op;
use crate::decide::{Decision, Rejection};
use crate::event::{AttemptRef, ContextChanged};
use crate::limits::MAX_GOAL;
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::session::StepNo;
use serde::{Deserialize, Serialize};

/// Say something to the running turn, or to running steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The running step; none for all that run.
    pub step: Option<StepNo>,
    /// What the person says.
    pub message: Message,
}

impl Handle for SendMessage {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let bytes = self.message.bytes();
        if self.message.role != Role::User || bytes > MAX_GOAL as u64 {
            let message = format!(
                "the message has {bytes} bytes; allowed are messages of the user with at most {MAX_GOAL}"
            );
            return Err(Rejection::refused(Refusal::BadMessage, message));
        }
        let mut attempts = decision.steerable();
        if let Some(step) = self.step {
            attempts.retain(|attempt| attempt.step == step);
        }
        let Some(last) = attempts.pop() else {
            let message = match self.step {
                Some(step) => format!("step {step} is not running, or has no model"),
                None => "no turn and no step with a model is running; submit a turn".to_owned(),
            };
            return Err(Rejection::refused(Refusal::NoRunningTurn, message));
        };
        let said = |attempt: AttemptRef, ops| ContextChanged {
            is_steering: true,
            ..ContextChanged::of_attempt(attempt, ops)
        };
        for attempt in attempts {
            decision.take_up(said(attempt, vec![Op::Append(self.message.clone())]))?;
        }
        // The command itself has the message.
        decision.answer(said(last, Vec::new()))
    }
}

impl Decision<'_> {
    /// Attempts whose models can read a message.
    fn steerable(&self) -> Vec<AttemptRef> {
        let active = self.session.active_run();
        let attempts = active.map_or_else(Vec::new, |run| self.running(run.number));
        // A model that is asked only once reads nothing more.
        let asks_again = |run: u32| {
            let run = self.session.run(run);
            run.is_some_and(|run| run.turn.is_none() || run.limits.max_tool_turns > 0)
        };
        let has_model =
            |attempt: &AttemptRef| !self.is_tool_step(*attempt) && asks_again(attempt.run);
        attempts.into_iter().filter(has_model).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::command::{SubmitTurn, TurnOptions};
    use crate::event::EventKind;

    fn say(text: &str) -> SendMessage {
        SendMessage {
            step: None,
            message: Message::user(text),
        }
    }

    #[test]
    fn a_running_step_gets_the_message() {
        let mut sent = Sent::running(&["one", "two"]);
        let events = sent.send(say("be brief"));
        let [EventKind::ContextChanged(changed)] = &events[..] else {
            panic!("{events:?}");
        };
        assert!(changed.is_steering);
        let (attempt, ..) = sent.run().running_attempts().next().expect("a step");
        let said = sent.session.said(attempt);
        assert_eq!(said.last().map(|message| message.text()).as_deref(), Some("be brief"));
    }

    #[test]
    fn the_message_is_one_of_the_user_and_not_too_large() {
        let mut sent = Sent::running(&["one"]);
        assert_eq!(sent.refused(say(&"x".repeat(MAX_GOAL))), Refusal::BadMessage);
        let of_the_model = SendMessage {
            step: None,
            message: Message {
                role: Role::Assistant,
                ..Message::user("x")
            },
        };
        assert_eq!(sent.refused(of_the_model), Refusal::BadMessage);
    }

    #[test]
    fn something_that_reads_it_has_to_run() {
        assert_eq!(Sent::new().refused(say("x")), Refusal::NoRunningTurn);
        let mut sent = Sent::running(&["one", "two"]);
        let to_the_second = SendMessage {
            step: Some(2.into()),
            ..say("x")
        };
        assert_eq!(sent.refused(to_the_second), Refusal::NoRunningTurn);
        let mut sent = Sent::new();
        sent.send(SubmitTurn {
            message: Some(Message::user("hello")),
            options: TurnOptions {
                max_tool_turns: Some(0),
                ..TurnOptions::default()
            },
            ..SubmitTurn::default()
        });
        assert_eq!(sent.refused(say("x")), Refusal::NoRunningTurn);
    }
}
