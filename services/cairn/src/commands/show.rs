//! `cairn show`: one session at a glance.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::describe::{
    agent_line, painted, pool_line, run_status, seen, session_json, session_status, step_json,
    step_lines, usage_text,
};
use crate::ui::event_json::order;
use crate::ui::event_line::{failure_text, nearly_full};
use crate::ui::modes;
use crate::ui::out;
use crate::ui::questions::{Extent, pending_json, pending_lines};
use crate::ui::style::Style;
use crate::ui::text::{block, command};
use crate::ui::time::{clock, span, utc};
use crate::workspace::resume_command;
use cairn_engine::text::counted;
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::{clip, escape};
use serde_json::{Value, json};
use std::process::ExitCode;

/// What can be said to `cairn show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of each step it says what it needs, which resources carry it out, and how long it waited for them and for
what; see cairn pool.

With --json one object: session (with latest_run), plan (revision, order, steps with their state),
pending. A session that nobody works on, such as after kill -9, is interrupted, and so is its run.

Examples:
  cairn show
  cairn show s-7f3k
  cairn show --json | jq .session.status")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

/// Decisions that are shown; cairn log has all.
const MOST_DECISIONS: usize = 8;

/// All that is shown of a session.
#[derive(Debug)]
struct Shown {
    session: pb::Session,
    plan: Option<pb::GetPlanResponse>,
    pending: Vec<pb::Pending>,
}

/// Shows a session with its latest run, its plan, and how to go on.
///
/// # Errors
/// No such session.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Read).await?;
    let id = client.resolve(args.session.as_deref()).await?;
    let shown = read(&mut client, id).await?;
    let is_held = !client.attached().is_reader();
    if context.json {
        let plan = shown.plan.as_ref().map(|plan| {
            let steps: Vec<_> = plan.steps.iter().map(step_json).collect();
            json!({"revision": plan.revision, "order": order(plan.order), "steps": steps})
        });
        let pending: Vec<_> = shown.pending.iter().map(pending_json).collect();
        let session = seen_json(&shown.session, is_held);
        out::json(&json!({"session": session, "plan": plan, "pending": pending}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::new(context.color);
    let mut lines = session_lines(&shown.session, is_held, style);
    if let Some(run) = &shown.session.latest_run {
        lines.extend(run_lines(run, is_held, style));
    }
    if let Some(plan) = shown.plan.as_ref().filter(|plan| !plan.steps.is_empty()) {
        let steps = counted(plan.steps.len(), "step");
        lines.push(String::new());
        lines.push(format!("plan ({steps}, {})", order(plan.order)));
        lines.extend(plan.steps.iter().flat_map(|step| shown_step(step, style)));
    }
    lines.extend(decision_lines(&shown.session));
    for pending in &shown.pending {
        lines.push(String::new());
        lines.extend(pending_lines(context, style, pending, Extent::First));
    }
    lines.push(String::new());
    lines.extend(go_on(context, &shown.session, is_held));
    out::line(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn read(client: &mut Client<'_>, id: String) -> Result<Shown, CliError> {
    let mut orchestrator = client.orchestrator();
    let request = pb::GetSessionRequest {
        session: id.clone(),
    };
    let answer = orchestrator.get_session(request).await?;
    let session = answer.into_inner().session.unwrap_or_default();
    let request = pb::ListPendingRequest {
        session: id.clone(),
        ..pb::ListPendingRequest::default()
    };
    let pending = orchestrator
        .list_pending(request)
        .await?
        .into_inner()
        .pending;
    let plan = match &session.latest_run {
        None => None,
        Some(run) => {
            let request = pb::GetPlanRequest {
                session: id,
                run: run.number,
                at_seq: 0,
                with_resources: true,
            };
            Some(orchestrator.get_plan(request).await?.into_inner())
        }
    };
    Ok(Shown {
        session,
        plan,
        pending,
    })
}

/// A step with what came of it, and how it got its resources.
fn shown_step(step: &pb::PlannedStep, style: Style) -> Vec<String> {
    let mut lines = step_lines(step, style);
    let pool = pool_line(step);
    lines.extend(pool.map(|line| format!("       {}", style.dim(&line))));
    lines
}

/// The session as JSON, as it looks from here.
fn seen_json(session: &pb::Session, is_held: bool) -> Value {
    let mut json = session_json(session);
    json["status"] = seen(session_status(session.status), is_held).into();
    if let Some(run) = &session.latest_run {
        json["latest_run"]["status"] = seen(run_status(run.status), is_held).into();
    }
    json
}

fn session_lines(session: &pb::Session, is_held: bool, style: Style) -> Vec<String> {
    let status = painted(&seen(session_status(session.status), is_held), style);
    let id = style.strong(&escape(&session.id));
    let mut lines = vec![format!("session  {id} · {status}")];
    match session.quarantine_reason() {
        pb::QuarantineReason::Claims => {
            lines.push("aside    its owners died on it five times".to_owned());
        }
        pb::QuarantineReason::WritesLost => {
            lines.push("aside    the store has lost acknowledged writes of it".to_owned());
        }
        pb::QuarantineReason::Unspecified => {}
    }
    if !session.title.is_empty() {
        lines.push(format!("title    {}", clip(&session.title, 256)));
    }
    if let Some(origin) = &session.forked_from {
        let (from, seq) = (escape(&origin.session), origin.seq);
        lines.push(format!("forked   from {from} at {seq}"));
    }
    if !session.agent.is_empty() {
        let (agent, context) = (clip(&session.agent, 128), escape(&session.active_context));
        lines.push(format!("agent    {agent}, of context {context}"));
    }
    lines.push(format!("mode     {}", modes::name(session.mode())));
    let (created, updated) = (utc(session.created_unix_ms), utc(session.updated_unix_ms));
    lines.push(format!("created  {created}, changed {updated}"));
    let runs = counted(session.runs, "run");
    lines.push(format!("journal  {} events, {runs}", session.last_seq));
    if session.runs > 1 {
        let used = usage_text(session.usage.as_ref());
        lines.push(format!("used     {used}, by all runs"));
    }
    if let Some(full) = nearly_full(session.journal_permille) {
        lines.push(style.asks(&format!("full     {full}")));
    }
    lines
}

fn run_lines(run: &pb::Run, is_held: bool, style: Style) -> Vec<String> {
    let status = painted(&seen(run_status(run.status), is_held), style);
    let mut lines = vec![String::new(), format!("run {}    {status}", run.number)];
    if !run.goal.is_empty() {
        lines.push(format!("goal     {}", clip(&run.goal, 1000)));
    }
    if let Some(agent) = agent_line(run) {
        // In the column of the other values.
        let agent = agent.replacen("agent ", "agent    ", 1);
        lines.push(match run.agent_changed {
            true => style.asks(&agent),
            false => agent,
        });
    }
    let took = match run.ended_unix_ms.saturating_sub(run.started_unix_ms) {
        ms @ 1.. => format!(", {}", span(ms.unsigned_abs())),
        _ => String::new(),
    };
    lines.push(format!(
        "used     {} of {} steps, {} tool turns, {}{took}",
        run.steps_done,
        run.steps,
        run.tool_turns,
        usage_text(run.usage.as_ref())
    ));
    if !run.answer.is_empty() {
        lines.push(format!(
            "answer   {}",
            block(&run.answer).replace('\n', "\n         ")
        ));
    }
    if let Some(failure) = &run.failure {
        lines.push(style.bad(&format!("failed   {}", failure_text(Some(failure)))));
    }
    if !run.cancel_reason.is_empty() {
        lines.push(format!("because  {}", clip(&run.cancel_reason, 1000)));
    }
    lines
}

/// Who decided what, latest last.
fn decision_lines(session: &pb::Session) -> Vec<String> {
    let decision = |made: &pb::PastDecision| {
        let subject = made.principal.as_ref().map_or("", |by| &by.subject);
        let place = match (made.run, made.step) {
            (_, 1..) => format!(" (step {})", made.step),
            _ => String::new(),
        };
        let (time, what) = (clock(made.at_unix_ms), clip(&made.what, 200));
        format!("  {time} {}  {what}{place}", escape(subject))
    };
    let decisions = session.decisions.iter();
    let skipped = decisions.len().saturating_sub(MOST_DECISIONS);
    let lines: Vec<_> = decisions.skip(skipped).map(decision).collect();
    match lines.is_empty() {
        true => lines,
        false => [vec![String::new(), "decisions".to_owned()], lines].concat(),
    }
}

/// A session that is quarantined, as `cairn resume` takes it to go on.
fn released(session: &pb::Session) -> String {
    match session.quarantine_reason() {
        // Only a person can know what it means that calls may be made again.
        pb::QuarantineReason::WritesLost => format!("{} --accept-loss", session.id),
        pb::QuarantineReason::Claims | pb::QuarantineReason::Unspecified => session.id.clone(),
    }
}

/// The commands that lead on from here.
fn go_on(context: &Context, session: &pb::Session, is_held: bool) -> Vec<String> {
    let id = &session.id;
    let status = seen(session_status(session.status), is_held);
    let mut lines = Vec::new();
    let latest = session.latest_run.as_ref();
    let run = latest.map(|run| run.status());
    // A turn has no plan.
    let is_turn = latest.is_some_and(|run| !run.context.is_empty());
    let words: &[&str] = match status.as_str() {
        "quarantined" => {
            let resume = resume_command(context, &released(session));
            lines.push(format!("go on    {resume}"));
            &["log", "cancel"]
        }
        _ if run == Some(pb::RunStatus::Paused) => {
            lines.push(format!("go on    {}", resume_command(context, id)));
            &["plan show", "watch", "cancel"]
        }
        "running" => &["plan show", "watch", "pause", "cancel"],
        "interrupted" => {
            lines.push(format!("go on    {}", resume_command(context, id)));
            &["watch", "cancel"]
        }
        "waiting" => &["pending", "cancel"],
        _ => &["tree", "report", "log", "plan show"],
    };
    let typed = |word: &&str| format!("look     {}", command(context, &format!("{word} {id}")));
    let words = words
        .iter()
        .filter(|word| !is_turn || **word != "plan show");
    lines.extend(words.map(typed));
    if is_turn {
        let chat = command(context, &format!("chat {id}"));
        lines.push(format!("say      {chat}"));
    }
    lines
}
