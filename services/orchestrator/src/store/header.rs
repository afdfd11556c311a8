//! What the store keeps beside a journal, for listings.

use cairn_engine::session::{Run, RunStatus, Session};
use cairn_proto::memory::{Header, SessionStatus};
use cairn_views::title;

/// The owner's notes that go with a state.
pub(crate) fn header(session: &Session) -> Header {
    Header {
        status: status_of(session).into(),
        handled_through: session.handled_through,
        title: title::listed(session),
    }
}

/// What the session is doing.
pub(crate) fn status_of(session: &Session) -> SessionStatus {
    match session.active_run().map(|run| run.status) {
        // What was asked for last may start a run, and nobody has answered it.
        None if !session.commands.is_empty() => SessionStatus::Running,
        None => SessionStatus::Idle,
        Some(RunStatus::Waiting(_)) => SessionStatus::Waiting,
        // It can be answered before it goes on.
        Some(RunStatus::Paused) if session.active_run().is_some_and(Run::asks_person) => {
            SessionStatus::Waiting
        }
        Some(_) => SessionStatus::Running,
    }
}
