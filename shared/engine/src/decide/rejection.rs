//! Why a command or a call of the model is not carried out.

use crate::transitions::IllegalTransition;

/// Why something that was asked for is not done. Nothing has been applied then.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// The answer no to a command, or to a call of a state tool.
    Refused {
        /// Stable name.
        reason: &'static str,
        /// For people, or the model.
        message: String,
    },
    /// A fault of the program.
    Illegal(IllegalTransition),
}

impl Rejection {
    pub(crate) fn refused(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Refused {
            reason,
            message: message.into(),
        }
    }
}

impl From<IllegalTransition> for Rejection {
    fn from(error: IllegalTransition) -> Self {
        Self::Illegal(error)
    }
}
