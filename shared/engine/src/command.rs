//! Commands: what a person may ask of a session. Each has a file with its fields, its checks, the
//! event of its own if it has one, and tests. Here are the lists of all commands and of all events.

#[cfg(test)]
mod full_journal;
mod run_limits;
mod settlement;
#[cfg(test)]
pub(crate) mod testing;

pub use run_limits::{AtLimit, LimitOverrides, OnFailure, RunLimits};
pub use settlement::Settlement;
pub(crate) use submit_turn::full;

use crate::decide::{Decision, Rejection};
use crate::event::*;
use crate::level::LEVEL;
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

/// Makes [`Command`] of its payloads, each of which stands in a module of its own. Each row has the level
/// that a command of the kind needs; see [`LEVEL`].
macro_rules! commands {
    ($($module:ident: $command:ident since $since:literal)*) => {
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
        pub(crate) fn examples() -> Vec<(testing::Sent, Command)> {
            vec![$(full_journal::example::<$command>()),*]
        }

        $(const _: () = assert!($since <= LEVEL);)*

        impl Command {
            fn since(&self) -> u32 {
                match self {
                    $(Self::$command(_) => $since,)*
                }
            }

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

impl Command {
    /// The lowest level of a reader that can read it, with the operations that it has.
    pub fn needs(&self) -> u32 {
        let ops = match self {
            Self::ChangeContext(change) => ContextOp::needs_of(&change.ops),
            _ => 1,
        };
        self.since().max(ops)
    }
}

commands! {
    apply_proposal: ApplyProposal since 1
    bridge_context: BridgeContext since 1
    cancel_run: CancelRun since 1
    cancel_turn: CancelTurn since 1
    change_context: ChangeContext since 1
    compact_context: CompactContext since 1
    create_context: CreateContext since 1
    decide: Decide since 1
    destroy_context: DestroyContext since 1
    pause_run: PauseRun since 1
    redo_step: RedoStep since 1
    rename_session: RenameSession since 1
    resume_run: ResumeRun since 1
    revoke_approval: RevokeApproval since 1
    revise_plan: RevisePlan since 1
    send_message: SendMessage since 1
    set_mode: SetMode since 1
    skip_step: SkipStep since 1
    start_run: StartRun since 1
    submit_turn: SubmitTurn since 1
    switch_agent: SwitchAgent since 1
    switch_context: SwitchContext since 1
}

kinds! {
    SessionCreated since 1: Grows
    SessionRenamed since 1: Ends
    ModeSet since 1: Ends
    CommandReceived since 1: Grows
    CommandRefused since 1: Ends
    MemorySet since 1: Grows
    MemoryRemoved since 1: Grows
    MemoryCleared since 1: Grows
    ForkedFrom since 1: Grows
    AgentDefined since 1: Grows
    AgentSwitched since 1: Grows
    ContextCreated since 1: Grows
    ContextSwitched since 1: Ends
    ContextDestroyed since 1: Ends
    TurnQueued since 1: Grows
    QueuedTurnDropped since 1: Ends
    RunStarted since 1: Grows
    RunPaused since 1: Ends
    RunWaiting since 1: Ends
    RunResumed since 1: Ends
    RunTakenOver since 1: Continues
    BudgetExhausted since 1: Grows
    BudgetRaised since 1: Grows
    BudgetRefused since 1: Ends
    RunCompleted since 1: Ends
    RunFailed since 1: Ends
    RunCancelled since 1: Ends
    RevisionRequested since 1: Grows
    PlanProposed since 1: Grows
    RevisionFailed since 1: Ends
    PlanApplied since 1: Grows
    StepStarted since 1: Grows
    AttemptContinued since 1: Continues
    AttemptPlaced since 1: Continues
    CapabilityShort since 1: Ends
    CapabilityFound since 1: Grows
    ContextChanged since 1: Grows, or Continues if is_of_owner
    CompactionRequested since 1: Grows
    SummaryAsked since 1: Grows, or Continues if is_again
    ContextCompacted since 1: Ends
    ContextFull since 1: Ends
    StepCompleted since 1: Ends
    StepFailed since 1: Ends
    StepSkipped since 1: Ends
    SubGoalAdded since 1: Grows
    SubGoalFocused since 1: Grows
    SubGoalCompleted since 1: Grows
    SubGoalDropped since 1: Grows
    ScratchpadWritten since 1: Grows
    ReplyReceived since 1: Grows
    CallIntended since 1: Grows
    CallHeld since 1: Ends
    CallFinished since 1: Ends
    CallInDoubt since 1: Ends
    ApprovalRequested since 1: Grows
    CallRejudged since 1: Grows
    CallPreviewed since 1: Grows
    InputRequested since 1: Grows
    ApprovalGranted since 1: Grows
    ApprovalRevoked since 1: Ends
    ToolsFound since 1: Grows
    QuestionAsked since 1: Grows
    Decided since 1: Ends
    CallSettled since 1: Ends
    HooksAsked since 1: Grows
    HooksAnswered since 1: Grows, or Ends if is_plain
    HooksChanged since 1: Ends
    HooksPinned since 1: Grows
    HooksDropped since 1: Ends
    RunEnding since 1: Ends
}
