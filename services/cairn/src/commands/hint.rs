//! What to do next.

use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_proto::orchestrator::{GetSessionRequest, RunStatus};

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
    let request = GetSessionRequest {
        session: session.to_owned(),
    };
    let answer = client.orchestrator().get_session(request).await?;
    let session = answer.into_inner().session.unwrap_or_default();
    Ok(session.latest_run.map(|run| run.status()))
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
