//! `cairn decide`: answers what a run waits for.

use super::hint;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::time::{clock, utc};
use cairn_proto::event::Settlement;
use cairn_proto::event::settlement::{Done, Fail, Outcome, Retry, Skip};
use cairn_proto::orchestrator::{DecideRequest, DecideResponse};
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn decide`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
cairn pending shows the questions with their ids. The answer is durable once this command ends.

Examples:
  cairn decide s-7f3k 1.2.1.0.0 done --output \"sent to all\"
  cairn decide s-7f3k 1.2.1.0.0 retry
  cairn decide s-7f3k 1.2.1.0.0 skip --reason \"not needed any more\"")]
pub struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    session: String,
    /// The question, as cairn pending names it
    #[arg(value_name = "PENDING_ID")]
    pending: String,
    /// The answer
    #[command(subcommand)]
    answer: Answer,
}

/// An answer.
#[derive(Debug, Subcommand)]
enum Answer {
    /// The call was carried out, with this result
    Done {
        /// What the model is told as the call's result
        #[arg(long, value_name = "TEXT")]
        output: String,
    },
    /// Send the call again, with the same key; or go on with a fresh budget
    Retry,
    /// Go on without the call
    Skip {
        /// Why, for the journal and the model
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// The step fails
    Fail {
        /// Why, for the journal
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
}

/// Answers, and says what happens next.
///
/// # Errors
/// No such session or question, or somebody else was faster.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Change).await?;
    let told = decide(&mut client, args, context).await;
    client.finish().await;
    told.map(|()| ExitCode::SUCCESS)
}

async fn decide(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(Some(&args.session)).await?;
    let settlement = Settlement {
        outcome: Some(args.answer.outcome()),
    };
    let request = DecideRequest {
        session: session.clone(),
        pending_id: args.pending.clone(),
        settlement: Some(settlement),
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    // The same request_id each time, so that it is answered once however often it is asked.
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.decide(request).await }
        })
        .await?;
    tell(client, context, &session, &args.pending, &answer)
}

fn tell(
    client: &Client<'_>,
    context: &Context,
    session: &str,
    pending: &str,
    answer: &DecideResponse,
) -> Result<(), CliError> {
    let from = answer.settle_after_unix_ms;
    if context.json {
        return out::json(&json!({
            "session": session,
            "id": pending,
            "settle_after": (from > 0).then(|| utc(from)),
        }));
    }
    out::line(&match from {
        ..=0 => "accepted; the answer takes effect at once".to_owned(),
        from => format!(
            "accepted; the answer takes effect at {} UTC, when the call can no longer be running",
            clock(from)
        ),
    })?;
    out::line(&hint::go_on(client, session))
}

impl Answer {
    fn outcome(self) -> Outcome {
        match self {
            Self::Done { output } => Outcome::Done(Done { output }),
            Self::Retry => Outcome::Retry(Retry {}),
            Self::Skip { reason } => Outcome::Skip(Skip { reason }),
            Self::Fail { reason } => Outcome::Fail(Fail { reason }),
        }
    }
}
