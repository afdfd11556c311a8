//! Open questions as text and as JSON, with the commands that answer them.

use super::approvals::{self, Wanted};
use super::compaction::{request_size, why_full};
use super::diff::FIRST;
use super::event_json::{budget, failure, full_cause, missing, plan, wait_reason};
use super::event_line::{step_facts, step_name, used_up, waits_for};
use super::hooks;
use super::live::terminal_width;
use super::pool;
use super::scopes;
use super::style::Style;
use super::text::{block, command, quoted};
use super::time::{clock, span, utc};
use super::tools::patterns;
use crate::context::Context;
use cairn_engine::text::counted;
use cairn_proto::event::{Budget, ShortageKind, WaitReason};
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
        "scopes": approvals::scopes_json(pending),
        "preview": approvals::preview_json(pending),
        "command": given(&pending.command),
        "folder": given(&pending.folder),
        "opens": given(&pending.opens),
        "cause": is_full.then(|| full_cause(pending.cause)),
        "tokens": is_full.then_some(pending.tokens),
        "window_tokens": is_full.then_some(pending.window_tokens),
        "failure": failure(pending.failure.as_ref()),
        "missing": missing(&pending.missing),
        "hook": given(&pending.hook),
        "hook_reason": given(&pending.hook_reason),
        "asked_arguments_json": given(&pending.asked_arguments_json),
        "missing_hooks": pending.missing_hooks,
        "changed_hooks": pending.changed_hooks,
    })
}

/// A text, or null.
fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
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

/// How much of the change of a write is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The first lines.
    First,
    /// All of it.
    Whole,
}

impl Extent {
    fn most(self) -> usize {
        match self {
            Self::First => FIRST,
            Self::Whole => usize::MAX,
        }
    }
}

/// An open question for people, with the commands that answer it.
pub fn pending_lines(
    context: &Context,
    style: Style,
    pending: &pb::Pending,
    extent: Extent,
) -> Vec<String> {
    let mut lines = asked_lines(style, pending, Wanted::Open);
    let columns = terminal_width().unwrap_or(usize::MAX);
    let see = || command(context, &format!("pending {} --whole", pending.session));
    lines.extend(change_lines(style, pending, extent, columns, || {
        format!("see them with: {}", see())
    }));
    if pending.answered {
        lines.push("  answered  yes; it has not taken effect yet".to_owned());
        return lines;
    }
    lines.push("  decide with".to_owned());
    if let Some((confirm, meaning)) = before_deciding(context.lacks_hooks, pending) {
        lines.push(format!("    {confirm}"));
        lines.push(style.dim(&format!("      {meaning}")));
    }
    for (words, meaning) in answers(pending) {
        lines.push(format!("    {}", decide(context, pending, &words)));
        lines.push(style.dim(&format!("      {meaning}")));
    }
    lines
}

/// The change that a write would make, if the call is one. `rest` says how to see the lines that are left out.
pub fn change_lines(
    style: Style,
    pending: &pb::Pending,
    extent: Extent,
    columns: usize,
    rest: impl FnOnce() -> String,
) -> Vec<String> {
    let Some(shown) = approvals::change(style, pending, extent.most(), columns) else {
        return Vec::new();
    };
    let mut lines = shown.lines;
    if shown.left_out > 0 {
        let more = counted(shown.left_out, "more line");
        lines.push(style.dim(&format!("    … {more}; {}", rest())));
    }
    lines
}

/// An open question for people. `wanted` is what a person wants an approval to cover.
pub fn asked_lines(style: Style, pending: &pb::Pending, wanted: Wanted<'_>) -> Vec<String> {
    let id = escape(&pending.id);
    let title = format!("? {id}  {}", why(pending));
    let mut lines = vec![style.asks(&title)];
    let run = match pending.step {
        0 => format!("run {}", pending.run),
        step => format!("run {}, step {step}", pending.run),
    };
    let mut facts = vec![("in", format!("{}, {run}", pending.session))];
    facts.extend(about(pending, wanted));
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
fn about(pending: &pb::Pending, wanted: Wanted<'_>) -> Vec<(&'static str, String)> {
    let mut facts = vec![("tool", pending.tool.clone())];
    facts.extend(approvals::call(pending));
    facts.extend([
        ("asked for", pending.asked_arguments_json.clone()),
        ("hook", pending.hook.clone()),
        ("says", pending.hook_reason.clone()),
        (
            "hooks",
            hooks::changes(&pending.missing_hooks, &pending.changed_hooks),
        ),
        ("asks", pending.question.clone()),
        ("choices", pending.choices.join(" · ")),
        ("used", used(pending)),
        ("always", approvals::covers(pending, wanted)),
    ]);
    if pending.reason() == WaitReason::Context {
        let size = request_size(pending.tokens, pending.window_tokens);
        let why = why_full(pending.cause(), pending.failure.as_ref());
        facts.extend([("request", size), ("because", why)]);
    }
    if pending.reason() == WaitReason::Capability {
        let lacks = pool::counts(&pending.missing, ShortageKind::None);
        facts.extend([
            ("lacks", lacks),
            ("helps", pool::helps(&pending.missing).join("\n")),
        ]);
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
        WaitReason::Hook if is_changed(pending) => "hooks of the run are missing or changed",
        WaitReason::Hook => match pending.step {
            0 => "a hook requires an approval of the run",
            _ => "a hook requires an approval of the step",
        },
        _ => waits_for(pending.reason),
    }
}

/// The command that gives this answer.
pub fn decide(context: &Context, pending: &pb::Pending, words: &str) -> String {
    let id = quoted(&pending.id);
    command(context, &format!("decide {} {id} {words}", pending.session))
}

/// What may be answered, and what it means. Words of `cairn decide`, after the id of the question.
pub fn answers(pending: &pb::Pending) -> Vec<(String, String)> {
    let fixed = match pending.reason() {
        WaitReason::Approval if !pending.scopes.is_empty() => {
            return approving(scopes::further(pending));
        }
        WaitReason::Hook if !is_changed(pending) => OF_HOOK.as_slice(),
        reason => fixed_answers(reason),
    };
    let owned = |(words, meaning): &(&str, &str)| ((*words).to_owned(), (*meaning).to_owned());
    fixed.iter().map(owned).collect()
}

/// The command that a person gives before they decide, and what it does, if hooks are missing because the settings
/// file is not confirmed.
pub fn before_deciding(
    lacks_hooks: bool,
    pending: &pb::Pending,
) -> Option<(&'static str, &'static str)> {
    (lacks_hooks && is_changed(pending)).then_some((
        "cairn config trust",
        "first: the settings file is not confirmed, so its hooks do not count; then look again with retry",
    ))
}

/// Whether hooks of the run are missing or changed. Otherwise one of them requires an approval.
pub fn is_changed(pending: &pb::Pending) -> bool {
    !pending.missing_hooks.is_empty() || !pending.changed_hooks.is_empty()
}

/// The answers about a call whose scopes are known.
fn approving(further: Vec<scopes::Further>) -> Vec<(String, String)> {
    let [(approve, this_once), _, (deny, meaning)] = APPROVING;
    let scoped = further.into_iter().map(|scope| {
        let words = format!("approve --scope {}", quoted(&scope.id));
        let covers = scope.covers;
        (
            words,
            format!("make it, and in this session without asking: {covers}"),
        )
    });
    let first = (approve.to_owned(), this_once.to_owned());
    let last = (deny.to_owned(), meaning.to_owned());
    std::iter::once(first).chain(scoped).chain([last]).collect()
}

/// The answers about a call: once, for further ones like it, and none.
const APPROVING: [(&str, &str); 3] = [
    ("approve", "make this call, this once"),
    (
        "approve --always",
        "make it, and further ones like it in this session without asking",
    ),
    (
        "deny --reason '…'",
        "do not make it: the model is told so, a tool step fails",
    ),
];

/// The answers to a hook that requires an approval of a run or a step.
const OF_HOOK: [(&str, &str); 2] = [
    ("approve", "let it begin"),
    ("deny --reason '…'", "it fails, and does not begin"),
];

fn fixed_answers(reason: WaitReason) -> &'static [(&'static str, &'static str)] {
    match reason {
        WaitReason::Budget => &[
            ("retry", "continue with as much again"),
            ("fail", "the run fails"),
        ],
        WaitReason::Approval => &APPROVING,
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
        WaitReason::Capability => &[(
            "fail",
            "the step fails, or the turn; else it continues in cairn serve or cairn resume once a resource has it",
        )],
        WaitReason::Hook => &[
            (
                "approve",
                "use the present ones; the run continues without those that are missing",
            ),
            ("retry", "look for the earlier ones again"),
            ("fail", "the run fails"),
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
    use cairn_proto::event::{Condition, Failure, FullCause, MissingCapability, Plan, PlanStep};

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
    fn hooks_of_an_unconfirmed_file_are_confirmed_first() {
        let missing = pb::Pending {
            missing_hooks: vec!["guard".to_owned()],
            ..asks(WaitReason::Hook)
        };
        let (command, _) = before_deciding(true, &missing).unwrap();
        assert_eq!(command, "cairn config trust");
        assert_eq!(before_deciding(false, &missing), None);
        assert_eq!(before_deciding(true, &asks(WaitReason::Hook)), None);
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
        let lines = asked_lines(Style::new(false), &pending, Wanted::Open);
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

    fn others() -> [(&'static str, pb::Pending); 5] {
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
        let lacking = pb::Pending {
            missing: vec![MissingCapability {
                capability: "web_search".to_owned(),
                tools: vec!["web_search".to_owned()],
                ..MissingCapability::default()
            }],
            ..asks(WaitReason::Capability)
        };
        [
            ("a question of several lines", question),
            ("a plan", review),
            ("a capability that no resource has", lacking),
            ("a call in doubt", doubt),
            ("a request that does not fit", full),
        ]
    }

    #[test]
    fn each_question_is_shown_with_what_may_be_answered() {
        let questions = approvals().into_iter().chain(budgets()).chain(others());
        let shown = questions.map(|(name, pending)| {
            let lines = asked_lines(Style::new(false), &pending, Wanted::Open).join("\n");
            let answers = answers(&pending).into_iter();
            let answers = answers.map(|(words, meaning)| format!("[{words}] {meaning}\n"));
            format!("--- {name}\n{lines}\n{}", answers.collect::<String>())
        });
        insta::assert_snapshot!("questions", shown.collect::<String>());
    }

    fn shown(pending: &pb::Pending) -> Vec<String> {
        asked_lines(Style::new(false), pending, Wanted::Open)
    }

    fn words(pending: &pb::Pending) -> Vec<String> {
        let answers = answers(pending).into_iter();
        answers.map(|(words, _)| words).collect()
    }

    #[test]
    fn a_call_that_hooks_changed_is_shown_with_what_the_model_wrote() {
        let pending = pb::Pending {
            tool: "record".to_owned(),
            arguments_json: r#"{"text":"b"}"#.to_owned(),
            asked_arguments_json: r#"{"text":"a"}"#.to_owned(),
            hook: "guard".to_owned(),
            hook_reason: "look\u{1b} first".to_owned(),
            ..asks(WaitReason::Approval)
        };
        let expected = [
            "? q-1  a call needs a person's approval",
            "  in        s, run 1, step 2",
            "  tool      record",
            r#"  arguments {"text":"b"}"#,
            r#"  asked for {"text":"a"}"#,
            "  hook      guard",
            "  says      look\\u{1b} first",
        ];
        assert_eq!(shown(&pending)[..expected.len()], expected);
        let json = pending_json(&pending);
        assert_eq!(json["hook"], "guard");
        assert_eq!(json["asked_arguments_json"], r#"{"text":"a"}"#);
        let none = pending_json(&asks(WaitReason::Approval));
        assert_eq!(none["hook"], Value::Null);
    }

    #[test]
    fn a_hook_asks_for_an_approval_or_for_what_to_do_without_it() {
        let step = pb::Pending {
            hook: "release".to_owned(),
            hook_reason: "it is Friday".to_owned(),
            ..asks(WaitReason::Hook)
        };
        let title = "? q-1  a hook requires an approval of the step";
        assert_eq!(shown(&step)[0], title);
        assert_eq!(words(&step), ["approve", "deny --reason '…'"]);
        let changed = pb::Pending {
            step: 0,
            missing_hooks: vec!["guard".to_owned()],
            changed_hooks: vec!["format".to_owned()],
            ..asks(WaitReason::Hook)
        };
        let expected = [
            "? q-1  hooks of the run are missing or changed",
            "  in        s, run 1",
            "  hooks     guard is not configured any more; format is configured differently now",
        ];
        assert_eq!(shown(&changed), expected);
        assert_eq!(words(&changed), ["approve", "retry", "fail"]);
        assert_eq!(pending_json(&changed)["missing_hooks"], json!(["guard"]));
    }

    #[test]
    fn a_call_that_is_approved_alone_is_answered_for_itself_alone() {
        let alone = pb::ApprovalScope {
            id: "call".to_owned(),
            scope: None,
        };
        let pending = pb::Pending {
            scopes: vec![alone],
            ..asks(WaitReason::Approval)
        };
        let answers = answers(&pending).into_iter();
        let words: Vec<String> = answers.map(|(words, _)| words).collect();
        assert_eq!(words, ["approve", "deny --reason '…'"]);
        assert_eq!(pending_json(&pending)["scopes"], json!([]));
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
