//! What a session is doing, in one word.

use crate::aside::Aside;
use cairn_engine::session::{Run, RunStatus, Session};
use cairn_proto::memory::SessionStatus as Noted;
use cairn_proto::orchestrator::SessionStatus;

/// What the owner notes for listings.
pub(crate) fn status_of(session: &Session) -> Noted {
    match session.active_run().map(|run| run.status) {
        // What was asked for last may start a run, and nobody has answered it.
        None if !session.commands.is_empty() => Noted::Running,
        None => Noted::Idle,
        Some(RunStatus::Waiting(_)) => Noted::Waiting,
        // It can be answered before it goes on.
        Some(RunStatus::Paused) if session.active_run().is_some_and(Run::asks_person) => {
            Noted::Waiting
        }
        Some(_) => Noted::Running,
    }
}

/// What clients are told of a session, given what its owner noted.
pub(crate) fn public_status(noted: Noted, aside: Option<Aside>) -> SessionStatus {
    match noted {
        _ if aside.is_some() => SessionStatus::Quarantined,
        Noted::Running => SessionStatus::Running,
        Noted::Waiting => SessionStatus::Waiting,
        Noted::Idle | Noted::Unspecified => SessionStatus::Idle,
    }
}
