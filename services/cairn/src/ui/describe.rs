//! Sessions, runs and steps as text and as JSON.

use super::event_json::{failure, plan_step, principal, short, usage, wait_reason};
use super::event_line::{failure_text, step_name};
use super::modes;
use super::pool::LONG_WAIT_MS;
use super::style::Style;
use super::time::{clock, span, utc};
use cairn_engine::message;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_proto::event::Usage;
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::clip;
use cairn_views::figures::{dollars, input_tokens, output_tokens};
use serde_json::{Value, json};

/// What a session is doing: `idle`, `running`, `waiting`, `paused`, `quarantined`.
pub fn session_status(number: i32) -> String {
    let status = pb::SessionStatus::try_from(number).unwrap_or_default();
    short(status.as_str_name(), "SESSION_STATUS_")
}

/// Why a session is quarantined, if it is: `claims`, `writes_lost`.
pub fn quarantine_reason(number: i32) -> Option<String> {
    let reason = pb::QuarantineReason::try_from(number).unwrap_or_default();
    let is_reported = reason != pb::QuarantineReason::Unspecified;
    is_reported.then(|| short(reason.as_str_name(), "QUARANTINE_REASON_"))
}

/// What a session or a run is doing, where it may be that nobody holds the store: what runs then
/// does so on paper only, and is `interrupted`.
pub fn seen(status: String, is_held: bool) -> String {
    match status.as_str() {
        "running" | "planning" if !is_held => "interrupted".to_owned(),
        _ => status,
    }
}

/// What a run is doing: `planning`, `running`, `waiting`, `paused`, `completed`, `failed`,
/// `cancelled`.
pub fn run_status(number: i32) -> String {
    let status = pb::RunStatus::try_from(number).unwrap_or_default();
    short(status.as_str_name(), "RUN_STATUS_")
}

/// What a step is doing: `pending`, `running`, `completed`, `failed`, `skipped`.
pub fn step_status(number: i32) -> String {
    let status = pb::StepStatus::try_from(number).unwrap_or_default();
    short(status.as_str_name(), "STEP_STATUS_")
}

/// The status of a session or of a run in its colour.
pub fn painted(status: &str, style: Style) -> String {
    match status {
        "completed" => style.good(status),
        "failed" | "cancelled" | "quarantined" => style.bad(status),
        "waiting" | "paused" | "interrupted" => style.asks(status),
        "running" | "planning" => style.active(status),
        _ => status.to_owned(),
    }
}

/// Calls, tokens and price: `2 model calls, 1200 (900 from a cache) + 340 tokens, $0.0056`; without a
/// price if it is not known.
pub fn usage_text(usage: Option<&Usage>) -> String {
    let usage: message::Usage = usage.copied().unwrap_or_default().into();
    let calls = match usage.model_calls {
        1 => "1 model call".to_owned(),
        calls => format!("{calls} model calls"),
    };
    let (input, output) = (input_tokens(&usage), output_tokens(&usage));
    let mut text = format!("{calls}, {input} + {output} tokens");
    if usage.cost_nano_usd > 0 {
        text.push_str(&format!(", ${}", dollars(usage.cost_nano_usd)));
    }
    text
}

/// The agent of a run for people: `agent reviewer`, and whether it has changed since. None for the default agent as
/// it is now.
pub fn agent_line(run: &pb::Run) -> Option<String> {
    let agent = run.agent.as_ref().map_or("", |agent| &*agent.name);
    let name = match agent {
        "" => DEFAULT_AGENT,
        name => name,
    };
    let shown = clip(name, 128);
    match run.agent_changed {
        true => Some(format!(
            "agent {shown}, as it was when the run began: it has changed since"
        )),
        false => (name != DEFAULT_AGENT).then(|| format!("agent {shown}")),
    }
}

/// A session with its latest run as JSON, by the names of the contract.
pub fn session_json(session: &pb::Session) -> Value {
    json!({
        "id": session.id,
        "title": session.title,
        "status": session_status(session.status),
        "agent": session.agent,
        "mode": modes::name(session.mode()),
        "created": utc(session.created_unix_ms),
        "updated": utc(session.updated_unix_ms),
        "last_seq": session.last_seq,
        "journal_permille": session.journal_permille,
        "forked_from": session.forked_from.as_ref().map(|origin| {
            json!({"session": origin.session, "seq": origin.seq})
        }),
        "quarantine_reason": quarantine_reason(session.quarantine_reason),
        "runs": session.runs,
        "latest_run": session.latest_run.as_ref().map(run_json),
        "decisions": session.decisions.iter().map(decision_json).collect::<Vec<_>>(),
    })
}

fn decision_json(decision: &pb::PastDecision) -> Value {
    json!({
        "at": utc(decision.at_unix_ms),
        "run": decision.run,
        "step": decision.step,
        "what": decision.what,
        "principal": principal(decision.principal.as_ref()),
    })
}

/// A run as JSON, by the names of the contract.
pub fn run_json(run: &pb::Run) -> Value {
    let waiting = run.status == i32::from(pb::RunStatus::Waiting);
    json!({
        "number": run.number,
        "goal": run.goal,
        "status": run_status(run.status),
        "wait_reason": waiting.then(|| wait_reason(run.wait_reason)),
        "agent": run.agent.as_ref().map(|agent| json!({"name": agent.name, "digest": agent.digest})),
        "agent_changed": run.agent_changed,
        "started": utc(run.started_unix_ms),
        "ended": (run.ended_unix_ms > 0).then(|| utc(run.ended_unix_ms)),
        "answer": run.answer,
        "failure": failure(run.failure.as_ref()),
        "cancel_reason": run.cancel_reason,
        "usage": usage(run.usage.as_ref()),
        "tool_turns": run.tool_turns,
        "steps": run.steps,
        "steps_done": run.steps_done,
    })
}

/// A step with its state as JSON, by the names of the contract.
pub fn step_json(step: &pb::PlannedStep) -> Value {
    json!({
        "number": step.number,
        "step": step.step.as_ref().map(plan_step),
        "key": step.key,
        "status": step_status(step.status),
        "response": step.response,
        "summary": step.summary,
        "failure": failure(step.failure.as_ref()),
        "skip_reason": step.skip_reason,
        "attempts": step.attempts,
        "tool_turns": step.tool_turns,
        "usage": usage(step.usage.as_ref()),
        "started": (step.started_unix_ms > 0).then(|| utc(step.started_unix_ms)),
        "ended": (step.ended_unix_ms > 0).then(|| utc(step.ended_unix_ms)),
        "notes": step.notes,
        "resources": step.resources,
        "waited_ms": step.waited_ms,
        "waited_for": step.waited_for,
        "lacks": step.lacks,
        "lacks_since": (step.lacks_since_unix_ms > 0).then(|| utc(step.lacks_since_unix_ms)),
    })
}

/// A step with its number and what came of it, for people.
pub fn step_lines(step: &pb::PlannedStep, style: Style) -> Vec<String> {
    let name = clip(&step.step.as_ref().map(step_name).unwrap_or_default(), 100);
    let status = step_status(step.status);
    let (mark, more) = match status.as_str() {
        "completed" => (style.good("✓"), clip(&step.summary, 200)),
        "failed" => (style.bad("✗"), failure_text(step.failure.as_ref())),
        "running" => (style.active("→"), format!("attempt {}", step.attempts)),
        "skipped" => (style.dim("-"), clip(&step.skip_reason, 200)),
        _ => (" ".to_owned(), String::new()),
    };
    let took = match step.ended_unix_ms.saturating_sub(step.started_unix_ms) {
        ms @ 1.. if step.started_unix_ms > 0 => {
            format!("  {}", style.dim(&span(ms.unsigned_abs())))
        }
        _ => String::new(),
    };
    let mut lines = vec![format!("  {mark} {:>2} {name}{took}", step.number)];
    if !more.is_empty() && more != name {
        lines.push(format!("       {}", style.dim(&more)));
    }
    lines
}

/// What a step needs, which resources carry it out, how long it waited for them and for what. None for a step that needs
/// nothing, did not wait, and ran in one resource.
pub fn pool_line(step: &pb::PlannedStep) -> Option<String> {
    let needed = step.step.as_ref().map(|step| &*step.capabilities);
    let needed = needed.unwrap_or_default();
    let is_plain = matches!(step.resources.as_slice(), [] | [_]);
    let is_short = step.waited_for.is_empty() && step.waited_ms < LONG_WAIT_MS;
    if needed.is_empty() && is_short && is_plain {
        return None;
    }
    let list = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| clip(name, 128)).collect();
        names.join(", ")
    };
    let mut parts = Vec::new();
    if !needed.is_empty() {
        parts.push(format!("needs {}", list(needed)));
    }
    if !step.resources.is_empty() {
        parts.push(format!("on {}", list(&step.resources)));
    }
    if step.waited_ms >= LONG_WAIT_MS || !step.waited_for.is_empty() && step.waited_ms > 0 {
        let what = match step.waited_for.is_empty() {
            true => "a free slot".to_owned(),
            false => list(&step.waited_for),
        };
        parts.push(format!("waited {} for {what}", span(step.waited_ms)));
    }
    if !step.lacks.is_empty() {
        let since = clock(step.lacks_since_unix_ms);
        parts.push(format!("waits for {} since {since} UTC", list(&step.lacks)));
    }
    Some(parts.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{AgentUse, PlanStep};

    #[test]
    fn what_runs_without_a_process_is_interrupted() {
        for (status, alone) in [
            ("running", "interrupted"),
            ("planning", "interrupted"),
            ("waiting", "waiting"),
            ("completed", "completed"),
        ] {
            assert_eq!(seen(status.to_owned(), true), status);
            assert_eq!(seen(status.to_owned(), false), alone);
        }
    }

    #[test]
    fn states_have_short_names() {
        assert_eq!(session_status(3), "waiting");
        assert_eq!(session_status(5), "paused");
        assert_eq!(run_status(4), "completed");
        assert_eq!(step_status(5), "skipped");
        assert_eq!(run_status(99), "unspecified");
    }

    #[test]
    fn a_run_says_which_agent_it_uses_and_whether_that_is_the_present_one() {
        let run = |name: &str, agent_changed| pb::Run {
            agent: (!name.is_empty()).then(|| AgentUse {
                name: name.to_owned(),
                digest: "d".to_owned(),
            }),
            agent_changed,
            ..pb::Run::default()
        };
        let since = "as it was when the run began: it has changed since";
        assert_eq!(agent_line(&run("", false)), None);
        assert_eq!(agent_line(&run("default", false)), None);
        assert_eq!(
            agent_line(&run("reviewer", false)),
            Some("agent reviewer".to_owned())
        );
        for (name, shown) in [("reviewer", "reviewer"), ("", "default")] {
            let expected = format!("agent {shown}, {since}");
            assert_eq!(agent_line(&run(name, true)), Some(expected));
        }
    }

    #[test]
    fn only_a_step_that_began_took_time() {
        let step = |started_unix_ms, ended_unix_ms| pb::PlannedStep {
            number: 3,
            started_unix_ms,
            ended_unix_ms,
            ..pb::PlannedStep::default()
        };
        let line = |step| step_lines(&step, Style::new(false)).remove(0);
        assert!(line(step(1_000, 3_500)).ends_with("  2.5 s"));
        for none in [step(0, 3_500), step(1_000, 0), step(0, 0)] {
            assert!(!line(none.clone()).ends_with(" s"), "{none:?}");
        }
    }

    #[test]
    fn a_step_says_what_it_needed_and_how_it_got_it() {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        let step = |needed: &[&str]| pb::PlannedStep {
            step: Some(PlanStep {
                capabilities: texts(needed),
                ..PlanStep::default()
            }),
            resources: texts(&["executor"]),
            ..pb::PlannedStep::default()
        };
        assert_eq!(pool_line(&step(&[])), None);
        let plain = pool_line(&step(&["file_ops"]));
        assert_eq!(plain.as_deref(), Some("needs file_ops · on executor"));
        let late = pb::PlannedStep {
            waited_ms: 2_000,
            ..step(&[])
        };
        let expected = "on executor · waited 2.0 s for a free slot";
        assert_eq!(pool_line(&late).as_deref(), Some(expected));
        let waits = pb::PlannedStep {
            resources: Vec::new(),
            waited_for: texts(&["web_search>=5"]),
            lacks: texts(&["web_search>=5"]),
            lacks_since_unix_ms: 3_723_000,
            ..step(&["web_search>=5"])
        };
        let expected = "needs web_search>=5 · waits for web_search>=5 since 01:02:03 UTC";
        assert_eq!(pool_line(&waits).as_deref(), Some(expected));
    }

    #[test]
    fn prices_are_left_out_if_unknown() {
        let usage = |cost_nano_usd| Usage {
            input_tokens: 12,
            output_tokens: 3,
            cost_nano_usd,
            model_calls: 2,
            ..Usage::default()
        };
        let free = "2 model calls, 12 + 3 tokens";
        assert_eq!(usage_text(Some(&usage(0))), free);
        assert_eq!(usage_text(Some(&usage(1))), format!("{free}, $0.000000001"));
        let dear = usage_text(Some(&usage(5_600_000_000)));
        assert_eq!(dear, format!("{free}, $5.6000"));
    }

    #[test]
    fn kinds_of_tokens_have_their_own_numbers() {
        let usage = Usage {
            input_tokens: 9600,
            cached_input_tokens: 9000,
            cache_write_tokens: 200,
            output_tokens: 340,
            reasoning_tokens: 120,
            model_calls: 1,
            ..Usage::default()
        };
        let text = "1 model call, 9600 (9000 from a cache, 200 to a cache) + 340 (120 for reasoning) \
                    tokens";
        assert_eq!(usage_text(Some(&usage)), text);
    }
}
