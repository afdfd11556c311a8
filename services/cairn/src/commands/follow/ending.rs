//! What is said when a run has ended, or waits.

use super::Following;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, run_code};
use crate::ui::approvals::gist;
use crate::ui::compaction::{request_size, why_full};
use crate::ui::event_line::{failure_text, step_name, waits_for};
use crate::ui::hooks::changes;
use crate::ui::live::{size, wrap};
use crate::ui::out;
use crate::ui::pool::shortage;
use crate::ui::progress::{End, Progress};
use crate::ui::questions::{answers, before_deciding, decide, is_changed, why};
use crate::ui::style::Style;
use crate::ui::text::{command, quoted};
use crate::ui::time::span;
use crate::workspace::resume_command;
use cairn_proto::event::{Failure, FailureKind, WaitReason};
use cairn_proto::orchestrator::{GetReportRequest, ListPendingRequest, Pending, RunStatus};
use cairn_rpc::text::{clip, escape};
use cairn_tools::write_output;
use cairn_views::figures::cost;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// The report in the output folder, unless there is one already.
const OWN: &str = "report.md";

/// Says how the run ended or what it waits for; the exit code says it too.
pub(super) async fn tell(
    client: &Client<'_>,
    what: &Following,
    progress: &Progress,
) -> Result<ExitCode, CliError> {
    let context = client.context();
    let style = Style::new(context.color);
    let code = run_code(match &progress.end {
        Some(End::Completed(_)) => RunStatus::Completed,
        Some(End::Failed(_)) => RunStatus::Failed,
        Some(End::Cancelled(_)) => RunStatus::Cancelled,
        None if progress.paused.is_some() => RunStatus::Paused,
        None => RunStatus::Waiting,
    });
    if context.json {
        if code == 0 && !progress.is_turn {
            report_file(client, what, progress).await?;
        }
        return Ok(ExitCode::from(code));
    }
    out::line("")?;
    match &progress.end {
        Some(End::Completed(answer)) => {
            match only_compacted(progress) {
                Some(done) => paragraph(context, &style.good("done  "), &done)?,
                None => paragraph(context, &style.good("answer"), answer)?,
            }
            if progress.is_turn {
                item(&style.good("used  "), &figures(progress))?;
                return look(context, &what.session, style).map(|()| ExitCode::SUCCESS);
            }
            let file = report_file(client, what, progress).await?;
            let file = file.map_or_else(
                || command(context, &format!("report {}", what.session)),
                |path| path.display().to_string(),
            );
            item(
                &style.good("report"),
                &format!("{} · {}", escape(&file), figures(progress)),
            )?;
        }
        Some(End::Failed(failure)) => failed(client, style, progress, failure)?,
        Some(End::Cancelled(reason)) => {
            let reason = clip(reason, 1024);
            let text = if reason.is_empty() {
                "by request".to_owned()
            } else {
                reason
            };
            item(&style.bad("ended "), &text)?;
        }
        None => match &progress.paused {
            Some(reason) => paused(context, what, style, reason)?,
            None => waiting(client, what, progress, style).await?,
        },
    }
    look(context, &what.session, style)?;
    Ok(ExitCode::from(code))
}

/// What a run did that compacted a context and nothing else: it has no answer.
fn only_compacted(progress: &Progress) -> Option<String> {
    let compacted: Vec<&str> = progress.compacted.iter().map(|it| &*it.what).collect();
    let is_alone = progress.is_turn && progress.tool_turns == 0 && !compacted.is_empty();
    is_alone.then(|| compacted.join("\n"))
}

/// The commands that show more.
fn look(context: &Context, session: &str, style: Style) -> Result<(), CliError> {
    let look = ["tree", "report", "watch"];
    let look = look.map(|verb| command(context, &format!("{verb} {session}")));
    item(&style.dim("look  "), &look.join(" · "))
}

fn item(name: &str, text: &str) -> Result<(), CliError> {
    out::line(&format!("{name}  {text}"))
}

/// A text of several lines, each of them escaped and set in; on a terminal broken to its width.
fn paragraph(context: &Context, name: &str, text: &str) -> Result<(), CliError> {
    let columns = match context.live {
        true => size().0.clamp(40, 108) - 8,
        false => usize::MAX,
    };
    let lines = text.trim().lines().map(escape);
    let lines: Vec<String> = lines.flat_map(|line| wrap(&line, columns)).collect();
    let mut lines = lines.iter();
    item(name, lines.next().map_or("", String::as_str))?;
    for line in lines {
        out::line(format!("        {line}").trim_end())?;
    }
    Ok(())
}

/// What the run took. A turn has no steps.
fn figures(progress: &Progress) -> String {
    let usage = progress.usage;
    let tokens = usage.input_tokens + usage.output_tokens;
    let ms = progress.latest_ms.saturating_sub(progress.started_ms);
    let time = span(u64::try_from(ms).unwrap_or(0));
    let count = |number: u64, noun: &str| match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    };
    let cost = match cost(&usage.into()) {
        cost if cost.starts_with('$') => cost,
        cost => format!("cost {cost}"),
    };
    let steps = count(progress.steps.len() as u64, "step");
    let steps = Some(steps).filter(|_| !progress.is_turn);
    let rest = [
        count(progress.tool_turns.into(), "tool turn"),
        count(tokens, "token"),
        cost,
        time,
    ];
    let parts: Vec<String> = steps.into_iter().chain(rest).collect();
    parts.join(", ")
}

/// The report's file: the one that the run wrote, or one that is written now and in the place of
/// no other. None if the work is done elsewhere.
async fn report_file(
    client: &Client<'_>,
    what: &Following,
    progress: &Progress,
) -> Result<Option<PathBuf>, CliError> {
    let output = &client.context().config().workspace.output;
    let own = output.join(OWN);
    if client.attached().is_remote() {
        return Ok(None);
    }
    if let Some(name) = &progress.report {
        return Ok(Some(output.join(name)));
    }
    let request = GetReportRequest {
        session: what.session.clone(),
        run: what.run,
        at_seq: 0,
    };
    let report = client
        .orchestrator()
        .get_report(request)
        .await?
        .into_inner();
    let other = format!("report-{}-{}.md", what.session, what.run);
    let write = |name: &str, replaces| write_output(output, name, &report.markdown, replaces);
    let written = match write(OWN, false) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            write(&other, true).map(|()| output.join(other))
        }
        written => written.map(|()| own),
    };
    match written {
        Ok(path) => Ok(Some(path)),
        Err(error) => {
            tracing::warn!(%error, folder = %output.display(), "cannot write the report");
            Ok(None)
        }
    }
}

fn failed(
    client: &Client<'_>,
    style: Style,
    progress: &Progress,
    failure: &Failure,
) -> Result<(), CliError> {
    let place = match progress.failed_step(failure) {
        Some(step) => format!("step {} {}: ", step.number, step.name),
        None if progress.steps.is_empty() && !progress.is_turn => "planning: ".to_owned(),
        None => String::new(),
    };
    let why = failure_text(Some(failure));
    item(&style.bad("failed"), &format!("{place}{why}"))?;
    let again = "start again with another goal or plan";
    let hook = blocked_by(&failure.message).map(|rest| command(client.context(), &rest));
    let by_hook = hook.map(|hook| format!("see what the hook answers with: {}", escape(&hook)));
    let what = match failure.kind() {
        FailureKind::HookBlocked => by_hook.as_deref().unwrap_or(again),
        _ if failure.reason == "CONTEXT_FULL" => {
            "take a model with a larger window, or ask for less at a time"
        }
        _ if failure.reason == "capability" => "see what the pool has with: cairn pool",
        FailureKind::LimitExceeded => "allow more with --max-tool-turns, or ask for less at a time",
        FailureKind::Config => "see the settings with: cairn check-config",
        FailureKind::Llm => "check the model's address, key and limits, then run it again",
        FailureKind::PlanParse => "say the goal in other words, or give a plan with --plan",
        FailureKind::Tool => "see what the tool was asked and said in the tree, then run it again",
        _ => again,
    };
    item("do    ", what)?;
    // A process elsewhere has models of its own.
    if failure.kind() != FailureKind::Llm || client.attached().is_remote() {
        return Ok(());
    }
    item("model ", &escape(client.context().config().default_model()))
}

/// The command that tries the hook which blocked, by the words of the failure: `hook 'NAME' blocked POINT: REASON`.
fn blocked_by(message: &str) -> Option<String> {
    let (name, rest) = message.strip_prefix("hook '")?.split_once("' blocked ")?;
    let point = rest.split(':').next().unwrap_or_default();
    Some(format!(
        "hook try {} --point {}",
        quoted(name),
        quoted(point)
    ))
}

fn paused(context: &Context, what: &Following, style: Style, reason: &str) -> Result<(), CliError> {
    let why = match clip(reason, 1024) {
        reason if reason.is_empty() => "by request".to_owned(),
        reason => reason,
    };
    item(&style.asks("paused"), &why)?;
    item("then  ", &resume_command(context, &what.session))
}

async fn waiting(
    client: &Client<'_>,
    what: &Following,
    progress: &Progress,
    style: Style,
) -> Result<(), CliError> {
    let context = client.context();
    let why = waits_for(progress.waits.unwrap_or_default());
    item(&style.asks("waits "), why)?;
    let request = ListPendingRequest {
        session: what.session.clone(),
        ..ListPendingRequest::default()
    };
    let answer = client.orchestrator().list_pending(request).await?;
    for question in answer.into_inner().pending {
        if question.run != what.run {
            continue;
        }
        for line in asked(&question, progress) {
            out::line(&format!("        {line}"))?;
        }
        if let Some((confirm, meaning)) = before_deciding(context.lacks_hooks, &question) {
            let meaning = style.dim(meaning);
            out::line(&format!("          {confirm}   {meaning}"))?;
        }
        for (answer, meaning) in answers(&question) {
            let decide = decide(context, &question, &answer);
            out::line(&format!("          {decide}   {}", style.dim(&meaning)))?;
        }
    }
    let resume = resume_command(context, &what.session);
    let lacks_capability = progress.waits == Some(WaitReason::Capability.into());
    if !lacks_capability {
        return item("then  ", &resume);
    }
    let serve = command(context, "serve");
    let then = after_shortage(client.attached().is_remote(), &resume, &serve);
    item("then  ", &then)
}

/// What continues a run that lacks a capability. A process that only this command needed ends with it.
fn after_shortage(is_remote: bool, resume: &str, serve: &str) -> String {
    match is_remote {
        true => format!("it continues by itself once a resource has it; to follow it: {resume}"),
        false => format!(
            "register a resource or add an executor; then go on with: {resume}, or keep {serve} running"
        ),
    }
}

/// What is asked, in lines that are safe to show.
fn asked(question: &Pending, progress: &Progress) -> Vec<String> {
    let call = clip(&gist(question), 300);
    match question.reason() {
        WaitReason::Budget => {
            let tokens = progress.usage.input_tokens + progress.usage.output_tokens;
            let turns = progress.tool_turns;
            vec![format!(
                "{} after {turns} tool turns and {tokens} tokens",
                why(question)
            )]
        }
        WaitReason::Approval => {
            let hook = (!question.hook.is_empty()).then(|| required(question));
            let call = format!("step {}: {call}", question.step);
            [call].into_iter().chain(hook).collect()
        }
        WaitReason::Hook => vec![of_hook(question)],
        WaitReason::Question => {
            let mut lines = vec![format!(
                "step {}: {}",
                question.step,
                clip(&question.question, 1024)
            )];
            let choices = question.choices.iter();
            lines.extend(choices.map(|choice| format!("· {}", clip(choice, 300))));
            lines
        }
        WaitReason::PlanReview => {
            let steps = question.plan.iter().flat_map(|plan| &plan.steps);
            let steps = steps.zip(1..).map(|(step, number)| {
                let name = clip(&step_name(step), 100);
                format!("{number}. {name}")
            });
            steps.collect()
        }
        WaitReason::Context => {
            let size = request_size(question.tokens, question.window_tokens);
            vec![
                format!("step {}: {size}", question.step),
                why_full(question.cause(), question.failure.as_ref()),
            ]
        }
        WaitReason::Capability => {
            let mut lines = shortage(&question.missing);
            let place = format!("step {}: ", question.step);
            lines
                .iter_mut()
                .take(1)
                .for_each(|line| line.insert_str(0, &place));
            lines
        }
        WaitReason::InDoubt | WaitReason::Unspecified => vec![format!(
            "step {}: {call}, sent with key {}",
            question.step,
            clip(&question.call_key, 80)
        )],
    }
}

/// What a hook asks of a run or a step, or which hooks changed.
fn of_hook(question: &Pending) -> String {
    match question.step {
        _ if is_changed(question) => changes(&question.missing_hooks, &question.changed_hooks),
        0 => required(question),
        step => format!("step {step}: {}", required(question)),
    }
}

/// Which hook requires an approval, and why.
fn required(question: &Pending) -> String {
    let why = clip(&question.hook_reason, 300);
    let colon = if why.is_empty() { "" } else { ": " };
    let hook = clip(&question.hook, 128);
    format!("hook {hook} requires an approval{colon}{why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::progress::Compacted;
    use cairn_engine::failure::Failure as Failed;
    use cairn_engine::hooks::{Outcome, Point};
    use cairn_proto::event::{FullCause, MissingCapability};

    #[test]
    fn a_step_that_lacks_a_capability_says_what_helps() {
        let question = Pending {
            reason: WaitReason::Capability.into(),
            step: 2,
            missing: vec![MissingCapability {
                capability: "web_search".to_owned(),
                tools: vec!["web_search".to_owned()],
                ..MissingCapability::default()
            }],
            ..Pending::default()
        };
        let expected = [
            "step 2: web_search: 0/0",
            "an executor with the tool web_search would have it: see cairn pool",
        ];
        assert_eq!(asked(&question, &Progress::new(1, 0)), expected);
    }

    #[test]
    fn a_run_that_lacks_a_capability_continues_where_a_process_stays() {
        let there = after_shortage(true, "cairn resume s", "cairn serve");
        assert!(there.starts_with("it continues by itself"), "{there}");
        let here = after_shortage(false, "cairn resume s", "cairn serve");
        let expected = "register a resource or add an executor; then go on with: cairn resume s, or keep \
                        cairn serve running";
        assert_eq!(here, expected);
    }

    #[test]
    fn a_hook_is_named_with_its_reason() {
        let question = Pending {
            reason: WaitReason::Hook.into(),
            hook: "guard".to_owned(),
            hook_reason: "a\u{1b}release".to_owned(),
            step: 2,
            ..Pending::default()
        };
        let expected = ["step 2: hook guard requires an approval: a\\u{1b}release"];
        assert_eq!(asked(&question, &Progress::new(1, 0)), expected);
        let changed = Pending {
            changed_hooks: vec!["guard".to_owned()],
            ..question
        };
        let expected = ["guard is configured differently now"];
        assert_eq!(asked(&changed, &Progress::new(1, 0)), expected);
    }

    #[test]
    fn a_hook_that_blocked_a_run_can_be_tried() {
        let hook = |text: &str| Outcome {
            hook: "guard".to_owned(),
            text: text.to_owned(),
            ..Outcome::new(0)
        };
        for text in ["it did not answer: 5s", ""] {
            let failure = Failed::blocked(Point::PreRequest, &hook(text));
            let tried = blocked_by(&failure.message);
            assert_eq!(
                tried.as_deref(),
                Some("hook try guard --point PreRequest"),
                "{text}"
            );
        }
        assert_eq!(blocked_by("no such model"), None);
    }

    #[test]
    fn the_figures_of_a_turn_have_no_steps() {
        let progress = |is_turn| {
            let mut progress = Progress::default();
            progress.is_turn = is_turn;
            progress.tool_turns = 2;
            progress.latest_ms = 1_500;
            progress
        };
        let plan = figures(&progress(false));
        assert_eq!(plan, "0 steps, 2 tool turns, 0 tokens, $0.0000, 1.5 s");
        let turn = figures(&progress(true));
        assert_eq!(turn, "2 tool turns, 0 tokens, $0.0000, 1.5 s");
    }

    #[test]
    fn a_run_without_replies_has_its_compactions_for_an_answer() {
        let mut progress = Progress::new(1, 0);
        progress.is_turn = true;
        assert_eq!(only_compacted(&progress), None);
        let compacted = |what: &str| Compacted {
            step: 1,
            what: what.to_owned(),
            kept: false,
        };
        progress.compacted = vec![compacted("one"), compacted("two")];
        assert_eq!(only_compacted(&progress).as_deref(), Some("one\ntwo"));
        progress.tool_turns = 1;
        assert_eq!(only_compacted(&progress), None);
    }

    #[test]
    fn a_request_that_does_not_fit_says_how_long_it_is_and_why() {
        let question = Pending {
            reason: WaitReason::Context.into(),
            step: 2,
            tokens: 9_100,
            window_tokens: 8_000,
            cause: FullCause::DoesNotShrink.into(),
            ..Pending::default()
        };
        let lines = asked(&question, &Progress::new(1, 0));
        assert_eq!(
            lines[0],
            "step 2: about 9,100 tokens, for a window of 8,000"
        );
        assert!(
            lines[1].starts_with("the summary has no fewer tokens"),
            "{lines:?}"
        );
    }
}
