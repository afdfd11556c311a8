//! Which event answers a command, and how.

use cairn_engine::event::EventKind;
use cairn_engine::failure::Failure;
use cairn_rpc::{ErrorKind, RpcError};

/// The event that answers a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// A run began.
    RunStarted {
        run: u32,
        /// Its event.
        seq: u64,
    },
    /// A run ended by this wish.
    RunCancelled { run: u32 },
    /// Another plan was proposed.
    PlanProposed {
        run: u32,
        proposal: u32,
        /// Its event.
        seq: u64,
    },
    /// Another plan is in force.
    PlanApplied {
        run: u32,
        revision: u32,
        /// Its event.
        seq: u64,
    },
    /// A run stands still.
    RunPaused { run: u32 },
    /// A run goes on.
    RunResumed { run: u32 },
    /// A step will not be done.
    StepSkipped { run: u32, step: u32 },
    /// A decision was taken.
    Decided {
        /// It takes effect from then on; 0 for at once.
        settle_after: u64,
    },
}

/// Whether the event answers the command, and how.
pub(super) fn answer_of(
    event: EventKind,
    seq: u64,
    asked: u64,
) -> Option<Result<Answer, RpcError>> {
    match event {
        EventKind::RunStarted {
            run, command_seq, ..
        } if command_seq == asked => Some(Ok(Answer::RunStarted { run, seq })),
        EventKind::RunCancelled {
            run, command_seq, ..
        } if command_seq == asked => Some(Ok(Answer::RunCancelled { run })),
        EventKind::Decided {
            command_seq,
            settle_after,
            ..
        } if command_seq == asked => Some(Ok(Answer::Decided { settle_after })),
        EventKind::BudgetRaised { command_seq, .. }
        | EventKind::BudgetRefused { command_seq, .. }
            if command_seq == asked =>
        {
            Some(Ok(Answer::Decided { settle_after: 0 }))
        }
        EventKind::CommandRefused {
            command_seq,
            reason,
            message,
        } if command_seq == asked => Some(Err(refusal(&reason, &message))),
        other => answer_about_plan(other, seq, asked),
    }
}

fn answer_about_plan(event: EventKind, seq: u64, asked: u64) -> Option<Result<Answer, RpcError>> {
    match event {
        EventKind::PlanProposed {
            run,
            proposal,
            request_seq,
            ..
        } if request_seq == asked => Some(Ok(Answer::PlanProposed { run, proposal, seq })),
        EventKind::PlanApplied {
            run,
            revision,
            command_seq,
            ..
        } if command_seq == asked => Some(Ok(Answer::PlanApplied { run, revision, seq })),
        EventKind::RevisionFailed {
            request_seq,
            failure,
            ..
        } if request_seq == asked => Some(Err(no_revision(&failure))),
        EventKind::RunPaused {
            run, command_seq, ..
        } if command_seq == asked => Some(Ok(Answer::RunPaused { run })),
        EventKind::RunResumed { run, command_seq } if command_seq == asked => {
            Some(Ok(Answer::RunResumed { run }))
        }
        EventKind::StepSkipped {
            run,
            step,
            command_seq,
            ..
        } if command_seq == asked => Some(Ok(Answer::StepSkipped { run, step })),
        _ => None,
    }
}

/// The planner's failure, or what became of the plan that it was asked about.
fn no_revision(failure: &Failure) -> RpcError {
    let reason = match failure.reason.as_str() {
        "PlanMovedOn" => "PLAN_MOVED_ON",
        "Dropped" => "REVISION_DROPPED",
        _ => "REVISION_FAILED",
    };
    let error = RpcError::precondition(&failure.message).reason(reason);
    error.meta("failure", &failure.reason)
}

fn refusal(reason: &str, message: &str) -> RpcError {
    let known = [
        "RUN_ACTIVE",
        "RUN_ENDED",
        "NOT_PENDING",
        "ALREADY_DECIDED",
        "BAD_SETTLEMENT",
        "RUN_PAUSED",
        "RUN_NOT_PAUSED",
        "PLAN_MOVED_ON",
        "BAD_PLAN",
        "BAD_FEEDBACK",
        "TOO_MANY_REVISIONS",
        "NO_SUCH_PROPOSAL",
        "NO_SUCH_STEP",
        "STEP_ENDED",
        "STEP_NOT_ENDED",
        "LIMIT_EXCEEDED",
    ];
    if reason == "NO_SUCH_RUN" {
        return RpcError::new(ErrorKind::NotFound, message).reason("NO_SUCH_RUN");
    }
    let reason = known
        .into_iter()
        .find(|name| *name == reason)
        .unwrap_or("REFUSED");
    RpcError::precondition(message).reason(reason)
}
