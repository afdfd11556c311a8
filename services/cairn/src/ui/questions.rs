//! Open questions as text and as JSON, with the commands that answer them.

use super::compaction::{request_size, why_full};
use super::event_json::{budget, failure, full_cause, plan, wait_reason};
use super::event_line::{step_facts, step_name, used_up, waits_for};
use super::style::Style;
use super::text::{block, command, quoted};
use super::time::{clock, span, utc};
use super::tools::{covered, patterns};
use crate::context::Context;
use cairn_proto::event::{Budget, Condition, WaitReason};
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::{clip, escape};
use cairn_views::figures::dollars;
use serde_json::{Value, json};
use std::collections::HashMap;

/// An open question as JSON, by the names of the contract.
pub fn pending_json(pending: &pb::Pending) -> Value {
    let from = pending.settle_after_unix_ms;
    let is_budget = pending.reason() == WaitReason::Budget;
    let is_full = pending.reason() == WaitReason::Context;
    json!({
        "session": pending.session,
        "id": pending.id,
        "reason": wait_reason(pending.reason),
        "run": pending.run,
        "step": pending.step,
        "tool": pending.tool,
        "arguments_json": pending.arguments_json,
        "call_key": pending.call_key,
        "settle_after": (from > 0).then(|| utc(from)),
        "answered": pending.answered,
        "since": utc(pending.since_unix_ms),
        "question": pending.question,
        "choices": pending.choices,
        "budget": is_budget.then(|| budget(pending.budget)),
        "used": is_budget.then_some(pending.used),
        "allowed": is_budget.then_some(pending.allowed),
        "waiting": is_budget.then_some(pending.waiting),
        "plan": plan(pending.plan.as_ref()),
        "proposal": pending.proposal,
        "always_covers": pending.always_covers.as_ref().map(|it| patterns(&it.when)),
        "cause": is_full.then(|| full_cause(pending.cause)),
        "tokens": is_full.then_some(pending.tokens),
        "window_tokens": is_full.then_some(pending.window_tokens),
        "failure": failure(pending.failure.as_ref()),
    })
}

/// A session whose questions cannot be listed, as JSON.
pub fn unreadable_json(session: &pb::UnreadableSession) -> Value {
    json!({
        "session": session.session,
        "unreadable": session.reason,
        "message": session.message,
    })
}

/// A session whose questions cannot be listed, for people.
pub fn unreadable_line(session: &pb::UnreadableSession) -> String {
    let pb::UnreadableSession {
        session, message, ..
    } = session;
    escape(&format!(
        "! session {session} may have open questions: {message}"
    ))
    .into_owned()
}

/// An open question for people, with the commands that answer it.
pub fn pending_lines(context: &Context, style: Style, pending: &pb::Pending) -> Vec<String> {
    let mut lines = asked_lines(style, pending, &[]);
    if pending.answered {
        lines.push("  answered  yes; it has not taken effect yet".to_owned());
        return lines;
    }
    lines.push("  decide with".to_owned());
    for (words, meaning) in answers(pending) {
        lines.push(format!("    {}", decide(context, pending, words)));
        lines.push(style.dim(&format!("      {meaning}")));
    }
    lines
}

/// An open question for people. `when` is what a person wants an approval of further calls to cover; empty for
/// the values of the call.
pub fn asked_lines(style: Style, pending: &pb::Pending, when: &[Condition]) -> Vec<String> {
    let id = escape(&pending.id);
    let title = format!("? {id}  {}", why(pending));
    let mut lines = vec![style.asks(&title)];
    let run = match pending.step {
        0 => format!("run {}", pending.run),
        step => format!("run {}, step {step}", pending.run),
    };
    let mut facts = vec![("in", format!("{}, {run}", pending.session))];
    facts.extend(about(pending, when));
    for (name, text) in facts {
        let begins = std::iter::once(name).chain(std::iter::repeat(""));
        let texts = block(&text);
        let texts = begins.zip(texts.lines());
        lines.extend(texts.map(|(name, text)| format!("  {name:<10}{text}")));
    }
    let steps = pending.plan.iter().flat_map(|plan| &plan.steps).zip(1..);
    let numbers = steps
        .clone()
        .map(|(step, number)| (step.id.as_str(), number));
    let numbers: HashMap<&str, u32> = numbers.collect();
    for (step, number) in steps {
        lines.push(format!("  {number:>8}. {}", clip(&step_name(step), 160)));
        let facts = step_facts(step, &numbers).into_iter();
        lines.extend(facts.map(|fact| style.dim(&format!("            {fact}"))));
    }
    lines
}

/// What belongs to the question, by name.
fn about(pending: &pb::Pending, when: &[Condition]) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("tool", pending.tool.clone()),
        ("arguments", pending.arguments_json.clone()),
        ("asks", pending.question.clone()),
        ("choices", pending.choices.join(" · ")),
        ("used", used(pending)),
        ("always", always(pending, when)),
    ];
    if pending.reason() == WaitReason::Context {
        let size = request_size(pending.tokens, pending.window_tokens);
        let why = why_full(pending.cause(), pending.failure.as_ref());
        facts.extend([("request", size), ("because", why)]);
    }
    if pending.reason() == WaitReason::InDoubt {
        facts.push(("call key", pending.call_key.clone()));
        let from = match pending.settle_after_unix_ms {
            ..=0 => "at once".to_owned(),
            from => format!(
                "not before {} UTC, because until then the call may still run",
                clock(from)
            ),
        };
        facts.push(("answer", format!("takes effect {from}")));
    }
    facts
}

/// The further calls that an approval for the session covers: those with the values of the call, or with those
/// of `when`.
pub fn always(pending: &pb::Pending, when: &[Condition]) -> String {
    let covers = pending.always_covers.as_ref();
    match covers {
        _ if !when.is_empty() => {
            let mut parts = vec![covered(when)];
            let others = covers.into_iter().flat_map(|it| &it.when);
            let others = others.filter(|it| !when.iter().any(|named| named.name == it.name));
            parts.extend(others.map(|it| match it.pattern.is_empty() {
                true => format!("no {}", it.name),
                false => format!("any {}", it.name),
            }));
            format!("would cover calls with {}", parts.join(", "))
        }
        None if pending.reason() == WaitReason::Approval => {
            "not known: no process runs the tools, or values of this call cannot be compared"
                .to_owned()
        }
        None => String::new(),
        Some(covers) if covers.when.is_empty() => "would cover calls without arguments".to_owned(),
        Some(covers) => format!("would cover calls with {}", covered(&covers.when)),
    }
}

/// What was used of a budget, and of how much.
fn used(pending: &pb::Pending) -> String {
    let (used, allowed) = (pending.used, pending.allowed);
    if pending.reason() != WaitReason::Budget || allowed == 0 {
        return String::new();
    }
    match pending.budget() {
        Budget::Cost => format!("${} of ${}", dollars(used), dollars(allowed)),
        Budget::Time => format!("{} of {}", span(used), span(allowed)),
        Budget::Tokens => format!("{used} of {allowed} tokens"),
        Budget::Calls => format!(
            "{used} of {allowed} tool calls made; {} more asked for",
            pending.waiting
        ),
        Budget::ToolTurns => format!("{used} of {allowed} tool turns without an end"),
        Budget::Turns | Budget::Unspecified => format!("{used} of {allowed} tool turns"),
    }
}

/// Why the run waits, in a few words.
pub fn why(pending: &pb::Pending) -> &'static str {
    match pending.reason() {
        WaitReason::Budget => used_up(pending.budget),
        _ => waits_for(pending.reason),
    }
}

/// The command that gives this answer.
pub fn decide(context: &Context, pending: &pb::Pending, words: &str) -> String {
    let id = quoted(&pending.id);
    command(context, &format!("decide {} {id} {words}", pending.session))
}

/// What may be answered, and what it means.
pub fn answers(pending: &pb::Pending) -> &'static [(&'static str, &'static str)] {
    match pending.reason() {
        WaitReason::Budget => &[
            ("retry", "continue with as much again"),
            ("fail", "the run fails"),
        ],
        WaitReason::Approval => &[
            ("approve", "make this call, this once"),
            (
                "approve --always",
                "make it, and further ones like it in this session without asking",
            ),
            (
                "deny --reason '…'",
                "do not make it: the model is told so, a tool step fails",
            ),
        ],
        WaitReason::Question => &[("answer '…'", "what the model is told")],
        WaitReason::PlanReview => &[
            ("approve", "carry it out"),
            (
                "deny --reason '…'",
                "make another: say what is to be different",
            ),
        ],
        WaitReason::Context => &[
            ("retry", "check the request again, and compact anew"),
            (
                "answer '…'",
                "let the model write a summary, with this text as the prompt",
            ),
            ("fail", "the step fails, or the turn"),
        ],
        WaitReason::InDoubt | WaitReason::Unspecified => &[
            ("done --output '…'", "it was carried out, with this result"),
            ("retry", "send it again, with the same key"),
            ("skip", "go on without it"),
            ("fail", "the step fails"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{Failure, FullCause, Plan, PlanStep};

    fn asks(reason: WaitReason) -> pb::Pending {
        pb::Pending {
            id: "q-1".to_owned(),
            session: "s".to_owned(),
            reason: reason.into(),
            run: 1,
            step: 2,
            ..pb::Pending::default()
        }
    }

    fn condition(name: &str, pattern: &str) -> Condition {
        Condition {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
        }
    }

    #[test]
    fn a_step_of_a_plan_comes_after_the_numbers_that_are_shown() {
        let step = |id: &str, after: &[&str]| PlanStep {
            id: id.to_owned(),
            title: "look".to_owned(),
            depends_on: after.iter().map(|&id| id.to_owned()).collect(),
            ..PlanStep::default()
        };
        // As after a revision: the first step is new.
        let plan = Plan {
            steps: vec![step("new", &[]), step("1", &["new"]), step("2", &["1"])],
            ..Plan::default()
        };
        let pending = pb::Pending {
            plan: Some(plan),
            ..asks(WaitReason::PlanReview)
        };
        let lines = asked_lines(Style::new(false), &pending, &[]);
        let after = lines
            .iter()
            .filter_map(|line| line.trim().strip_prefix("after "));
        assert_eq!(after.collect::<Vec<_>>(), ["1", "2"]);
    }

    /// What is not known of a call, and what is: all of it, and some of it.
    fn approvals() -> [(&'static str, pb::Pending); 3] {
        let of = |always_covers| pb::Pending {
            tool: "record".to_owned(),
            arguments_json: r#"{"path":"docs/a"}"#.to_owned(),
            always_covers,
            ..asks(WaitReason::Approval)
        };
        let some = vec![condition("path", "docs/**"), condition("text", "")];
        [
            ("an approval", of(None)),
            (
                "an approval without arguments",
                of(Some(pb::Coverage::default())),
            ),
            (
                "an approval of some calls",
                of(Some(pb::Coverage { when: some })),
            ),
        ]
    }

    fn budgets() -> [(&'static str, pb::Pending); 5] {
        [
            ("turns", Budget::Turns, 5, 5),
            ("tokens", Budget::Tokens, 900, 800),
            ("cost", Budget::Cost, 5_600_000, 5_000_000),
            ("time", Budget::Time, 61_000, 60_000),
            ("calls", Budget::Calls, 4, 4),
        ]
        .map(|(name, budget, used, allowed)| {
            let pending = pb::Pending {
                budget: budget.into(),
                used,
                allowed,
                waiting: 2,
                ..asks(WaitReason::Budget)
            };
            (name, pending)
        })
    }

    fn others() -> [(&'static str, pb::Pending); 4] {
        let question = pb::Pending {
            question: "tool 'ops__deploy' asks:\nDeploy?\u{1b}[2J\n- env: prod".to_owned(),
            choices: vec!["yes".to_owned(), "no".to_owned()],
            ..asks(WaitReason::Question)
        };
        let step = PlanStep {
            title: "Look".to_owned(),
            ..PlanStep::default()
        };
        let plan = Plan {
            steps: vec![step],
            ..Plan::default()
        };
        let review = pb::Pending {
            step: 0,
            plan: Some(plan),
            ..asks(WaitReason::PlanReview)
        };
        let doubt = pb::Pending {
            call_key: "k".to_owned(),
            settle_after_unix_ms: 3_723_000,
            ..asks(WaitReason::InDoubt)
        };
        let full = pb::Pending {
            cause: FullCause::NoSummary.into(),
            tokens: 9_100,
            window_tokens: 8_000,
            failure: Some(Failure {
                reason: "RateLimit".to_owned(),
                message: "slow down".to_owned(),
                ..Failure::default()
            }),
            ..asks(WaitReason::Context)
        };
        [
            ("a question of several lines", question),
            ("a plan", review),
            ("a call in doubt", doubt),
            ("a request that does not fit", full),
        ]
    }

    #[test]
    fn each_question_is_shown_with_what_may_be_answered() {
        let questions = approvals().into_iter().chain(budgets()).chain(others());
        let shown = questions.map(|(name, pending)| {
            let lines = asked_lines(Style::new(false), &pending, &[]).join("\n");
            let answers = answers(&pending).iter();
            let answers = answers.map(|(words, meaning)| format!("[{words}] {meaning}\n"));
            format!("--- {name}\n{lines}\n{}", answers.collect::<String>())
        });
        insta::assert_snapshot!("questions", shown.collect::<String>());
    }

    #[test]
    fn a_request_that_does_not_fit_is_json_with_its_cause() {
        let [.., (_, full)] = others();
        let json = pending_json(&full);
        assert_eq!(json["cause"], "no_summary");
        assert_eq!(
            (&json["tokens"], &json["window_tokens"]),
            (&json!(9_100), &json!(8_000))
        );
        assert_eq!(json["failure"]["reason"], "RateLimit");
        let other = pending_json(&asks(WaitReason::Question));
        for name in ["cause", "tokens", "window_tokens", "failure"] {
            assert_eq!(other[name], Value::Null, "{name}");
        }
    }

    /// `path` holds for all paths of a call, also for those that are named here as open.
    #[test]
    fn patterns_of_a_person_are_shown_in_place_of_the_values() {
        let values = [("message", "hi"), ("path", "docs/a"), ("note", "")];
        let when = values
            .map(|(name, pattern)| condition(name, pattern))
            .to_vec();
        let pending = pb::Pending {
            always_covers: Some(pb::Coverage { when }),
            ..asks(WaitReason::Approval)
        };
        for (when, shown) in [
            (vec![], "message = hi, path = docs/a, no note"),
            (
                vec![condition("message", "**")],
                "message = **, any path, no note",
            ),
            (
                vec![condition("path", "docs/**"), condition("note", "x*")],
                "path = docs/**, note = x*, any message",
            ),
        ] {
            let lines = asked_lines(Style::new(false), &pending, &when).join("\n");
            let shown = format!("would cover calls with {shown}");
            assert!(lines.contains(&shown), "{lines}");
        }
        let unknown = asks(WaitReason::Approval);
        let shown = always(&unknown, &[condition("message", "**")]);
        assert_eq!(shown, "would cover calls with message = **");
    }

    #[test]
    fn a_session_that_cannot_be_read_is_named_with_the_reason() {
        let session = pb::UnreadableSession {
            session: "s-1".to_owned(),
            reason: "NEWER_VERSION".to_owned(),
            message: "event 3 of session \"s-1\" was written by a newer version".to_owned(),
        };
        let line = unreadable_line(&session);
        assert!(line.contains("s-1") && line.contains("event 3"), "{line}");
        assert_eq!(unreadable_json(&session)["unreadable"], "NEWER_VERSION");
    }
}
