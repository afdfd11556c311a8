//! What a session is doing, in one word.

use crate::aside::Aside;
use cairn_engine::message::Usage;
use cairn_engine::pending::pending;
use cairn_engine::session::{Run, RunStatus, Session};
use cairn_proto::event as wire;
use cairn_proto::memory::{PendingKind, SessionStatus as Noted};
use cairn_proto::orchestrator::SessionStatus;
use std::collections::BTreeMap;

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

/// What all runs used up.
pub(crate) fn usage_of(session: &Session) -> Usage {
    let mut usage = Usage::default();
    for run in &session.runs {
        usage.add(&run.spent.usage);
    }
    usage
}

/// The open questions for listings: one entry for each reason, ordered by its number.
pub(crate) fn pending_kinds(session: &Session) -> Vec<PendingKind> {
    let mut kinds: BTreeMap<u32, PendingKind> = BTreeMap::new();
    for open in pending(session) {
        let kind = wire::WaitReason::from(open.reason()) as u32;
        let since_unix_ms = i64::try_from(open.since).unwrap_or(i64::MAX);
        let known = kinds.entry(kind).or_insert(PendingKind {
            kind,
            since_unix_ms,
            count: 0,
        });
        known.since_unix_ms = known.since_unix_ms.min(since_unix_ms);
        known.count += 1;
    }
    kinds.into_values().collect()
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
