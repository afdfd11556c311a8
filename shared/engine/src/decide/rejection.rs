//! Why a command or a call of the model is not carried out.

use crate::refusal::Refusal;
use crate::transitions::IllegalTransition;

/// Why something that was asked for is not done. Nothing has been applied then. `R` names the reasons:
/// those of commands, or of calls of state tools.
#[derive(Debug)]
pub(crate) enum Rejection<R = Refusal> {
    /// The answer no to a command, or to a call of a state tool.
    Refused {
        /// For programs.
        reason: R,
        /// For people, or the model.
        message: String,
    },
    /// A fault of the program.
    Illegal(IllegalTransition),
}

impl<R> Rejection<R> {
    pub(crate) fn refused(reason: R, message: impl Into<String>) -> Self {
        Self::Refused {
            reason,
            message: message.into(),
        }
    }
}

impl<R> From<IllegalTransition> for Rejection<R> {
    fn from(error: IllegalTransition) -> Self {
        Self::Illegal(error)
    }
}
