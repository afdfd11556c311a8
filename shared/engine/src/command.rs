//! Commands: what a person may ask of a session. Each has a file with its fields, its checks, the
//! event of its own if it has one, and tests. Here are the lists of all commands and of all events.

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
    /// It may start a run, open one again that has ended, or add messages: a session at its limit refuses
    /// it.
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
    SessionCreated
    SessionRenamed
    CommandReceived
    CommandRefused
    MemorySet
    MemoryRemoved
    MemoryCleared
    ForkedFrom
    ContextCreated
    ContextSwitched
    ContextDestroyed
    TurnQueued
    QueuedTurnDropped
    RunStarted
    RunPaused
    RunWaiting
    RunResumed
    RunTakenOver
    BudgetExhausted
    BudgetRaised
    BudgetRefused
    RunCompleted
    RunFailed
    RunCancelled
    RevisionRequested
    PlanProposed
    RevisionFailed
    PlanApplied
    StepStarted
    AttemptContinued
    ContextChanged
    StepCompleted
    StepFailed
    StepSkipped
    SubGoalAdded
    SubGoalFocused
    SubGoalCompleted
    SubGoalDropped
    ScratchpadWritten
    ReplyReceived
    CallIntended
    CallHeld
    CallFinished
    CallInDoubt
    ApprovalRequested
    CallRejudged
    InputRequested
    ApprovalGranted
    ApprovalRevoked
    ToolsFound
    QuestionAsked
    Decided
    CallSettled
}
