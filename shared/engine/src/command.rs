//! Commands: what a person may ask of a session. Each has a file with its fields, its checks and the
//! events that it leads to.

mod apply_proposal;
mod cancel_run;
mod decide;
mod pause_run;
mod redo_step;
mod resume_run;
mod revise_plan;
mod run_limits;
mod settlement;
mod skip_step;
mod start_run;

pub use apply_proposal::ApplyProposal;
pub use cancel_run::CancelRun;
pub use decide::Decide;
pub use pause_run::PauseRun;
pub use redo_step::RedoStep;
pub use resume_run::ResumeRun;
pub use revise_plan::RevisePlan;
pub use run_limits::{LimitOverrides, OnFailure, RunLimits};
pub use settlement::Settlement;
pub use skip_step::SkipStep;
pub use start_run::StartRun;

use crate::decide::{Decision, Rejection};
use serde::{Deserialize, Serialize};

/// What each command brings.
pub(crate) trait Handle {
    /// It may start a run, or open one again that has ended: a session at its limit refuses it.
    const BEGINS_WORK: bool = false;

    /// The number of its run, if it is about one.
    fn run_mut(&mut self) -> Option<&mut u32> {
        None
    }

    /// Checks the command, and emits its events, of which one answers it. After the first event
    /// nothing is refused.
    ///
    /// # Errors
    /// The refusal that answers it.
    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection>;
}

/// Makes [`Command`] of its payloads.
macro_rules! commands {
    ($($command:ident)*) => {
        /// One request to the owner of a session.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs)] // Each payload says what it is.
        pub enum Command {
            $($command($command),)*
        }

        $(impl From<$command> for Command {
            fn from(payload: $command) -> Self {
                Self::$command(payload)
            }
        })*

        impl Command {
            pub(crate) fn begins_work(&self) -> bool {
                match self {
                    $(Self::$command(_) => $command::BEGINS_WORK,)*
                }
            }

            pub(crate) fn run_mut(&mut self) -> Option<&mut u32> {
                match self {
                    $(Self::$command(command) => command.run_mut(),)*
                }
            }

            pub(crate) fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
                match self {
                    $(Self::$command(command) => command.handle(decision),)*
                }
            }
        }
    };
}

commands! {
    StartRun
    CancelRun
    Decide
    RevisePlan
    ApplyProposal
    RedoStep
    SkipStep
    PauseRun
    ResumeRun
}
