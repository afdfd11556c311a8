//! What the store keeps beside a journal, for listings.

use cairn_engine::pending::reasons;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_engine::session::{Run, RunStatus, Session};
use cairn_proto::event as wire;
use cairn_proto::memory::{Header, PendingKind, SessionStatus};
use cairn_views::title;
use std::collections::{BTreeMap, BTreeSet};

/// Most needs that a header has.
const MOST_NEEDS: usize = 8;
/// In place of more needs. It is read as the empty need, so any change of the pool wakes the session.
const ANY_NEED: &str = "*";
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

/// What the session waits for that no resource has: what each attempt needs that lacks something. A run that waits
/// for something else too, such as an approval, continues with these attempts. A paused run does not.
fn waits_for(session: &Session) -> Vec<String> {
    let run = session.active_run();
    let run = run.filter(|run| run.status != RunStatus::Paused);
    let attempts = run.into_iter().flat_map(Run::running_attempts);
    let short = attempts.filter(|(_, _, attempt)| attempt.lacks_capability());
    let needs = short.map(|(name, ..)| fitting(session.need_of(name).text()));
    listed(needs.collect())
}

fn listed(needs: BTreeSet<String>) -> Vec<String> {
    match needs.len() > MOST_NEEDS {
        true => vec![ANY_NEED.to_owned()],
        false => needs.into_iter().collect(),
    }
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
    use cairn_engine::command::{Command, PauseRun, RunLimits, StartRun};
    use cairn_engine::decide::{Agents, Compaction, Facts, Input, ToolFacts, ToolList};
    use cairn_engine::event::{AttemptRef, CommandReceived, Event};
    use cairn_engine::hooks::PresentHooks;
    use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
    use cairn_engine::pool::{Missing, Need, PoolFacts};
    use cairn_engine::rules::Rules;

    /// A tool `pay` asks a person before each call.
    fn decide(session: &mut Session, input: Input) {
        let pay = ("pay".to_owned(), ToolFacts::default());
        let facts = Facts {
            now: 1,
            not_after: 1,
            tools: &ToolList::from([pay]),
            away: &[],
            offered: &BTreeMap::new(),
            rules: Rules::none(),
            agents: Agents::none(),
            prompts: cairn_engine::decide::Prompts::built_in(),
            environment: "",
            limits: RunLimits::default(),
            result_bytes: 1 << 16,
            journal_permille: 0,
            compaction: Compaction::default(),
            responses: |_, _| Ok(String::new()),
            pool: PoolFacts::none(),
            hooks: &PresentHooks::default(),
            starts: true,
            starts_queued: true,
        };
        session.decide(input, &facts).expect("it is legal");
    }

    /// The attempt under way that needs a capability.
    fn needing(session: &Session) -> AttemptRef {
        let run = session.active_run().expect("a run");
        let mut attempts = run.running_attempts().map(|(name, ..)| name);
        let needs = |name: &AttemptRef| !session.need_of(*name).capabilities.is_empty();
        attempts.find(needs).expect("an attempt")
    }

    /// A run of two steps: the first asks a person, and no resource has what the second needs.
    fn short_beside_a_question() -> Session {
        let pays = StepDraft {
            tool: Some(ToolInvocation {
                name: "pay".to_owned(),
                arguments: "{}".to_owned(),
            }),
            ..StepDraft::default()
        };
        let searches = StepDraft {
            description: "search".to_owned(),
            capabilities: vec!["web_search>=5".to_owned()],
            ..StepDraft::default()
        };
        let plan = PlanDraft {
            order: Order::Graph,
            steps: vec![pays, searches],
        };
        let start = StartRun {
            plan: Some(plan),
            ..StartRun::default()
        };
        let mut session = Session::default();
        let create = Input::Create {
            title: "test".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: Some(("start".to_owned(), Command::StartRun(start))),
        };
        decide(&mut session, create);
        let short = Input::Short {
            attempt: needing(&session),
            missing: vec![Missing {
                capability: "web_search".to_owned(),
                level: 5,
                ..Missing::default()
            }],
            is_none: true,
        };
        decide(&mut session, short);
        session
    }

    #[test]
    fn a_shortage_is_listed_beside_a_question_and_not_while_paused() {
        let mut session = short_beside_a_question();
        let kinds = pending_kinds(&session).into_iter().map(|it| it.kind);
        let approval = wire::WaitReason::Approval as u32;
        assert!(kinds.collect::<Vec<_>>().contains(&approval));
        assert_eq!(waits_for(&session), ["web_search>=5"]);
        let pause = CommandReceived {
            request_id: "pause".to_owned(),
            command: Command::PauseRun(PauseRun::default()),
        };
        let pause = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: pause.into(),
        };
        let seq = session.seq + 1;
        session.apply(seq, &pause).expect("it fits");
        decide(&mut session, Input::HandleCommand);
        let run = session.active_run().expect("a run");
        assert_eq!(run.status, RunStatus::Paused);
        assert!(waits_for(&session).is_empty());
    }

    #[test]
    fn more_needs_than_are_listed_are_met_by_any_change() {
        let needs = |count| (0..count).map(|at| format!("capability_{at}"));
        let listed = |count| listed(needs(count).collect());
        assert_eq!(listed(MOST_NEEDS), needs(MOST_NEEDS).collect::<Vec<_>>());
        assert_eq!(listed(MOST_NEEDS + 1), [ANY_NEED]);
        assert_eq!(Need::read(ANY_NEED), Need::default());
    }

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
