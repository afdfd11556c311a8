//! What the store keeps beside a journal, for listings.

use cairn_engine::event::WaitReason;
use cairn_engine::pending::reasons;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_engine::session::{Run, RunStatus, Session};
use cairn_proto::event as wire;
use cairn_proto::memory::{Header, PendingKind, SessionStatus};
use cairn_views::title;
use std::collections::{BTreeMap, BTreeSet};

/// Most needs that a header has.
const MOST_NEEDS: usize = 8;
/// Most bytes of a need in a header.
const LONGEST_NEED: usize = 512;

/// The owner's notes that go with a state. All that is written with it needs at least this level.
pub(crate) fn header(session: &Session, least_needs: u32) -> Header {
    let usage = session.usage;
    Header {
        status: status_of(session).into(),
        handled_through: session.handled_through,
        title: title::listed(session),
        agent: agent_of(session).to_owned(),
        tokens: usage.tokens(),
        cost_nano_usd: usage.cost_nano_usd,
        pending: pending_kinds(session),
        needs: session.needs.max(least_needs),
        waits_for: waits_for(session),
    }
}

/// What the session waits for that no resource has: what each attempt needs that lacks something.
fn waits_for(session: &Session) -> Vec<String> {
    let waiting = RunStatus::Waiting(WaitReason::Capability);
    let run = session.active_run().filter(|run| run.status == waiting);
    let attempts = run.into_iter().flat_map(Run::running_attempts);
    let short = attempts.filter(|(_, _, attempt)| attempt.lacks_capability());
    let needs = short.map(|(name, ..)| fitting(session.need_of(name).text()));
    let needs: BTreeSet<String> = needs.collect();
    needs.into_iter().take(MOST_NEEDS).collect()
}

/// The first parts of a need, as many as an entry has room for: without them the need is not met either.
fn fitting(mut need: String) -> String {
    if need.len() > LONGEST_NEED {
        // A byte of a comma is no part of another character.
        let end = need.as_bytes()[..=LONGEST_NEED]
            .iter()
            .rposition(|byte| *byte == b',');
        need.truncate(end.unwrap_or(0));
    }
    need
}

/// The name of the active context's agent; empty for the default agent.
pub(crate) fn agent_of(session: &Session) -> &str {
    let used = session
        .context("")
        .and_then(|context| context.agent.as_ref());
    match used {
        Some(used) if used.name != DEFAULT_AGENT => &used.name,
        _ => "",
    }
}

/// What the session is doing.
pub(crate) fn status_of(session: &Session) -> SessionStatus {
    match session.active_run().map(|run| run.status) {
        // What was asked for last may start a run, and nobody has answered it.
        None if !session.commands.is_empty() => SessionStatus::Running,
        None => SessionStatus::Idle,
        Some(RunStatus::Waiting(_)) => SessionStatus::Waiting,
        // It can be answered before it continues.
        Some(RunStatus::Paused) if session.active_run().is_some_and(Run::asks_person) => {
            SessionStatus::Waiting
        }
        Some(RunStatus::Paused) => SessionStatus::Paused,
        Some(_) => SessionStatus::Running,
    }
}

/// The open questions for listings: one entry for each reason, ordered by its number.
pub(crate) fn pending_kinds(session: &Session) -> Vec<PendingKind> {
    let mut kinds: BTreeMap<u32, PendingKind> = BTreeMap::new();
    for (reason, since) in reasons(session) {
        let kind = wire::WaitReason::from(reason) as u32;
        let since_unix_ms = i64::try_from(since).unwrap_or(i64::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_need_is_cut_between_two_capabilities() {
        let names = (0..100).map(|number| format!("capability_{number}"));
        let need = names.collect::<Vec<_>>().join(",");
        let fits = fitting(need.clone());
        assert!(fits.len() <= LONGEST_NEED, "{}", fits.len());
        let rest = need.strip_prefix(&fits).expect("its beginning");
        assert!(rest.starts_with(",capability_"), "{rest}");
        assert_eq!(fitting("gpu,web_search".to_owned()), "gpu,web_search");
        assert_eq!(fitting("x".repeat(LONGEST_NEED + 1)), "");
    }
}
