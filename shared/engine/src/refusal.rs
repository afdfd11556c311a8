//! Why a command is refused: one row for each reason.

use crate::level::LEVEL;

/// What a refusal says about its command. Services derive the code of the error from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The command is wrong in every state of a session.
    InvalidArgument,
    /// It names something that does not exist.
    NotFound,
    /// It creates something that exists.
    AlreadyExists,
    /// It names a position outside of a list.
    OutOfRange,
    /// The state of the session does not allow it.
    FailedPrecondition,
    /// A fault of this program.
    Internal,
}

/// Makes [`Refusal`] of its rows: the level that the reason needs, the public reason, the kind, and whether
/// the reason may pass with time. No column has a default.
macro_rules! refusals {
    ($(
        $(#[$doc:meta])*
        $refusal:ident since $since:literal: $name:literal, $kind:ident, $may_pass:literal;
    )*) => {
        /// Why a command is refused.
        ///
        /// The event that refuses a command stores the public reason, so a new row is a new enum value
        /// of the journal: the event needs a reader of the row's level. See [`LEVEL`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal {
            $($(#[$doc])* $refusal,)*
        }

        $(const _: () = assert!($since <= LEVEL);)*

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$refusal,)*];

            pub(crate) const fn since(self) -> u32 {
                match self {
                    $(Self::$refusal => $since,)*
                }
            }

            /// The public reason, in SCREAMING_SNAKE_CASE: in the journal, and in the error that a
            /// client gets.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$refusal => $name,)*
                }
            }

            /// What it says about the command.
            pub const fn kind(self) -> RefusalKind {
                match self {
                    $(Self::$refusal => RefusalKind::$kind,)*
                }
            }

            /// The reason may pass with time, so that the same command may be accepted later.
            pub const fn may_pass(self) -> bool {
                match self {
                    $(Self::$refusal => $may_pass,)*
                }
            }
        }
    };
}

refusals! {
    /// A run of the session is active.
    RunActive since 1: "RUN_ACTIVE", FailedPrecondition, true;
    /// The run has ended, or is not the newest.
    RunEnded since 1: "RUN_ENDED", FailedPrecondition, false;
    /// The run is paused already.
    RunPaused since 1: "RUN_PAUSED", FailedPrecondition, false;
    /// The run is not paused.
    RunNotPaused since 1: "RUN_NOT_PAUSED", FailedPrecondition, false;
    /// The session has no such run.
    NoSuchRun since 1: "NO_SUCH_RUN", NotFound, false;
    /// A run has neither goal nor plan, or a text of its start is too long.
    BadGoal since 1: "BAD_GOAL", InvalidArgument, false;
    /// The plan cannot be carried out.
    BadPlan since 1: "BAD_PLAN", InvalidArgument, false;
    /// The run is a turn, which has no plan.
    NoPlan since 1: "NO_PLAN", FailedPrecondition, false;
    /// Another plan came into force.
    PlanMovedOn since 1: "PLAN_MOVED_ON", FailedPrecondition, false;
    /// The feedback on a plan is empty or too long.
    BadFeedback since 1: "BAD_FEEDBACK", InvalidArgument, false;
    /// Too many requests for another plan are open.
    TooManyRevisions since 1: "TOO_MANY_REVISIONS", FailedPrecondition, true;
    /// The planner failed to make another plan.
    RevisionFailed since 1: "REVISION_FAILED", FailedPrecondition, false;
    /// The request for another plan ended before the planner answered.
    RevisionDropped since 1: "REVISION_DROPPED", FailedPrecondition, false;
    /// The run has no such proposal.
    NoSuchProposal since 1: "NO_SUCH_PROPOSAL", FailedPrecondition, false;
    /// The plan in force has no such step.
    NoSuchStep since 1: "NO_SUCH_STEP", FailedPrecondition, false;
    /// The step has ended.
    StepEnded since 1: "STEP_ENDED", FailedPrecondition, false;
    /// The step has not ended.
    StepNotEnded since 1: "STEP_NOT_ENDED", FailedPrecondition, false;
    /// The question is not open.
    NotPending since 1: "NOT_PENDING", FailedPrecondition, false;
    /// An earlier answer to the question has not taken effect yet.
    AlreadyDecided since 1: "ALREADY_DECIDED", FailedPrecondition, false;
    /// The question does not accept such an answer.
    BadSettlement since 1: "BAD_SETTLEMENT", FailedPrecondition, false;
    /// No such approval is in force.
    NoSuchApproval since 1: "NO_SUCH_APPROVAL", FailedPrecondition, false;
    /// The title is too long.
    BadTitle since 1: "BAD_TITLE", InvalidArgument, false;
    /// No such turn is queued.
    NoSuchTurn since 1: "NO_SUCH_TURN", FailedPrecondition, false;
    /// Nothing runs that could read a message.
    NoRunningTurn since 1: "NO_RUNNING_TURN", FailedPrecondition, true;
    /// A turn brings no message, and its context has none.
    EmptyContext since 1: "EMPTY_CONTEXT", FailedPrecondition, false;
    /// The message cannot be part of a context or of a turn.
    BadMessage since 1: "BAD_MESSAGE", InvalidArgument, false;
    /// Such a context cannot be created, the context cannot be destroyed, or two contexts are one.
    BadContext since 1: "BAD_CONTEXT", FailedPrecondition, false;
    /// The session has no such context.
    ContextNotFound since 1: "CONTEXT_NOT_FOUND", NotFound, false;
    /// The session has a context of that name.
    ContextExists since 1: "CONTEXT_EXISTS", AlreadyExists, false;
    /// A turn of the context works.
    ContextBusy since 1: "CONTEXT_BUSY", FailedPrecondition, true;
    /// The context has another version than the one that was expected.
    VersionMismatch since 1: "VERSION_MISMATCH", FailedPrecondition, false;
    /// The context has no message with that index.
    BadIndex since 1: "BAD_INDEX", OutOfRange, false;
    /// Session memory takes no such key or value.
    BadPair since 1: "BAD_PAIR", InvalidArgument, false;
    /// A turn names a tool that it cannot call.
    NoTool since 1: "NO_TOOL", NotFound, false;
    /// A turn names a tool whose server cannot be reached now.
    ToolsUnreachable since 1: "TOOLS_UNREACHABLE", FailedPrecondition, true;
    /// There is no agent of that name.
    AgentNotFound since 1: "AGENT_NOT_FOUND", NotFound, false;
    /// The agent is disabled, faulty, not confirmed, for other agents alone, or cannot be read now.
    AgentNotUsable since 1: "AGENT_NOT_USABLE", FailedPrecondition, true;
    /// An agent names a hook that is not configured.
    HookNotFound since 1: "HOOK_NOT_FOUND", NotFound, false;
    /// A plan or a turn names a tool that its agent may not call.
    ToolNotAllowed since 1: "TOOL_NOT_ALLOWED", FailedPrecondition, false;
    /// The session, or a part of it, has reached a limit of its size.
    Limit since 1: "LIMIT", FailedPrecondition, false;
    /// The handler of the command did not answer it.
    Internal since 1: "INTERNAL", Internal, false;
}

impl Refusal {
    /// The refusal with that public reason; none if this version knows none.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|refusal| refusal.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two rows have the same name, because no two variants have.
    #[test]
    fn each_is_named_as_its_variant() {
        for refusal in Refusal::ALL {
            let mut expected = String::new();
            for letter in format!("{refusal:?}").chars() {
                if letter.is_uppercase() && !expected.is_empty() {
                    expected.push('_');
                }
                expected.extend(letter.to_uppercase());
            }
            assert_eq!(refusal.name(), expected);
            assert_eq!(Refusal::named(&expected), Some(*refusal));
        }
        assert_eq!(Refusal::named("RunActive"), None);
    }
}
