//! `cairn fork`: a new session from any point of another one.

use super::hint;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_proto::orchestrator::{ForkSessionRequest, ListPendingRequest, RunStatus};
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn fork`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The new session has the events of the other one up to that point, and so its plan, its results and
its memory as they were then. The other one does not notice, and files are not copied. What was done
is not done again; a call with side effects that was under way is a question in the new session. A
run that had not ended is paused, so that you can give it another course before it continues. Of a
session that the store has lost acknowledged writes of, a copy is made only with --accept-loss.

A point inside a transition means the end of the one before; cairn export has the numbers.

With --json one object: session, forked_from (session, seq), paused, pending.

Examples:
  cairn fork
  cairn fork s-7f3k --at 40
  cairn fork s-7f3k --at 40 --title \"without the drafts\" --go-on")]
pub struct Args {
    /// The session to fork: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// After this event; 0 for now
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    at: u64,
    /// Do not pause a run that has not ended: the processes of the store continue it
    #[arg(long)]
    go_on: bool,
    /// Copy a session of which the store has lost acknowledged writes, though calls with side effects
    /// that it made may be made again
    #[arg(long)]
    accept_loss: bool,
    /// What the new session is called [default: as the other one]
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    title: String,
    /// The id of the new session [default: one is made up]
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    new_session: String,
    /// Names the request: the same one again continues where it was, and makes no other session
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// The flags of the fields of the request.
const FLAGS: [(&str, &str); 4] = [
    ("at_seq", "--at"),
    ("title", "--title"),
    ("new_session", "--new-session"),
    ("request_id", "--request-id"),
];

/// Makes the session, and says how to go on with it.
///
/// # Errors
/// No such session or event.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = fork(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn fork(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let made_up = || uuid::Uuid::now_v7().simple().to_string();
    let asked = args.at;
    let request = ForkSessionRequest {
        session: session.clone(),
        at_seq: args.at,
        request_id: args.request_id.unwrap_or_else(made_up),
        new_session: args.new_session,
        title: args.title,
        go_on: args.go_on,
        accept_loss: args.accept_loss,
    };
    let forked = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.fork_session(request).await }
        })
        .await
        .map_err(|error| unaware(context, error.naming(&FLAGS), &session))?;
    let (child, seq) = (forked.session, forked.seq);
    let latest = hint::latest(client, &child).await?;
    let is_turn = latest.as_ref().is_some_and(|run| !run.context.is_empty());
    let status = latest.map(|run| run.status());
    let pending = pending(client, &child).await?;
    if context.json {
        let origin = json!({"session": session, "seq": seq});
        let paused = status == Some(RunStatus::Paused);
        return out::json(&json!({
            "session": child, "forked_from": origin, "paused": paused, "pending": pending,
        }));
    }
    out::line(&format!("session {child}, forked from {session} at {seq}"))?;
    if asked > seq {
        let what = format!(
            "{} to {asked} happened together with what came after",
            seq + 1
        );
        out::line(&Style::new(context.color).dim(&what))?;
    }
    if pending > 0 {
        let look = command(context, &format!("pending {child}"));
        out::line(&format!("decide {look}"))?;
    }
    match status {
        Some(RunStatus::Paused) => {
            out::line("its run is paused")?;
            if !is_turn {
                let other = command(context, &format!("feedback {child} \"…\""));
                out::line(&format!("change {other}"))?;
            }
            out::line(&format!("go on  {}", resume_command(context, &child)))
        }
        _ => out::line(&hint::go_on(client, &child).await),
    }
}

/// What to do about it if the session has lost something.
fn unaware(context: &Context, error: CliError, session: &str) -> CliError {
    if error.reason != "WRITES_LOST" {
        return error;
    }
    let log = command(context, &format!("log {session}"));
    error.hint(format!(
        "see what the store still has: {log}\nto copy it all the same, add --accept-loss"
    ))
}

/// How many questions wait for a person in a session.
async fn pending(client: &Client<'_>, session: &str) -> Result<usize, CliError> {
    let request = ListPendingRequest {
        session: session.to_owned(),
        ..ListPendingRequest::default()
    };
    let answer = client.orchestrator().list_pending(request).await?;
    Ok(answer.into_inner().pending.len())
}
