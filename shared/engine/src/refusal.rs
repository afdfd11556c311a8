//! Why a command is refused: one row for each reason.

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

/// Makes [`Refusal`] of its rows: the public reason, the kind, and whether the reason may pass with
/// time. No column has a default.
macro_rules! refusals {
    ($($(#[$doc:meta])* $refusal:ident: $name:literal, $kind:ident, $may_pass:literal;)*) => {
        /// Why a command is refused.
        ///
        /// The event that refuses a command stores the public reason, so a new row is a new enum value
        /// of the journal: it raises the level of the release.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal {
            $($(#[$doc])* $refusal,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$refusal,)*];

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
    RunActive: "RUN_ACTIVE", FailedPrecondition, true;
    /// The run has ended, or is not the newest.
    RunEnded: "RUN_ENDED", FailedPrecondition, false;
    /// The run is paused already.
    RunPaused: "RUN_PAUSED", FailedPrecondition, false;
    /// The run is not paused.
    RunNotPaused: "RUN_NOT_PAUSED", FailedPrecondition, false;
    /// The session has no such run.
    NoSuchRun: "NO_SUCH_RUN", NotFound, false;
    /// A run has neither goal nor plan, or its goal is too long.
    BadGoal: "BAD_GOAL", InvalidArgument, false;
    /// The plan cannot be carried out.
    BadPlan: "BAD_PLAN", InvalidArgument, false;
    /// The run is a turn, which has no plan.
    NoPlan: "NO_PLAN", FailedPrecondition, false;
    /// Another plan came into force.
    PlanMovedOn: "PLAN_MOVED_ON", FailedPrecondition, false;
    /// The feedback on a plan is empty or too long.
    BadFeedback: "BAD_FEEDBACK", InvalidArgument, false;
    /// Too many requests for another plan are open.
    TooManyRevisions: "TOO_MANY_REVISIONS", FailedPrecondition, true;
    /// The planner failed to make another plan.
    RevisionFailed: "REVISION_FAILED", FailedPrecondition, false;
    /// The request for another plan ended before the planner answered.
    RevisionDropped: "REVISION_DROPPED", FailedPrecondition, false;
    /// The run has no such proposal.
    NoSuchProposal: "NO_SUCH_PROPOSAL", FailedPrecondition, false;
    /// The plan in force has no such step.
    NoSuchStep: "NO_SUCH_STEP", FailedPrecondition, false;
    /// The step has ended.
    StepEnded: "STEP_ENDED", FailedPrecondition, false;
    /// The step has not ended.
    StepNotEnded: "STEP_NOT_ENDED", FailedPrecondition, false;
    /// The question is not open.
    NotPending: "NOT_PENDING", FailedPrecondition, false;
    /// An earlier answer to the question has not taken effect yet.
    AlreadyDecided: "ALREADY_DECIDED", FailedPrecondition, false;
    /// The question does not accept such an answer.
    BadSettlement: "BAD_SETTLEMENT", FailedPrecondition, false;
    /// No such approval is in force.
    NoSuchApproval: "NO_SUCH_APPROVAL", FailedPrecondition, false;
    /// The title is too long.
    BadTitle: "BAD_TITLE", InvalidArgument, false;
    /// No such turn is queued.
    NoSuchTurn: "NO_SUCH_TURN", FailedPrecondition, false;
    /// Nothing runs that could read a message.
    NoRunningTurn: "NO_RUNNING_TURN", FailedPrecondition, true;
    /// A turn brings no message, and its context has none.
    EmptyContext: "EMPTY_CONTEXT", FailedPrecondition, false;
    /// The message cannot be part of a context or of a turn.
    BadMessage: "BAD_MESSAGE", InvalidArgument, false;
    /// Such a context cannot be created, or the context cannot be destroyed.
    BadContext: "BAD_CONTEXT", FailedPrecondition, false;
    /// The session has no such context.
    ContextNotFound: "CONTEXT_NOT_FOUND", NotFound, false;
    /// The session has a context of that name.
    ContextExists: "CONTEXT_EXISTS", AlreadyExists, false;
    /// A turn of the context works.
    ContextBusy: "CONTEXT_BUSY", FailedPrecondition, true;
    /// The context has another version than the one that was expected.
    VersionMismatch: "VERSION_MISMATCH", FailedPrecondition, false;
    /// The context has no message with that index.
    BadIndex: "BAD_INDEX", OutOfRange, false;
    /// Session memory takes no such key or value.
    BadPair: "BAD_PAIR", InvalidArgument, false;
    /// A turn names a tool that it cannot call.
    NoTool: "NO_TOOL", NotFound, false;
    /// A turn names a tool whose server cannot be reached now.
    ToolsUnreachable: "TOOLS_UNREACHABLE", FailedPrecondition, true;
    /// The session, or a part of it, has reached a limit of its size.
    Limit: "LIMIT", FailedPrecondition, false;
    /// The handler of the command did not answer it.
    Internal: "INTERNAL", Internal, false;
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
