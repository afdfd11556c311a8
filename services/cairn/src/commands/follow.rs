//! Following a run to its end: what `run` and `resume` have in common.

mod display;
mod ending;
mod trace;
mod underway;

use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::settings::models::OFFLINE;
use crate::ui::progress::{Progress, StepState};
use crate::ui::screen;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_proto::event::Event;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::ListPendingRequest;
use display::Display;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use trace::Trace;
use underway::Underway;

/// How often a live display moves.
const TICK: Duration = Duration::from_millis(100);

/// Which run is followed, and how.
#[derive(Debug)]
pub(super) struct Following {
    /// The session.
    pub(super) session: String,
    /// Number of the run.
    pub(super) run: u32,
    /// Events after this are read; the run begins after it.
    pub(super) after: u64,
    /// Events up to this one happened before this command.
    pub(super) seen_before: u64,
    /// Where the execution tree is dumped after every change.
    pub(super) tree_dir: Option<PathBuf>,
    /// Tell everything, where nothing moves on a terminal.
    pub(super) verbose: bool,
    /// Tell replies while they come, where nothing moves on a terminal.
    pub(super) deltas: bool,
}

/// Follows the run until it ends, waits for a person, is paused, or Ctrl-C is pressed.
///
/// # Errors
/// An interruption, a session that is deleted or cannot be reached, a dump that cannot be written.
pub(super) async fn follow(
    client: &mut Client<'_>,
    what: &Following,
) -> Result<ExitCode, CliError> {
    let context = client.context();
    let mut display = Display::new(context, what.verbose, what.deltas);
    display.header(&header(client, what))?;
    let followed = watch(client, what, &mut display).await;
    display.end();
    let progress = followed?;
    ending::tell(client, what, &progress).await
}

/// Events until nothing more is to come, or an error.
async fn watch(
    client: &mut Client<'_>,
    what: &Following,
    display: &mut Display,
) -> Result<Progress, CliError> {
    let context = client.context();
    let mut progress = Progress::new(what.run, what.seen_before);
    let mut trace = what.tree_dir.clone().map(Trace::new).transpose()?;
    let (mut asked, mut underway) = (Asked::default(), Underway::default());
    let mut tick = tokio::time::interval(TICK);
    let mut events = client
        .watch(&what.session, what.after)
        .with_deltas(display.shows_deltas());
    loop {
        let mut orchestrator = events.client().orchestrator();
        let is_remote = events.client().attached().is_remote();
        let mut next = pin!(events.next());
        let watched = loop {
            tokio::select! {
                watched = &mut next => {
                    break watched.map_err(|error| out_of_sight(context, what, error))?;
                }
                _ = tick.tick() => {
                    display.tick(&progress)?;
                    if let Some(trace) = &mut trace {
                        trace.write(&mut orchestrator, what).await?;
                    }
                }
            }
        };
        match watched {
            None => return Err(gone(context, what, is_remote, &underway)),
            Some(Watched::CaughtUp) => asked.is_caught_up = true,
            Some(Watched::Delta(delta)) => {
                display.delta(&delta, &mut progress)?;
                continue;
            }
            Some(Watched::Event { seq, event }) => {
                asked.take(seq, &event);
                underway.take(&event);
                asked.is_history = seq < what.seen_before;
                if progress.apply(seq, &event) {
                    display.event(seq, &event, &progress)?;
                    trace.iter_mut().for_each(Trace::changed);
                }
            }
        }
        // A run that had ended may have been opened again before this command began.
        let is_over = progress.end.is_some() && !asked.is_history;
        if is_over || asked.is_settled() && is_held(&mut orchestrator, what, &progress).await? {
            if let Some(trace) = &mut trace {
                trace.changed();
                trace.write(&mut orchestrator, what).await?;
            }
            return Ok(progress);
        }
    }
}

/// What was asked of the session and has no answer yet: it may be what the run waits for.
#[derive(Debug, Default)]
struct Asked {
    is_caught_up: bool,
    /// More events follow that were there before this command.
    is_history: bool,
    open: BTreeSet<u64>,
}

impl Asked {
    fn take(&mut self, seq: u64, event: &Event) {
        self.open.remove(&event.answers);
        match &event.kind {
            Some(Kind::CommandReceived(_)) => {
                self.open.insert(seq);
            }
            // Commands without an answer are the other session's alone.
            Some(Kind::ForkedFrom(_)) => self.open.clear(),
            // The denial of a plan is answered, and another plan is on its way.
            Some(Kind::RevisionRequested(requested)) => {
                self.open.insert(requested.request);
            }
            Some(Kind::PlanApplied(applied)) => {
                self.open.remove(&applied.request);
            }
            Some(Kind::PlanProposed(proposed)) => {
                self.open.remove(&proposed.request);
            }
            Some(Kind::RevisionFailed(failed)) => {
                self.open.remove(&failed.request);
            }
            _ => {}
        }
    }

    /// Whether the journal was read to its end, and everything in it was answered.
    fn is_settled(&self) -> bool {
        self.is_caught_up && self.open.is_empty()
    }
}

type Orchestrator =
    cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient<
        cairn_rpc::Link,
    >;

/// Whether the run stands still until a person acts.
async fn is_held(
    orchestrator: &mut Orchestrator,
    what: &Following,
    progress: &Progress,
) -> Result<bool, CliError> {
    match (&progress.paused, progress.waits) {
        (Some(_), _) => Ok(true),
        (None, Some(_)) => is_stuck(orchestrator, what, progress).await,
        (None, None) => Ok(false),
    }
}

/// Whether the run stands still until a person decides.
async fn is_stuck(
    orchestrator: &mut Orchestrator,
    what: &Following,
    progress: &Progress,
) -> Result<bool, CliError> {
    let request = ListPendingRequest {
        session: what.session.clone(),
        ..ListPendingRequest::default()
    };
    let pending = orchestrator
        .list_pending(request)
        .await?
        .into_inner()
        .pending;
    let mine = pending.iter().filter(|question| question.run == what.run);
    let mine: Vec<_> = mine.collect();
    // An answer that was given takes effect by itself; without a question the run continues already.
    if mine.is_empty() || mine.iter().any(|question| question.answered) {
        return Ok(false);
    }
    let asks_for_all = mine.iter().any(|question| question.step == 0);
    let mut running = progress.running();
    let all_wait = running.all(|(step, _)| mine.iter().any(|question| question.step == step));
    Ok(asks_for_all || all_wait || progress.count(StepState::Running) == 0)
}

/// Nothing more is to be seen of the run: the person stops the command, or the session is deleted.
fn gone(context: &Context, what: &Following, is_remote: bool, underway: &Underway) -> CliError {
    if !context.stop.is_cancelled() {
        return CliError::new(format!("session {} was deleted", what.session));
    }
    if let Some(line) = underway.to_line().filter(|_| !is_remote) {
        screen::tell(&line);
    }
    interrupted(context, what, is_remote)
}

/// What comes of a run whose command is interrupted: others may carry it out.
fn interrupted(context: &Context, what: &Following, is_remote: bool) -> CliError {
    let session = &what.session;
    let interrupted = match is_remote {
        true => {
            let cancel = command(context, &format!("cancel {session}"));
            let hint = format!("{}\nto end it: {cancel}", watch_again(context, session));
            CliError::new("interrupted; the run continues").hint(hint)
        }
        false => {
            let resume = resume_command(context, session);
            CliError::new(format!("interrupted; go on with: {resume}"))
        }
    };
    interrupted.code(INTERRUPTED)
}

/// Nobody can be asked any more. What was accepted is durable all the same.
fn out_of_sight(context: &Context, what: &Following, error: CliError) -> CliError {
    if context.config().client.server.is_none() || !matches!(&*error.reason, "" | "UNAVAILABLE") {
        return error;
    }
    let session = &what.session;
    let again = watch_again(context, session);
    let hint = format!("{}\nsession {session} is kept; {again}", error.hint);
    error.hint(hint.trim_start())
}

fn watch_again(context: &Context, session: &str) -> String {
    let watch = command(context, &format!("watch {session}"));
    format!("to follow it again: {watch}")
}

/// What a person should know before anything happens.
fn header(client: &Client<'_>, what: &Following) -> Vec<String> {
    let config = client.context().config();
    let mut lines: Vec<String> = workers(client).into_iter().collect();
    let mut place = format!("session {} · run {}", what.session, what.run);
    if !client.attached().is_remote() {
        let workspace = config.workspace.path.display();
        let output = config.workspace.output.display();
        place.push_str(&format!(" · workspace {workspace} · output {output}/"));
    }
    lines.push(place);
    lines
        .iter()
        .map(|line| cairn_rpc::text::escape(line).into_owned())
        .collect()
}

/// Which process or which model does the work, unless it is this process with a language model.
pub(super) fn workers(client: &Client<'_>) -> Option<String> {
    let config = client.context().config();
    if let Some(server) = &config.client.server {
        return Some(format!(
            "the services at {server} do the work, with their own model and workspace"
        ));
    }
    if client.attached().is_remote() {
        let workspace = client.attached().workspace.as_deref();
        return Some(match workspace {
            Some(folder) => format!(
                "another process holds this store and does the work in {}, with its own model",
                folder.display()
            ),
            None => "another process holds this store and does the work, with its own model and \
                     workspace"
                .to_owned(),
        });
    }
    (config.default_model() == OFFLINE).then(|| {
        "offline model: it follows fixed rules. For a language model, set OPENAI_API_KEY or --model."
            .to_owned()
    })
}
