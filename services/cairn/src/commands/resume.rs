//! `cairn resume`: go on with what was interrupted or paused.

use super::follow::{self, Following};
use crate::attach::Access;
use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::describe::agent_line;
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::command;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::{
    GetSessionRequest, QuarantineReason, ReleaseQuarantineRequest, ResumeRunRequest, RunStatus,
    Session,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be said to `cairn resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The session to follow; the beginning of its id is enough [default: the latest unfinished]
    session: Option<String>,
    /// How long the offline model waits before each reply, such as 400ms, so that you can follow
    #[arg(long, value_name = "TIME")]
    pub(super) pace: Option<String>,
    /// Write the execution tree into tree.txt and tree.json after every change [DIR: .trace]
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".trace"
    )]
    tree_dir: Option<PathBuf>,
    /// Also tell what the model does to its own state: notes, parts of steps, session memory. On a
    /// terminal nothing is told but the plan as it moves on
    #[arg(short, long)]
    verbose: bool,
    /// Also print replies while the model writes them, and how far calls are: whole lines, or with
    /// --json lines of the kinds text_delta and call_progress. On a terminal replies are shown in any
    /// case
    #[arg(long)]
    deltas: bool,
    /// Go on with a session of which the store has lost acknowledged writes, though calls with side
    /// effects that it made may be made again
    #[arg(long)]
    accept_loss: bool,
}

const EXAMPLES: &str = "\
Examples:
  cairn resume               go on with the latest unfinished session
  cairn resume s-7f3k        go on with this one

A run that is paused continues, and a session that was quarantined is worked on again: only with
--accept-loss if the store has lost acknowledged writes of it. Finished steps are kept and not done again.
On a terminal, a question of the run is asked in line, and Ctrl-D leaves it open.
Without a session, every other unfinished session of the store continues too, for as long as this command
runs, unless it is paused.";

/// Continues with a session and follows its latest run.
///
/// # Errors
/// No such session, an interruption.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let Some(before) = read_before(context, args.session.as_deref()).await? else {
        if !context.json {
            let hint = "see all sessions with: cairn sessions";
            out::line(&format!("there is nothing unfinished; {hint}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    if !is_unfinished(&before) && !is_aside(&before) {
        return over(context, &before);
    }
    if before.quarantine_reason() == QuarantineReason::WritesLost && !args.accept_loss {
        return Err(lost(context, &before.id));
    }
    let is_unfinished = is_unfinished(&before);
    let latest = before.latest_run.as_ref();
    let agent = latest.filter(|_| is_unfinished).and_then(agent_line);
    let is_changed = latest.is_some_and(|run| run.agent_changed);
    let is_paused = latest.is_some_and(|run| run.status() == RunStatus::Paused);
    let what = Following {
        run: before.latest_run.map_or(0, |run| run.number),
        session: before.id,
        after: 0,
        seen_before: before.last_seq,
        tree_dir: args.tree_dir,
        verbose: args.verbose,
        deltas: args.deltas,
    };
    // A person who names a session means no other.
    let access = match args.session {
        Some(_) => Access::Own,
        None => Access::Hold,
    };
    let mut client = Client::attach(context, access).await?;
    let agent = match is_changed {
        true => agent,
        false => changed_agent(&client, &what).await.or(agent),
    };
    let shown = show_agent(context, agent);
    let taken = match shown {
        Ok(()) => take(&mut client, access, &what.session, args.accept_loss).await,
        Err(error) => Err(error),
    };
    if let Err(error) = taken {
        client.finish().await;
        return Err(error);
    }
    if !is_unfinished {
        client.finish().await;
        return over_and_released(context, &what.session);
    }
    let followed = match end_pause(&mut client, &what, is_paused).await {
        Ok(()) => follow::follow(&mut client, &what).await,
        Err(error) => Err(error),
    };
    client.finish().await;
    followed
}

/// The session before anything continues, so that what is kept can be told from what is done now.
async fn read_before(
    context: &Context,
    session: Option<&str>,
) -> Result<Option<Session>, CliError> {
    let mut reader = Client::attach(context, Access::Read).await?;
    let before = found(&reader, session).await?;
    if let Some(session) = before.as_ref().filter(|it| is_unfinished(it)) {
        check_model(&mut reader, session).await?;
    }
    reader.finish().await;
    Ok(before)
}

/// The line about an agent that files of the workspace have changed: who only reads the store does not see them.
async fn changed_agent(client: &Client<'_>, what: &Following) -> Option<String> {
    let session = found(client, Some(&what.session)).await.ok()??;
    let run = session.latest_run.filter(|run| run.number == what.run)?;
    run.agent_changed.then(|| agent_line(&run))?
}

/// The run keeps the agent that it began with, whatever became of its file.
fn show_agent(context: &Context, agent: Option<String>) -> Result<(), CliError> {
    match agent.filter(|_| !context.json) {
        Some(agent) => out::line(&Style::new(context.color).dim(&agent)),
        None => Ok(()),
    }
}

/// A session that was quarantined, and in which nothing can go on.
fn over_and_released(context: &Context, session: &str) -> Result<ExitCode, CliError> {
    if !context.json {
        let id = cairn_rpc::text::escape(session);
        out::line(&format!(
            "session {id} is not quarantine any more; its runs have ended"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the session worked on, in its own folder only.
async fn take(
    client: &mut Client<'_>,
    access: Access,
    session: &str,
    accept_loss: bool,
) -> Result<(), CliError> {
    client.check_folder(Some(session))?;
    release(client, session, accept_loss).await?;
    match access {
        Access::Own => client.work_on(session),
        _ => Ok(()),
    }
}

/// A person asks for the session, so it is not to stay quarantined.
async fn release(client: &Client<'_>, session: &str, accept_loss: bool) -> Result<(), CliError> {
    let release = ReleaseQuarantineRequest {
        session: session.to_owned(),
        accept_loss,
    };
    let released = client.patiently(|mut orchestrator| {
        let release = release.clone();
        async move { orchestrator.release_quarantine(release).await }
    });
    released.await.map(drop)
}

/// The store may have forgotten calls that were made, and only a person can know what that means.
fn lost(context: &Context, session: &str) -> CliError {
    let error = CliError::new(format!(
        "the store has lost acknowledged writes of session {session}: it continues from an older \
         state, and calls with side effects that were made since may be made again"
    ));
    let show = command(context, &format!("log {session}"));
    let resume = command(context, &format!("resume {session} --accept-loss"));
    let hint = format!("see what the store still has: {show}\nto go on all the same: {resume}");
    CliError {
        reason: "WRITES_LOST".to_owned(),
        ..error.hint(hint)
    }
}

/// A paused run continues.
async fn end_pause(
    client: &mut Client<'_>,
    what: &Following,
    is_paused: bool,
) -> Result<(), CliError> {
    if !is_paused {
        return Ok(());
    }
    let request = ResumeRunRequest {
        session: what.session.clone(),
        run: what.run,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    let resumed = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.resume_run(request).await }
        })
        .await;
    match resumed {
        // Somebody else was faster.
        Err(error) if error.reason == "RUN_NOT_PAUSED" => Ok(()),
        resumed => resumed.map(|_| ()),
    }
}

/// A run continues with the model that it began with. Without that model it would fail, so nothing
/// is touched.
async fn check_model(reader: &mut Client<'_>, session: &Session) -> Result<(), CliError> {
    let number = session.latest_run.as_ref().map_or(0, |run| run.number);
    let registry = reader.context().config().registry();
    // Whoever holds the store has models of its own.
    if reader.attached().is_remote() {
        return Ok(());
    }
    let mut events = reader.watch(&session.id, 0);
    while let Some(Watched::Event { event, .. }) = events.next().await? {
        let Some(Kind::RunStarted(started)) = event.kind else {
            continue;
        };
        if started.run == number {
            return registry.get(&started.model).map(|_| ()).map_err(|failure| {
                CliError::usage(format!(
                    "the run began with another model: {}",
                    failure.message
                ))
                .hint("set OPENAI_API_KEY, or describe the model in cairn.toml")
            });
        }
    }
    Ok(())
}

/// The session that is named; without a name the latest that has not ended.
async fn found(client: &Client<'_>, given: Option<&str>) -> Result<Option<Session>, CliError> {
    let id = match given {
        Some(_) => Some(client.resolve(given).await?),
        None => {
            let mut unfinished = client.unfinished(1).await?;
            unfinished.pop().map(|session| session.id)
        }
    };
    let Some(session) = id else {
        return Ok(None);
    };
    let request = GetSessionRequest { session };
    let answer = client.patiently(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.get_session(request).await }
    });
    Ok(answer.await?.session)
}

/// A session that somebody named, and in which nothing can go on.
fn over(context: &Context, session: &Session) -> Result<ExitCode, CliError> {
    let id = cairn_rpc::text::escape(&session.id);
    let latest = session.latest_run.as_ref();
    let how = match latest.map(|run| run.status()) {
        Some(RunStatus::Failed) => "failed",
        Some(RunStatus::Cancelled) => "was cancelled",
        _ => {
            if !context.json {
                out::line(&format!("there is nothing unfinished in session {id}"))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    let number = latest.map_or(0, |run| run.number);
    let error = CliError::new(format!(
        "run {number} of session {id} {how}, and what has ended does not go on"
    ));
    let show = command(context, &format!("show {id}"));
    let begin = command(context, &format!("run --session {id} \"…\""));
    Err(error.hint(format!("see why: {show}\nto begin another run: {begin}")))
}

fn is_aside(session: &Session) -> bool {
    session.quarantine_reason() != QuarantineReason::Unspecified
}

fn is_unfinished(session: &Session) -> bool {
    let status = session.latest_run.as_ref().map(|run| run.status());
    matches!(
        status,
        Some(RunStatus::Planning | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused)
    )
}
