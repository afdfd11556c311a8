//! Commands: what a person may ask of a session. Each has a file with its fields, its checks, the
//! event of its own if it has one, and tests. Here are the lists of all commands and of all events.

#[cfg(test)]
mod full_journal;
mod run_limits;
mod settlement;
#[cfg(test)]
pub(crate) mod testing;

pub use run_limits::{LimitOverrides, OnFailure, RunLimits};
pub use settlement::Settlement;
pub(crate) use submit_turn::full;

use crate::decide::{Decision, Rejection};
use crate::event::*;
use crate::session::Apply;
use serde::{Deserialize, Serialize};

/// What each command brings.
pub(crate) trait Handle {
    /// It may start a run, open one again that has ended, or add messages: a full journal refuses it. There
    /// any other command is handled after the active run has ended, and each event that its handler then
    /// emits must fit into the reserve (see [`EventKind::ends_only`]).
    const BEGINS_WORK: bool;

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

/// Makes [`Command`] of its payloads, each of which stands in a module of its own.
macro_rules! commands {
    ($($module:ident: $command:ident)*) => {
        $(
            mod $module;
            pub use $module::*;
        )*

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

        /// One of each, with a session that accepts it.
        #[cfg(test)]
        fn examples() -> Vec<(testing::Sent, Command)> {
            vec![$(full_journal::example::<$command>()),*]
        }

        #[cfg(test)]
        impl Command {
            /// The names of all commands.
            pub(crate) const NAMES: &[&str] = &[$(stringify!($command)),*];
        }

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
    apply_proposal: ApplyProposal
    bridge_context: BridgeContext
    cancel_run: CancelRun
    cancel_turn: CancelTurn
    change_context: ChangeContext
    create_context: CreateContext
    decide: Decide
    destroy_context: DestroyContext
    pause_run: PauseRun
    redo_step: RedoStep
    rename_session: RenameSession
    resume_run: ResumeRun
    revoke_approval: RevokeApproval
    revise_plan: RevisePlan
    send_message: SendMessage
    skip_step: SkipStep
    start_run: StartRun
    submit_turn: SubmitTurn
    switch_context: SwitchContext
}

kinds! {
    SessionCreated: Grows
    SessionRenamed: Ends
    CommandReceived: Grows
    CommandRefused: Ends
    MemorySet: Grows
    MemoryRemoved: Grows
    MemoryCleared: Grows
    ForkedFrom: Grows
    ContextCreated: Grows
    ContextSwitched: Ends
    ContextDestroyed: Ends
    TurnQueued: Grows
    QueuedTurnDropped: Ends
    RunStarted: Grows
    RunPaused: Ends
    RunWaiting: Ends
    RunResumed: Ends
    RunTakenOver: Continues
    BudgetExhausted: Grows
    BudgetRaised: Grows
    BudgetRefused: Ends
    RunCompleted: Ends
    RunFailed: Ends
    RunCancelled: Ends
    RevisionRequested: Grows
    PlanProposed: Grows
    RevisionFailed: Ends
    PlanApplied: Grows
    StepStarted: Grows
    AttemptContinued: Continues
    ContextChanged: Grows, or Continues if is_of_owner
    StepCompleted: Ends
    StepFailed: Ends
    StepSkipped: Ends
    SubGoalAdded: Grows
    SubGoalFocused: Grows
    SubGoalCompleted: Grows
    SubGoalDropped: Grows
    ScratchpadWritten: Grows
    ReplyReceived: Grows
    CallIntended: Grows
    CallHeld: Ends
    CallFinished: Ends
    CallInDoubt: Ends
    ApprovalRequested: Grows
    CallRejudged: Grows
    InputRequested: Grows
    ApprovalGranted: Grows
    ApprovalRevoked: Ends
    ToolsFound: Grows
    QuestionAsked: Grows
    Decided: Ends
    CallSettled: Ends
}
