//! `cairn feedback`: says what is to be different about a run.

use super::revise;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::plan_diff::{diff_json, is_empty};
use crate::ui::style::Style;
use cairn_proto::orchestrator::ProposePlanRequest;
use cairn_proto::orchestrator::propose_plan_request::Change;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn feedback`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "cairn feedback [OPTIONS] [SESSION] <TEXT>")]
#[command(after_help = "\
The planner makes another plan of the one in force and of what came of it so far, whether the run
continues, waits or has ended. You see what that would change; nothing changes before you say yes.
Steps that still hold are kept with their results and not done again. A run that has ended continues.

Marks: ✓ done and kept, → continues, ↻ again, + new, - removed or skipped.

With --json one object: session, run, proposal, diff, applied (revision, seq; null if it was not).
Exit codes: 0 applied or nothing to apply, 3 not applied, 1 there is no other plan.

Examples:
  cairn feedback \"Leave the drafts out, and name the authors\"
  cairn feedback s-7f3k --yes \"The second file is the wrong one; it is docs/two.md\"")]
pub struct Args {
    /// The session, by its id or a unique beginning of it [default: the latest], and what is to be
    /// different
    #[arg(value_names = ["SESSION", "TEXT"], required = true, num_args = 1..=2)]
    words: Vec<String>,
    /// Apply it without asking
    #[arg(long, short)]
    yes: bool,
}

/// Has another plan proposed, shows what it changes, and applies it if that is wanted.
///
/// # Errors
/// No such session, no other plan, an interruption.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach_with(context, Access::Change, Servers::All).await?;
    let reported = feedback(&mut client, args, context).await;
    client.finish().await;
    reported
}

async fn feedback(
    client: &mut Client<'_>,
    args: Args,
    context: &Context,
) -> Result<ExitCode, CliError> {
    let mut words = args.words;
    let text = words.pop().unwrap_or_default();
    let given = words.pop();
    if text.trim().is_empty() {
        return Err(CliError::usage("the feedback is empty").hint("say what is to be different"));
    }
    if given.is_none() {
        refuse_id(client, &text).await?;
    }
    let session = client.resolve(given.as_deref()).await?;
    if context.live {
        out::line(&Style::new(context.color).dim("the planner makes another plan …"))?;
    }
    let request = ProposePlanRequest {
        session: session.clone(),
        change: Some(Change::Feedback(text)),
        ..ProposePlanRequest::default()
    };
    let proposed = revise::propose(client, request).await?;
    let diff = proposed.diff.clone().unwrap_or_default();
    if is_empty(&diff) {
        if context.json {
            out::json(&json!({
                "session": session,
                "run": proposed.run,
                "proposal": proposed.proposal,
                "diff": diff_json(&diff),
                "applied": null,
            }))?;
        } else {
            out::line("the planner would leave the plan as it is; there is nothing to apply")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    revise::conclude(client, &session, &proposed, args.yes).await
}

/// A session without a text was meant, and the session's id is no feedback.
async fn refuse_id(client: &Client<'_>, text: &str) -> Result<(), CliError> {
    match client.is_there(text).await? {
        true => Err(
            CliError::usage(format!("there is no feedback for session {text}"))
                .hint("say what is to be different: cairn feedback SESSION \"…\""),
        ),
        false => Ok(()),
    }
}
