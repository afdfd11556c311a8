//! Which event answers a command, and how.

use cairn_engine::event::{Event, EventKind};
use cairn_engine::failure::Failure;
use cairn_engine::limits::CONTINUE_ELSEWHERE;
use cairn_rpc::{ErrorKind, RpcError, STAYS_REFUSED};

/// Refusals whose reason passes, so that a client may wait and then repeat its request.
const TRANSIENT: [&str; 4] = [
    "RUN_ACTIVE",
    "CONTEXT_BUSY",
    "NO_RUNNING_TURN",
    "TOO_MANY_REVISIONS",
];

/// The event that answers a command, with its seq.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) seq: u64,
    pub(crate) event: EventKind,
}

/// Whether the event answers the command numbered `command_seq`, and how.
pub(super) fn answer_of(
    event: Event,
    seq: u64,
    command_seq: u64,
) -> Option<Result<Answer, RpcError>> {
    (event.answers == command_seq).then(|| match event.kind {
        EventKind::CommandRefused(refused) => Err(refusal(&refused.reason, &refused.message)),
        EventKind::RevisionFailed(failed) => Err(no_revision(&failed.failure)),
        event => Ok(Answer { seq, event }),
    })
}

/// The store's refusal of a command, which names a way on if the session can grow no more.
pub(super) fn not_stored(error: RpcError) -> RpcError {
    let limit = error.metadata("limit").map(str::to_owned);
    match limit.as_deref() {
        Some(limit @ ("journal_events" | "journal_bytes" | "session_blob_bytes")) => {
            let message = format!("{}; {CONTINUE_ELSEWHERE}", error.message());
            let error = RpcError::new(error.kind(), message).reason("LIMIT");
            error.meta("limit", limit)
        }
        _ => error,
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
        "LIMIT",
        "NO_PLAN",
        "NO_SUCH_TURN",
        "NO_RUNNING_TURN",
        "BAD_MESSAGE",
        "BAD_CONTEXT",
        "CONTEXT_BUSY",
        "VERSION_MISMATCH",
        "TOOLS_UNREACHABLE",
    ];
    for (known, kind) in [
        ("CONTEXT_NOT_FOUND", ErrorKind::NotFound),
        ("NO_TOOL", ErrorKind::NotFound),
        ("CONTEXT_EXISTS", ErrorKind::AlreadyExists),
        ("BAD_INDEX", ErrorKind::OutOfRange),
    ] {
        if reason == known {
            return RpcError::new(kind, message).reason(known);
        }
    }
    if reason == "NO_SUCH_RUN" {
        return RpcError::new(ErrorKind::NotFound, message).reason("NO_SUCH_RUN");
    }
    if reason == "INTERNAL" {
        return RpcError::internal(message);
    }
    let reason = known
        .into_iter()
        .find(|name| *name == reason)
        .unwrap_or("REFUSED");
    let message = match TRANSIENT.contains(&reason) {
        true => format!("{message}{STAYS_REFUSED}"),
        false => message.to_owned(),
    };
    RpcError::precondition(message).reason(reason)
}
