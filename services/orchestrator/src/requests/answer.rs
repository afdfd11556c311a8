//! Which event answers a command, and how.

use crate::store::NEWER_VERSION;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::failure::Failure;
use cairn_engine::limits::CONTINUE_ELSEWHERE;
use cairn_engine::refusal::{Refusal, RefusalKind};
use cairn_rpc::{ErrorKind, RpcError, STAYS_REFUSED};

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
        EventKind::CommandRefused(refused) => Err(refusal(refused.reason, &refused.message)),
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
            let error = RpcError::new(error.kind(), message).reason(Refusal::Limit.name());
            error.meta("limit", limit)
        }
        _ => error,
    }
}

/// The error for a stored command, which says so if a newer version handles it: under another request_id,
/// the command would be carried out twice.
pub(super) fn left_to_newer(error: RpcError) -> RpcError {
    match error.reason_name() {
        NEWER_VERSION => error.and_message(
            "; this request is stored, and a newer process handles it: send it again only with the \
             same request_id",
        ),
        _ => error,
    }
}

/// The planner's failure, or what became of the plan that it was asked about.
fn no_revision(failure: &Failure) -> RpcError {
    let reason = match Refusal::named(&failure.reason) {
        Some(own @ (Refusal::PlanMovedOn | Refusal::RevisionDropped)) => own,
        _ => Refusal::RevisionFailed,
    };
    refusal(reason, &failure.message).meta("failure", &failure.reason)
}

/// The refusal of a command that is stored.
fn refusal(reason: Refusal, message: &str) -> RpcError {
    match reason.may_pass() {
        true => refusal_of_unstored(reason, &format!("{message}{STAYS_REFUSED}")),
        false => refusal_of_unstored(reason, message),
    }
}

/// The refusal of a command of which nothing is stored: a retry may succeed.
pub(super) fn refusal_of_unstored(reason: Refusal, message: &str) -> RpcError {
    let kind = match reason.kind() {
        RefusalKind::InvalidArgument => ErrorKind::InvalidArgument,
        RefusalKind::NotFound => ErrorKind::NotFound,
        RefusalKind::AlreadyExists => ErrorKind::AlreadyExists,
        RefusalKind::OutOfRange => ErrorKind::OutOfRange,
        RefusalKind::FailedPrecondition => ErrorKind::FailedPrecondition,
        // Its message is logged and never sent.
        RefusalKind::Internal => return RpcError::internal(message),
    };
    RpcError::new(kind, message).reason(reason.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::event::{CommandRefused, RevisionFailed};
    use cairn_engine::failure::FailureKind;
    use cairn_engine::message::Usage;
    use std::collections::BTreeSet;
    use tonic::Status;

    /// The error of a client whose request has this answer.
    fn sent(answer: EventKind) -> RpcError {
        let event = Event {
            at: 1,
            answers: 7,
            principal: None,
            kind: answer,
        };
        let answer = answer_of(event, 8, 7).expect("it answers the command");
        let error = answer.expect_err("it is a refusal");
        RpcError::from_status(&Status::from(error))
    }

    #[test]
    fn every_refusal_reaches_the_client_with_its_own_reason_and_kind() {
        let mut reasons = BTreeSet::new();
        for reason in Refusal::ALL.iter().copied() {
            let refused = CommandRefused {
                reason,
                message: "why".to_owned(),
            };
            let error = sent(refused.into());
            assert_eq!(error.reason_name(), reason.name());
            assert!(reasons.insert(reason.name()), "{reason:?}");
            assert_eq!(
                format!("{:?}", error.kind()),
                format!("{:?}", reason.kind()),
                "{reason:?}"
            );
            let stays = error.message().ends_with(STAYS_REFUSED);
            assert_eq!(stays, reason.may_pass(), "{reason:?}");
        }
    }

    #[test]
    fn a_plan_that_does_not_come_has_one_of_three_reasons() {
        for (failure, expected) in [
            ("PLAN_MOVED_ON", Refusal::PlanMovedOn),
            ("REVISION_DROPPED", Refusal::RevisionDropped),
            ("BadJson", Refusal::RevisionFailed),
            // A planner may fail for a reason for which commands are refused.
            ("INTERNAL", Refusal::RevisionFailed),
        ] {
            let error = sent(
                RevisionFailed {
                    run: 1,
                    request: 7,
                    failure: Failure::new(FailureKind::Other, failure, "why"),
                    usage: Usage::default(),
                    duration_ms: 0,
                }
                .into(),
            );
            assert_eq!(error.reason_name(), expected.name());
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
            assert_eq!(error.metadata("failure"), Some(failure));
        }
    }
}
