//! Another plan for a run: proposed, shown, asked about, applied. What `feedback`, `plan` and
//! `redo` have in common.

use super::confirm::{is_at_terminal, is_wanted};
use super::hint;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED, WAITING};
use crate::ui::out;
use crate::ui::plan_diff::{diff_json, diff_lines};
use crate::ui::style::Style;
use crate::ui::text::command;
use cairn_proto::orchestrator::apply_plan_request::Change;
use cairn_proto::orchestrator::{
    ApplyPlanRequest, ApplyPlanResponse, PlanDiff, ProposePlanRequest, ProposePlanResponse,
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Asks for another plan. It may take the planner minutes.
///
/// # Errors
/// There is none, or the run has another plan meanwhile; an interruption.
pub(super) async fn propose(
    client: &mut Client<'_>,
    mut request: ProposePlanRequest,
) -> Result<ProposePlanResponse, CliError> {
    request.request_id = new_id();
    let (context, session) = (client.context(), request.session.clone());
    let asked = client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.propose_plan(request).await }
    });
    let answer = tokio::select! {
        biased;
        answer = asked => answer,
        () = context.stop.cancelled() => {
            let message = "interrupted; the plan of the run stays as it is";
            return Err(CliError::new(message).code(INTERRUPTED));
        }
    };
    match answer {
        Err(error) => Err(refused(client, &session, error).await),
        answer => answer,
    }
}

/// Puts another plan into force.
///
/// # Errors
/// The change does not fit the run.
pub(super) async fn apply(
    client: &mut Client<'_>,
    mut request: ApplyPlanRequest,
) -> Result<ApplyPlanResponse, CliError> {
    request.request_id = new_id();
    let session = request.session.clone();
    // The same request_id each time, so that it is applied once however often it is asked.
    let applied = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.apply_plan(request).await }
        })
        .await;
    match applied {
        Err(error) => Err(refused(client, &session, error).await),
        applied => applied,
    }
}

/// Shows what a proposal changes, asks whether to apply it unless that was said already, and does.
///
/// # Errors
/// The run has another plan meanwhile; an interruption.
pub(super) async fn conclude(
    client: &mut Client<'_>,
    session: &str,
    proposed: &ProposePlanResponse,
    yes: bool,
) -> Result<ExitCode, CliError> {
    let context = client.context();
    let diff = proposed.diff.clone().unwrap_or_default();
    if !context.json {
        let (run, proposal) = (proposed.run, proposed.proposal);
        let base = diff.base_revision;
        let title = format!("proposal {proposal} for run {run}, instead of revision {base}");
        let style = Style::new(context.color);
        out::line(&style.strong(&title))?;
        out::line(&diff_lines(&diff, style).join("\n"))?;
    }
    let wanted = yes || (is_at_terminal(context) && is_wanted(context, "apply?").await?);
    if !wanted {
        return not_applied(context, session, proposed, &diff);
    }
    let request = ApplyPlanRequest {
        session: session.to_owned(),
        run: proposed.run,
        change: Some(Change::Proposal(proposed.proposal)),
        ..ApplyPlanRequest::default()
    };
    let applied = apply(client, request).await?;
    if context.json {
        let in_force = json!({"revision": applied.revision, "seq": applied.seq});
        out::json(&proposal_json(session, proposed, &diff, &in_force))?;
        return Ok(ExitCode::SUCCESS);
    }
    in_force(client, session, &applied).await?;
    Ok(ExitCode::SUCCESS)
}

/// Says what was put into force without having been proposed.
pub(super) async fn tell_applied(
    client: &Client<'_>,
    session: &str,
    applied: &ApplyPlanResponse,
) -> Result<(), CliError> {
    let context = client.context();
    let diff = applied.diff.clone().unwrap_or_default();
    if context.json {
        return out::json(&json!({
            "session": session,
            "run": applied.run,
            "revision": applied.revision,
            "seq": applied.seq,
            "diff": diff_json(&diff),
        }));
    }
    out::line(&diff_lines(&diff, Style::new(context.color)).join("\n"))?;
    in_force(client, session, applied).await
}

async fn in_force(
    client: &Client<'_>,
    session: &str,
    applied: &ApplyPlanResponse,
) -> Result<(), CliError> {
    let (revision, run) = (applied.revision, applied.run);
    out::line(&format!("revision {revision} of run {run} is in force"))?;
    out::line(&hint::go_on(client, session).await)
}

fn not_applied(
    context: &Context,
    session: &str,
    proposed: &ProposePlanResponse,
    diff: &PlanDiff,
) -> Result<ExitCode, CliError> {
    if context.json {
        out::json(&proposal_json(session, proposed, diff, &Value::Null))?;
    } else {
        let rest = format!("plan apply {session} {}", proposed.proposal);
        out::line(&format!(
            "not applied; do it with  {}",
            command(context, &rest)
        ))?;
    }
    Ok(ExitCode::from(WAITING))
}

fn proposal_json(
    session: &str,
    proposed: &ProposePlanResponse,
    diff: &PlanDiff,
    applied: &Value,
) -> Value {
    json!({
        "session": session,
        "run": proposed.run,
        "proposal": proposed.proposal,
        "diff": diff_json(diff),
        "applied": applied,
    })
}

/// An error with what to do about it.
async fn refused(client: &Client<'_>, session: &str, error: CliError) -> CliError {
    let typed = |rest: &str| command(client.context(), &format!("{rest} {session}"));
    let hint = match error.reason.as_str() {
        "PLAN_MOVED_ON" => format!(
            "see the plan that is in force with: {}\nand ask again for what is to be different",
            typed("plan show")
        ),
        "REVISION_FAILED" => format!(
            "the plan stays as it is; say it in other words, or change the plan yourself: {}",
            typed("plan edit")
        ),
        "REVISION_DROPPED" => "the plan stays as it is; ask again".to_owned(),
        "NO_SUCH_PROPOSAL" => format!(
            "proposals are told by: {}\nmake one with: {}",
            typed("log"),
            typed("feedback")
        ),
        "RUN_ENDED" => "only the newest run of a session can go on with another plan".to_owned(),
        _ => return hint::without_plan(client, session, error).await,
    };
    error.hint(hint)
}

fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}
