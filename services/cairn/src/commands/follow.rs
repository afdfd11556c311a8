//! Following a run to its end: what `run` and `resume` have in common.

mod asking;
mod course;
mod display;
mod ending;
mod looked;
mod trace;
mod underway;

use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::settings::models::OFFLINE;
use crate::ui::screen;
use crate::ui::text::command;
use crate::workspace::resume_command;
pub(super) use asking::has_person;
use asking::{Came, Person};
use course::{Course, Stand};
use display::Display;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};
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

/// Follows the run until it ends, waits for a person, is paused, or Ctrl-C is pressed. A person at the terminal is
/// asked what it waits for, and it continues.
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
    let mut course = Course::new(what, Instant::now())?;
    let mut person = Person::found(context)?;
    loop {
        let stand = watch(client, what, &mut course, person.is_some(), &mut display).await;
        display.end();
        let (Stand::Asks(question), Some(person)) = (stand?, &mut person) else {
            break;
        };
        match Box::pin(person.ask(client, &question)).await? {
            Came::Answer => {}
            Came::Leaves => break,
            Came::Stop => {
                let is_remote = client.attached().is_remote();
                return Err(gone(context, what, is_remote, &course.underway));
            }
        }
    }
    ending::tell(client, what, &course.progress).await
}

/// Events until nothing more is to come, a question for the person, or an error.
async fn watch(
    client: &mut Client<'_>,
    what: &Following,
    course: &mut Course,
    has_person: bool,
    display: &mut Display,
) -> Result<Stand, CliError> {
    let context = client.context();
    let mut tick = tokio::time::interval(TICK);
    let after = course.begin();
    let mut events = client
        .watch(&what.session, after)
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
                    display.tick(&course.progress)?;
                    course.dump(&mut orchestrator, what).await?;
                    if course.is_due(Instant::now())
                        && let Some(stand) = course.stand(&mut orchestrator, what, has_person).await?
                    {
                        course.dump_now(&mut orchestrator, what).await?;
                        return Ok(stand);
                    }
                }
            }
        };
        match watched {
            None => return Err(gone(context, what, is_remote, &course.underway)),
            Some(Watched::CaughtUp) => course.caught_up(),
            Some(Watched::Delta(delta)) => {
                display.delta(&delta, &mut course.progress)?;
                continue;
            }
            Some(Watched::Event { seq, event }) => {
                if course.take(seq, &event, what) {
                    display.event(seq, &event, &course.progress)?;
                }
            }
        }
        let stand = course.stand(&mut orchestrator, what, has_person).await?;
        if let Some(stand) = stand {
            course.dump_now(&mut orchestrator, what).await?;
            return Ok(stand);
        }
    }
}

type Orchestrator =
    cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient<
        cairn_rpc::Link,
    >;

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
            "the services at {server} do the work, with their own model, pace and workspace"
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
