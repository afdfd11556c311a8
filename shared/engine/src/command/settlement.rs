//! What a person decides about a pending question.

use crate::rules::Condition;
use serde::{Deserialize, Serialize};

/// The decision of a person about a question; `cairn/event/v1/event.proto` says which fits which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// The call was carried out, with this output.
    Done {
        /// The result that the model gets.
        output: String,
    },
    /// Send the call again with the same key; or go on with a fresh budget.
    Retry,
    /// Go on without it.
    Skip {
        /// Why; may be empty.
        reason: String,
    },
    /// The step fails; for a budget, the run.
    Fail {
        /// Why; may be empty.
        reason: String,
    },
    /// Make the call; put the plan into force.
    Approve,
    /// Make the call, and further ones like it without asking.
    ApproveAlways {
        /// The values of the further calls, as patterns; none for the values of this call.
        when: Vec<Condition>,
    },
    /// Do not make the call; make another plan.
    Deny {
        /// Why, or what is to be different.
        reason: String,
    },
    /// What the model asked for.
    Answer {
        /// The answer that the model gets.
        text: String,
    },
}

impl Settlement {
    /// What was decided, in one word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Retry => "retry",
            Self::Skip { .. } => "skip",
            Self::Fail { .. } => "fail",
            Self::Approve => "approve",
            Self::ApproveAlways { .. } => "approve_always",
            Self::Deny { .. } => "deny",
            Self::Answer { .. } => "answer",
        }
    }

    /// The result of the call as the model gets it, and whether that is an error.
    /// None if the call is to be sent.
    pub fn result(&self) -> Option<(String, bool)> {
        let result = |what: &str, reason: &str| match reason {
            "" => what.to_owned(),
            reason => format!("{what}: {reason}"),
        };
        match self {
            Self::Done { output } => Some((output.clone(), false)),
            Self::Retry | Self::Approve | Self::ApproveAlways { .. } => None,
            Self::Answer { text } => Some((text.clone(), false)),
            Self::Deny { reason } => {
                let what = "a person does not allow this call; do not repeat it";
                Some((result(what, reason), true))
            }
            Self::Skip { reason } => {
                let what = "a person decided to go on without this call; do not repeat it";
                Some((result(what, reason), true))
            }
            Self::Fail { reason } => Some((
                result("a person decided that this call failed", reason),
                true,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_has_a_result_unless_the_call_is_sent() {
        let reason = String::new;
        assert_eq!(Settlement::Retry.result(), None);
        assert_eq!(Settlement::Approve.result(), None);
        let output = "sent".to_owned();
        assert_eq!(
            Settlement::Done { output }.result(),
            Some(("sent".to_owned(), false))
        );
        let text = "yes".to_owned();
        assert_eq!(
            Settlement::Answer { text }.result(),
            Some(("yes".to_owned(), false))
        );
        for refused in [
            Settlement::Deny { reason: reason() },
            Settlement::Skip { reason: reason() },
            Settlement::Fail { reason: reason() },
        ] {
            let (text, is_error) = refused.result().expect("a result");
            assert!(is_error && !text.ends_with(": "), "{text}");
        }
        let reason = "too dear".to_owned();
        let (text, _) = Settlement::Deny { reason }.result().expect("a result");
        assert!(text.ends_with(": too dear"), "{text}");
    }
}
