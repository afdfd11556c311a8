//! A conversation without a terminal: each line is a turn.

use super::submit::{Next, Turn};
use super::view::{Shown, State, View};
use super::{Chat, continuation, free, under_way};
use crate::error::{CliError, FAILURE, INTERRUPTED, WAITING};
use crate::ui::out;
use crate::ui::questions::{Extent, pending_lines};
use crate::ui::screen::{self, Beside};
use crate::ui::style::Style;
use crate::ui::text::{block, json_escaped};
use cairn_engine::limits::MAX_EXTENSION;
use cairn_engine::message::Message;
use cairn_engine::text::without_bom;
use cairn_proto::json;
use cairn_proto::orchestrator::turn_event::Event;
use cairn_proto::orchestrator::{SubmitTurnRequest, SubmitTurnResponse};
use std::io::{Write as _, stdin};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

/// Columns of what is reported on standard error.
const COLUMNS: usize = 120;
/// How long the rest of the input may take to be there.
const REST: Duration = Duration::from_millis(200);
/// How long an interrupted turn may take to be cancelled.
const CANCEL: Duration = Duration::from_secs(5);

/// Carries out one turn for each line. An interrupted turn continues first.
pub(super) async fn converse(
    chat: &mut Chat<'_, '_>,
    active: Option<SubmitTurnRequest>,
    notes: &[String],
) -> Result<ExitCode, CliError> {
    if !chat.is_new {
        screen::tell(&format!("session {}", chat.session));
    }
    notes.iter().for_each(|note| screen::tell(note));
    let mut code = 0;
    if let Some(request) = active {
        screen::tell(&under_way(&request));
        // A turn that another process carries out belongs to its client.
        let is_own = !chat.client.attached().is_remote();
        code = Box::pin(turn(chat, request, is_own)).await?;
        if !is_own && code == FAILURE {
            code = 0;
        }
    }
    let stop = chat.client.context().stop.clone();
    let mut lines = lines();
    while code != WAITING {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = stop.cancelled() => return Err(CliError::new("interrupted").code(INTERRUPTED)),
        };
        let Some(line) = line.transpose()? else {
            break;
        };
        if let Some(problem) = too_large(&line) {
            screen::tell(&problem);
            code = code.max(FAILURE);
        } else if !line.trim().is_empty() {
            let was_new = chat.is_new;
            chat.prepare().await?;
            if was_new {
                screen::tell(&format!("session {}", chat.session));
            }
            let request = chat.turn(&line);
            let done = Box::pin(turn(chat, request, true)).await;
            // An error without words is that of an output whose reader has gone.
            let fails = |error: &CliError| error.code != INTERRUPTED && !error.message.is_empty();
            if done.as_ref().is_err_and(fails) && has_more(&mut lines).await {
                screen::tell("the rest of the input was not sent");
            }
            code = code.max(done?);
        }
    }
    if code == WAITING && has_more(&mut lines).await {
        screen::tell("the rest of the input was not sent; enter it again then");
    }
    Ok(ExitCode::from(code))
}

/// Why a line cannot be a message, if it is too large for one. The services would refuse it in different ways,
/// by its size.
fn too_large(line: &str) -> Option<String> {
    let bytes = Message::user(line).bytes();
    (bytes > MAX_EXTENSION).then(|| {
        format!(
            "a message has {bytes} bytes, and at most {MAX_EXTENSION} are allowed: it was not sent"
        )
    })
}

/// Whether there is input that no turn has taken. A pipe that nobody closes is not waited for.
async fn has_more(lines: &mut Receiver<Result<String, CliError>>) -> bool {
    while let Ok(Some(Ok(line))) = timeout(REST, lines.recv()).await {
        if !line.trim().is_empty() {
            return true;
        }
    }
    false
}

/// The lines of standard input. Their thread ends with the process.
fn lines() -> Receiver<Result<String, CliError>> {
    let (sender, lines) = channel(1);
    let read = move || {
        for (index, line) in stdin().lines().enumerate() {
            let line = line.map(|line| match index {
                0 => without_bom(&line).to_owned(),
                _ => line,
            });
            let line =
                line.map_err(|error| CliError::new(format!("cannot read standard input: {error}")));
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // A conversation whose lines cannot be read has none.
    drop(std::thread::Builder::new().spawn(read));
    lines
}

/// One turn to its end, and its exit code. The reply to a turn of another client is no answer to this input.
async fn turn(
    chat: &mut Chat<'_, '_>,
    request: SubmitTurnRequest,
    is_own: bool,
) -> Result<u8, CliError> {
    let stop = chat.client.context().stop.clone();
    let is_json = chat.client.context().json;
    let (mut turn, began) = (Turn::new(request), Instant::now());
    let mut view = View::new(Style::new(false), COLUMNS).after(chat.expected());
    loop {
        let next = tokio::select! {
            next = turn.next(chat.client) => next.map_err(|error| chat.refused(error))?,
            () = stop.cancelled() => return Err(interrupted(chat, view.run).await),
        };
        let response = match next {
            Next::Response(response) => response,
            Next::Lost(text) => {
                screen::tell(&text);
                continue;
            }
            Next::Back => {
                screen::tell("connected again");
                continue;
            }
        };
        if is_json {
            let line = json::line("cairn.orchestrator.v1.SubmitTurnResponse", &*response);
            let line = line.ok_or_else(|| CliError::new("the response is no JSON"))?;
            match is_own {
                true => out::line(&json_escaped(&line))?,
                false => beside(&json_escaped(&line)),
            }
        }
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        for shown in view.take(&response, ms) {
            if let Shown::Line(line) = shown {
                beside(&line);
            }
        }
        if let Some(offer) = offer(chat, &view) {
            screen::tell(&offer);
        }
        chat.active.clone_from(&view.context);
        match &view.state {
            State::Completed(_) if is_json => return Ok(0),
            State::Completed(text) if is_own => return out::text(text).map(|()| 0),
            State::Completed(text) => {
                beside(&block(text));
                return Ok(0);
            }
            State::Failed => return Ok(FAILURE),
            State::Waiting if is_paused(&response) => {
                screen::tell(&free::paused(chat, view.run).hint);
                return Ok(WAITING);
            }
            State::Waiting if asks(&response) && waits(chat, view.run).await? => {
                return Ok(WAITING);
            }
            State::Waiting | State::Running => {}
        }
    }
}

/// How full the journal is at the end of a turn, and where a person continues in a new session. Each line of
/// the input is a turn, so none can be a command.
fn offer(chat: &Chat<'_, '_>, view: &View) -> Option<String> {
    match view.is_over() {
        true => continuation::offer(view.journal_permille, Some(&chat.come_back())),
        false => None,
    }
}

/// Writes to standard error. Where that cannot be written, no person is there to read it.
fn beside(text: &str) {
    let _ = Beside.write_all(format!("{text}\n").as_bytes());
}

fn asks(response: &SubmitTurnResponse) -> bool {
    let mut events = response.events.iter();
    events.any(|event| matches!(event.event, Some(Event::Waiting(_))))
}

/// A pause is a wait without a reason.
fn is_paused(response: &SubmitTurnResponse) -> bool {
    let last = response
        .events
        .last()
        .and_then(|event| event.event.as_ref());
    matches!(last, Some(Event::Waiting(waiting)) if waiting.reason == 0)
}

/// Whether the turn waits for a person, with the commands that answer it.
async fn waits(chat: &mut Chat<'_, '_>, run: u32) -> Result<bool, CliError> {
    let open = chat.questions(run).await?;
    let context = chat.client.context();
    for pending in &open {
        let lines = pending_lines(context, Style::new(false), pending, Extent::First);
        let lines = lines.join("\n");
        beside(&lines);
    }
    if !open.is_empty() {
        screen::tell(&format!(
            "answer it, and continue with: {}",
            chat.come_back()
        ));
    }
    Ok(!open.is_empty())
}

/// Cancels the turn, as Ctrl-C at a terminal does.
async fn interrupted(chat: &Chat<'_, '_>, run: u32) -> CliError {
    let request = chat.cancelling(run);
    let mut orchestrator = chat.client.orchestrator();
    let is_cancelled = match run {
        0 => false,
        _ => matches!(
            timeout(CANCEL, orchestrator.cancel_run(request)).await,
            Ok(Ok(_))
        ),
    };
    let what = match is_cancelled {
        true => "interrupted; the turn was cancelled".to_owned(),
        false => format!("interrupted; the turn may be kept: {}", chat.come_back()),
    };
    CliError::new(what).code(INTERRUPTED)
}
