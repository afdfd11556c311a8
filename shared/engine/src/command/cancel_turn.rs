//! Takes a queued turn back.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::failure::Failure;
use crate::refusal::Refusal;
use crate::session::{Apply, Envelope, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// Take a queued turn back before it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelTurn {
    pub number: u64,
    pub reason: String,
}

/// A queued turn will not begin.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedTurnDropped {
    pub number: u64,
    pub reason: String,
    pub failure: Option<Failure>,
}

impl Handle for CancelTurn {
    const BEGINS_WORK: bool = false;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let number = self.number;
        let mut queued = decision.session.queued_turns.iter();
        if !queued.any(|queued| queued.number == number) {
            let message = format!("no turn {number} is queued; it may have begun: cancel its run");
            return Err(Rejection::refused(Refusal::NoSuchTurn, message));
        }
        let reason = self.reason;
        decision.answer(QueuedTurnDropped {
            number,
            reason,
            failure: None,
        })
    }
}

impl QueuedTurnDropped {
    /// Of a turn that cannot begin.
    pub(crate) fn because(number: u64, failure: Failure) -> Self {
        Self {
            number,
            reason: String::new(),
            failure: Some(failure),
        }
    }
}

impl Apply for QueuedTurnDropped {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let before = session.queued_turns.len();
        session.queued_turns.retain(|it| it.number != self.number);
        match session.queued_turns.len() < before {
            true => Ok(()),
            false => {
                let what = format_args!("queued turn {}", self.number);
                Err(IllegalTransition::missing(what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::command::{SubmitTurn, WhenBusy};
    use crate::event::EventKind;
    use crate::message::Message;

    #[test]
    fn a_queued_turn_is_taken_back_once() {
        let mut sent = Sent::running(&["one"]);
        sent.send(SubmitTurn {
            message: Some(Message::user("later")),
            when_busy: WhenBusy::Queue,
            ..SubmitTurn::default()
        });
        let number = sent.session.queued_turns[0].number;
        let cancel = CancelTurn {
            number,
            reason: "not needed".to_owned(),
        };
        let events = sent.send(cancel.clone());
        let [EventKind::QueuedTurnDropped(dropped)] = &events[..] else {
            panic!("{events:?}");
        };
        let expected = QueuedTurnDropped {
            number,
            reason: "not needed".to_owned(),
            failure: None,
        };
        assert_eq!(dropped, &expected);
        assert!(sent.session.queued_turns.is_empty());
        assert_eq!(sent.refused(cancel), Refusal::NoSuchTurn);
    }
}
