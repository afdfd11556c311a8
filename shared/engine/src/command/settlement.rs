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
        /// The name of one of the scopes that the call has. Empty for the calls that `when` says.
        scope: String,
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

    /// The result of the call as the model gets it, and whether that is an error. None if the call is to be
    /// sent. `output` is the result where the decision has none of its own.
    pub fn result<'a>(&'a self, output: &'a str) -> Option<(&'a str, bool)> {
        match self {
            Self::Done { output: done } => Some((done.as_str(), false)),
            Self::Answer { text } => Some((text.as_str(), false)),
            Self::Retry | Self::Approve | Self::ApproveAlways { .. } => None,
            Self::Deny { .. } | Self::Skip { .. } | Self::Fail { .. } => Some((output, true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_has_a_result_unless_the_call_is_sent() {
        assert_eq!(Settlement::Retry.result("other"), None);
        assert_eq!(Settlement::Approve.result("other"), None);
        let output = "sent".to_owned();
        let done = Settlement::Done { output };
        assert_eq!(done.result("other"), Some(("sent", false)));
        let text = "yes".to_owned();
        let answer = Settlement::Answer { text };
        assert_eq!(answer.result("other"), Some(("yes", false)));
        let reason = String::new;
        for refused in [
            Settlement::Deny { reason: reason() },
            Settlement::Skip { reason: reason() },
            Settlement::Fail { reason: reason() },
        ] {
            assert_eq!(refused.result("words"), Some(("words", true)));
        }
    }
}
