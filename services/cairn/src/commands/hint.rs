//! What to do next.

use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_proto::orchestrator::{GetSessionRequest, ListRunsRequest, Run, RunStatus};

/// How to go on with a session after a change, or where to look if its run has ended with it. A process
/// that came only for the change ends now, and leaves no owner that could continue.
pub(super) async fn go_on(client: &Client<'_>, session: &str) -> String {
    let context = client.context();
    let typed = |verb: &str| command(context, &format!("{verb} {session}"));
    let ended = [
        None,
        Some(RunStatus::Completed),
        Some(RunStatus::Failed),
        Some(RunStatus::Cancelled),
    ];
    match latest_run(client, session).await {
        Ok(status) if ended.contains(&status) => format!("look   {}", typed("show")),
        // The change is made, whatever else can be told.
        _ if client.attached().is_holder() => {
            format!("go on  {}", resume_command(context, session))
        }
        _ => format!("watch  {}", typed("watch")),
    }
}

/// What the latest run of a session does, if it has one.
pub(super) async fn latest_run(
    client: &Client<'_>,
    session: &str,
) -> Result<Option<RunStatus>, CliError> {
    Ok(latest(client, session).await?.map(|run| run.status()))
}

/// The latest run of a session, if it has one.
pub(super) async fn latest(client: &Client<'_>, session: &str) -> Result<Option<Run>, CliError> {
    let request = GetSessionRequest {
        session: session.to_owned(),
    };
    let answer = client.orchestrator().get_session(request).await?;
    let session = answer.into_inner().session.unwrap_or_default();
    Ok(session.latest_run)
}

/// The latest run of a session that has a plan or will have one; turns of conversations have none.
pub(super) async fn latest_planned(
    client: &Client<'_>,
    session: &str,
) -> Result<Option<Run>, CliError> {
    let request = ListRunsRequest {
        session: session.to_owned(),
    };
    let answer = client.orchestrator().list_runs(request).await?;
    let mut runs = answer.into_inner().runs.into_iter();
    Ok(runs.rfind(|run| run.context.is_empty()))
}

/// An error about a plan that a turn does not have, with what to do instead: only the plan of the newest
/// run can be changed.
pub(super) async fn without_plan(client: &Client<'_>, session: &str, error: CliError) -> CliError {
    if error.reason != "NO_PLAN" {
        return error;
    }
    let typed = |rest: &str| command(client.context(), rest);
    match latest_planned(client, session).await {
        Ok(Some(run)) => error.hint(format!(
            "run {} has a plan, but only the plan of the newest run can be changed\n\
             change it in a copy from before the turn: {}\n\
             or start the goal in a new session: {}",
            run.number,
            typed(&format!("fork {session} --at {}", run.last_seq)),
            typed("run \"…\""),
        )),
        // Without the list of runs there is this way at least.
        _ => error.hint(format!(
            "say it in the conversation: {}",
            typed(&format!("chat {session}"))
        )),
    }
}

/// An error about a step, with the way to the steps that there are.
pub(super) fn with_plan(context: &Context, session: &str, error: CliError) -> CliError {
    match error.reason.as_str() {
        "NO_SUCH_STEP" | "STEP_ENDED" | "STEP_NOT_ENDED" => {
            let show = command(context, &format!("plan show {session}"));
            error.hint(format!("see the steps with: {show}"))
        }
        _ => error,
    }
}
