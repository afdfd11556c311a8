//! `cairn watch`: the events of a session, as they come.

use crate::attach::Access;
use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED, run_code};
use crate::ui::event_json::event_json;
use crate::ui::event_line::{EventLine, Mark, Narrator};
use crate::ui::style::Style;
use crate::ui::time::clock;
use crate::ui::writing::{Pace, Writing, delta_json, written};
use crate::ui::{out, text};
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, TextDelta};
use cairn_proto::orchestrator::{GetSessionRequest, RunStatus, Session};
use std::process::ExitCode;
use std::time::Instant;

/// What can be said to `cairn watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is missed and nothing comes twice, even if the process that does the work ends and another
takes over; continue from any event later with --after. Ends when the run ends.

With --json one event a line, as cairn export writes it: seq, at, kind, and the event's fields.

Exit codes, as those of cairn run, tell of the latest run: 0 completed, 1 failed or cancelled, 130
interrupted. With --no-follow also 3 it waits for a person or is paused, and 0 while it continues. A
session that is deleted during the watch is an error, 1.

Examples:
  cairn watch
  cairn watch s-7f3k --after 40
  cairn watch --no-follow --json | jq -r .kind
  cairn watch --follow                the next runs of the session too")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Go on after the run has ended
    #[arg(long, overrides_with = "no_follow")]
    follow: bool,
    /// End with the last event that there is now
    #[arg(long, overrides_with = "follow")]
    no_follow: bool,
    /// Also show replies while the model writes them, and how far calls are: whole lines, or with
    /// --json lines of the kinds text_delta and call_progress, which have no seq. On a terminal they are
    /// shown in any case
    #[arg(long)]
    deltas: bool,
}

/// Writes each event as it comes; the exit code tells of the latest run.
///
/// # Errors
/// No such session, or nobody to read it from; a session that is deleted during the watch.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    check_cursor(&mut client, &session, args.after).await?;
    let mut shown = Shown::new(context, args.after);
    let (mut is_caught_up, mut is_ended) = (false, false);
    let deltas = args.deltas || context.live;
    let mut watch = client.watch(&session, args.after).with_deltas(deltas);
    while let Some(next) = watch.next().await? {
        let is_news = match next {
            Watched::CaughtUp => {
                is_caught_up = true;
                true
            }
            Watched::Delta(delta) => {
                shown.delta(&delta)?;
                continue;
            }
            Watched::Event { seq, event } => {
                shown.show(seq, &event)?;
                is_ended = ends_run(&event) || is_ended && !begins_run(&event);
                is_ended
            }
        };
        if args.follow || !is_caught_up || !is_news {
            continue;
        }
        let state = session_of(watch.client_mut(), &session).await?;
        is_ended = !has_active_run(&state);
        // What came after the run's end is shown too.
        if args.no_follow || is_ended && state.last_seq <= shown.cursor {
            return Ok(ExitCode::from(run_code(latest(&state))));
        }
    }
    match context.stop.is_cancelled() {
        true => Ok(ExitCode::from(INTERRUPTED)),
        false => Err(CliError::new(format!("session {session} was deleted"))),
    }
}

/// A session can be watched from an event that it has.
///
/// # Errors
/// The session has no event of that number yet; no such session.
pub(super) async fn check_cursor(
    client: &mut Client<'_>,
    session: &str,
    after: u64,
) -> Result<(), CliError> {
    let last = session_of(client, session).await?.last_seq;
    if last < after {
        let message = format!("{session} has no event {after} yet");
        return Err(CliError::usage(message).hint(format!("its last event is {last}")));
    }
    Ok(())
}

/// The session as it is now. The process that did the work often ends right after the run.
async fn session_of(client: &mut Client<'_>, id: &str) -> Result<Session, CliError> {
    let request = GetSessionRequest {
        session: id.to_owned(),
    };
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.get_session(request).await }
        })
        .await?;
    Ok(answer.session.unwrap_or_default())
}

/// How it stands with the latest run, if there is one.
fn latest(session: &Session) -> RunStatus {
    let run = session.latest_run.as_ref();
    run.map_or(RunStatus::Unspecified, |run| run.status())
}

fn has_active_run(session: &Session) -> bool {
    use RunStatus::{Paused, Planning, Running, Waiting};
    [Planning, Running, Waiting, Paused].contains(&latest(session))
}

fn ends_run(event: &Event) -> bool {
    matches!(
        event.kind,
        Some(Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_))
    )
}

fn begins_run(event: &Event) -> bool {
    // Another plan opens a run that has ended.
    matches!(event.kind, Some(Kind::RunStarted(_) | Kind::PlanApplied(_)))
}

/// What has been shown, and how.
struct Shown {
    json: bool,
    style: Style,
    narrator: Narrator,
    writing: Writing,
    pace: Pace,
    cursor: u64,
}

impl Shown {
    fn new(context: &Context, cursor: u64) -> Self {
        Self {
            json: context.json,
            style: Style::new(context.color),
            narrator: Narrator::default(),
            writing: Writing::default(),
            pace: Pace::default(),
            cursor,
        }
    }

    fn delta(&mut self, delta: &TextDelta) -> Result<(), CliError> {
        if let Some(progress) = &delta.progress
            && !self.pace.takes(progress, Instant::now())
        {
            return Ok(());
        }
        if self.json {
            return out::line(&delta_json(delta));
        }
        let step = delta.attempt.map_or(0, |attempt| attempt.step);
        if let Some(progress) = &delta.progress {
            let line = self.narrator.progress(progress);
            return out::line(&self.style.dim(&written(step, &line)));
        }
        let lines = self.writing.take(delta);
        let mut lines = lines.iter();
        lines.try_for_each(|line| out::line(&self.style.dim(&written(step, line))))
    }

    fn show(&mut self, seq: u64, event: &Event) -> Result<(), CliError> {
        self.cursor = seq;
        if let Some(Kind::ReplyReceived(reply)) = &event.kind {
            self.writing
                .end(reply.attempt.map_or(0, |attempt| attempt.step));
        }
        if self.json {
            return out::line(&text::json(&event_json(seq, event)));
        }
        let line = self.narrator.line(event);
        out::line(&event_text(seq, event.at_unix_ms, &line, self.style))
    }
}

/// One line for an event: time, number, mark and text.
pub(super) fn event_text(seq: u64, at_unix_ms: i64, line: &EventLine, style: Style) -> String {
    let place = style.dim(&format!("{} {seq:>5}", clock(at_unix_ms)));
    let text = line.to_string();
    let text = match line.mark {
        Mark::Plain => text,
        Mark::Began => style.active(&text),
        Mark::Good => style.good(&text),
        Mark::Bad => style.bad(&text),
        Mark::Asks => style.asks(&text),
    };
    format!("{place} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_number_mark_and_text() {
        let line = EventLine {
            mark: Mark::Good,
            text: "step 1 completed".into(),
        };
        let text = event_text(12, 3_723_000, &line, Style::new(false));
        assert_eq!(text, "01:02:03    12 ✓ step 1 completed");
    }

    #[test]
    fn a_waiting_run_is_not_over() {
        let mut session = Session::default();
        assert!(!has_active_run(&session));
        for (status, is_active) in [
            (RunStatus::Waiting, true),
            (RunStatus::Paused, true),
            (RunStatus::Failed, false),
        ] {
            session.latest_run = Some(cairn_proto::orchestrator::Run {
                status: status.into(),
                ..Default::default()
            });
            assert_eq!(has_active_run(&session), is_active);
        }
    }
}
