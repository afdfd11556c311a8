//! `cairn decide`: answers what a run waits for.

use super::approve::{approval, condition};
use super::hint;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::scopes::granted_words;
use crate::ui::text::command;
use crate::ui::time::{clock, utc};
use cairn_proto::event::settlement::{Answer as Reported, Deny, Done, Fail, Outcome, Retry, Skip};
use cairn_proto::event::{Condition, Settlement};
use cairn_proto::orchestrator::{DecideRequest, DecideResponse, ListApprovalsRequest, Pending};
use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn decide`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
cairn pending shows the questions with their ids, and which answers they take. The answer is durable
once this command ends.

Examples:
  cairn decide s-7f3k call-1.2.1.0.0 done --output \"sent to all\"
  cairn decide s-7f3k call-1.2.1.0.0 retry
  cairn decide s-7f3k approval-1.2.1.0.0 approve --scope folder:src
  cairn decide s-7f3k approval-1.2.1.0.0 deny --reason \"not on a Friday\"
  cairn decide s-7f3k question-1.1.1.2.0 answer \"the second one\"
  cairn decide s-7f3k plan-1.1 approve
  cairn decide s-7f3k hook-1 approve
  cairn decide s-7f3k context-1.1.1 answer \"Keep the names of all files.\"")]
pub struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    session: String,
    /// The question, as cairn pending names it
    #[arg(value_name = "PENDING_ID")]
    pending: String,
    /// The answer
    #[command(subcommand)]
    answer: Word,
}

/// An answer.
#[derive(Debug, Subcommand)]
enum Word {
    /// The call was carried out, with this result
    Done {
        /// What the model is told as the call's result
        #[arg(long, value_name = "TEXT")]
        output: String,
    },
    /// Send the call again, with the same key; go on with a fresh budget; check a request that does
    /// not fit again, and compact anew; or look for the earlier hooks of the run again
    Retry,
    /// Go on without the call
    Skip {
        /// Why, for the journal and the model
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        reason: String,
    },
    /// The step fails; for a budget and for changed hooks, the run
    Fail {
        /// Why, for the journal
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        reason: String,
    },
    /// Make the call, this once; carry out the plan; let a run or a step begin; or use the present hooks
    Approve {
        /// Approve further calls of this scope in this session, too: its id, as cairn pending names it
        #[arg(long, value_name = "ID", conflicts_with = "always", value_parser = NonEmptyStringValueParser::new())]
        scope: Option<String>,
        /// Approve further calls like this one in this session, too
        #[arg(long)]
        always: bool,
        /// Further calls that have this value: a name and a pattern; may be repeated
        #[arg(long, value_name = "NAME=PATTERN", requires = "always", value_parser = condition)]
        when: Vec<Condition>,
    },
    /// Do not make the call; make another plan; or do not let a run or a step begin
    Deny {
        /// Why, for the journal and the model; of a plan, what is to be different
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        reason: String,
    },
    /// Answer what the model asks; for a request that does not fit, give the prompt of a summary
    Answer {
        /// What the model is told
        #[arg(value_name = "TEXT")]
        text: String,
    },
}

/// Answers, and says what happens next.
///
/// # Errors
/// No such session or question, or somebody else was faster.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach_with(context, Access::Change, Servers::All).await?;
    let reported = decide(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn decide(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(Some(&args.session)).await?;
    let outcome = args.answer.outcome();
    let answer = answer(client, &session, &args.pending, outcome).await?;
    tell(client, context, &session, &args.pending, &answer).await
}

/// Gives one answer, which is durable then.
pub(super) async fn answer(
    client: &mut Client<'_>,
    session: &str,
    pending: &str,
    outcome: Outcome,
) -> Result<DecideResponse, CliError> {
    let request = DecideRequest {
        session: session.to_owned(),
        pending_id: pending.to_owned(),
        settlement: Some(Settlement {
            outcome: Some(outcome),
        }),
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    // The same request_id each time, so that it is answered once however often it is asked.
    client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.decide(request).await }
        })
        .await
}

/// What a person is told of an answer that takes effect later, or that covers further calls. None for others.
pub(super) async fn told(
    client: &Client<'_>,
    question: &Pending,
    outcome: &Outcome,
    settle_after_unix_ms: i64,
) -> Option<String> {
    if settle_after_unix_ms > 0 {
        let from = clock(settle_after_unix_ms);
        return Some(format!("noted; it takes effect at {from} UTC"));
    }
    let Outcome::ApproveAlways(always) = outcome else {
        return None;
    };
    let mut offered = question.scopes.iter();
    let scope = offered.find(|it| it.id == always.scope)?.scope.as_ref()?;
    let session = &question.session;
    let request = ListApprovalsRequest {
        session: session.clone(),
    };
    // What is granted holds, whether it can be listed or not.
    let listed = client.orchestrator().list_approvals(request).await.ok()?;
    let listed = listed.into_inner().approvals;
    let mut newest = listed.iter().rev();
    let granted = newest.find(|it| it.tool == question.tool && it.scope.as_ref() == Some(scope))?;
    let (number, covers) = (granted.grant, granted_words(&question.tool, scope));
    let revoke = command(
        client.context(),
        &format!("tools revoke {session} {number}"),
    );
    Some(format!(
        "approval {number}: {covers}; revoke it with: {revoke}"
    ))
}

async fn tell(
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
    out::line(&hint::go_on(client, session).await)
}

impl Word {
    fn outcome(self) -> Outcome {
        match self {
            Self::Done { output } => Outcome::Done(Done { output }),
            Self::Retry => Outcome::Retry(Retry {}),
            Self::Skip { reason } => Outcome::Skip(Skip { reason }),
            Self::Fail { reason } => Outcome::Fail(Fail { reason }),
            Self::Approve {
                scope,
                always,
                when,
            } => approval(always, when, scope),
            Self::Deny { reason } => Outcome::Deny(Deny { reason }),
            Self::Answer { text } => Outcome::Answer(Reported { text }),
        }
    }
}
