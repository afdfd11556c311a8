//! What the session works on before the conversation begins: the turn that is continued, or a run that is
//! waited for. One run at a time works in a session, whichever context it is of.

use super::{Chat, start};
use crate::client::Watched;
use crate::error::{CliError, INTERRUPTED, WAITING};
use crate::ui::screen;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::{Run, RunStatus, Session, SubmitTurnRequest};
use cairn_rpc::text::escape;

/// How often the session is asked for, from one process after the other.
const MOST_TRIES: u32 = 3;

/// Waits until the conversation can begin. Returns the turn of its context that works and is continued.
///
/// # Errors
/// The run is paused, an interruption.
pub(super) async fn until_free(
    chat: &mut Chat<'_, '_>,
) -> Result<Option<SubmitTurnRequest>, CliError> {
    loop {
        let session = session(chat).await?;
        chat.active.clone_from(&session.active_context);
        match found(&session, &chat.context) {
            Found::Free => return Ok(None),
            Found::Paused(run) => return Err(paused(chat, run.number)),
            Found::Own(run) => return start::request_of(chat, run).await,
            Found::Other(run) => {
                screen::tell(&busy(chat, run));
                let number = run.number;
                let stop = chat.client.context().stop.clone();
                tokio::select! {
                    // A stop ends what is watched, too.
                    biased;
                    () = stop.cancelled() => {
                        return Err(CliError::new("interrupted").code(INTERRUPTED));
                    }
                    ended = ended(chat, number, session.last_seq) => ended?,
                }
            }
        }
    }
}

/// What the session works on.
#[derive(Debug, PartialEq)]
enum Found<'s> {
    /// Nothing.
    Free,
    /// Nothing continues before a person says so.
    Paused(&'s Run),
    /// A turn of the context of the conversation.
    Own(u32),
    /// A turn of another context, a compaction, or a plan.
    Other(&'s Run),
}

fn found<'s>(session: &'s Session, context: &str) -> Found<'s> {
    let context = match context {
        "" => &session.active_context,
        context => context,
    };
    let Some(run) = &session.latest_run else {
        return Found::Free;
    };
    match run.status() {
        RunStatus::Paused => Found::Paused(run),
        RunStatus::Planning | RunStatus::Running | RunStatus::Waiting => {
            match run.context == context && !run.is_compaction {
                true => Found::Own(run.number),
                false => Found::Other(run),
            }
        }
        _ => Found::Free,
    }
}

/// The error for a run that no conversation continues.
pub(super) fn paused(chat: &Chat<'_, '_>, run: u32) -> CliError {
    let message = format!("run {run} of session {} is paused", chat.session);
    let resume = resume_command(chat.client.context(), &chat.session);
    CliError::new(message)
        .hint(format!("paused; continue with: {resume}"))
        .code(WAITING)
}

/// The session. The process that worked on it may have ended with its run, and this one, or another,
/// takes its place.
async fn session(chat: &mut Chat<'_, '_>) -> Result<Session, CliError> {
    let mut tries = 1;
    loop {
        match start::session(chat).await {
            Err(_) if tries < MOST_TRIES && !chat.client.attached().is_holder() => {
                tries += 1;
                chat.client.reattach().await?;
            }
            answer => return answer,
        }
    }
}

/// Says what is waited for.
fn busy(chat: &Chat<'_, '_>, run: &Run) -> String {
    let works = match run.context.as_str() {
        "" => format!("run {} carries out a plan", run.number),
        name if run.is_compaction => {
            format!("run {} compacts context {}", run.number, escape(name))
        }
        name => format!("run {} is a turn of context {}", run.number, escape(name)),
    };
    let typed = |verb: &str| {
        let context = chat.client.context();
        command(context, &format!("{verb} {}", chat.session))
    };
    let look = match run.status() {
        RunStatus::Waiting => format!("it waits for a person: {}", typed("pending")),
        _ => format!("watch it: {}", typed("watch")),
    };
    format!("{works}; the conversation begins when it has ended\n{look}")
}

/// Waits for the end of a run, or until it is paused.
async fn ended(chat: &mut Chat<'_, '_>, run: u32, after: u64) -> Result<(), CliError> {
    let session = chat.session.clone();
    let mut events = chat.client.watch(&session, after);
    while let Some(watched) = events.next().await? {
        let Watched::Event { event, .. } = watched else {
            continue;
        };
        let over = match event.kind {
            Some(Kind::RunCompleted(event)) => event.run,
            Some(Kind::RunFailed(event)) => event.run,
            Some(Kind::RunCancelled(event)) => event.run,
            Some(Kind::RunPaused(event)) => event.run,
            _ => continue,
        };
        if over == run {
            return Ok(());
        }
    }
    Err(CliError::new("the session was deleted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: RunStatus, context: &str) -> Session {
        Session {
            active_context: "main".to_owned(),
            latest_run: Some(Run {
                number: 3,
                status: status.into(),
                context: context.to_owned(),
                ..Run::default()
            }),
            ..Session::default()
        }
    }

    #[test]
    fn only_a_turn_of_the_same_context_is_continued() {
        for (status, of, context, is_own) in [
            (RunStatus::Running, "main", "", true),
            (RunStatus::Running, "main", "main", true),
            (RunStatus::Waiting, "side", "side", true),
            (RunStatus::Running, "main", "side", false),
            (RunStatus::Running, "side", "", false),
            (RunStatus::Planning, "", "", false),
        ] {
            let session = session(status, of);
            let found = found(&session, context);
            match is_own {
                true => assert_eq!(found, Found::Own(3)),
                false => assert!(matches!(found, Found::Other(_)), "{found:?}"),
            }
        }
    }

    #[test]
    fn a_compaction_is_waited_for() {
        let mut session = session(RunStatus::Running, "main");
        let run = session.latest_run.as_mut().unwrap();
        run.is_compaction = true;
        assert!(matches!(found(&session, ""), Found::Other(_)));
    }

    #[test]
    fn a_paused_run_is_not_continued_and_an_ended_one_is_not_waited_for() {
        let paused = session(RunStatus::Paused, "main");
        assert!(matches!(found(&paused, ""), Found::Paused(_)));
        for status in [
            RunStatus::Completed,
            RunStatus::Failed,
            RunStatus::Cancelled,
        ] {
            assert_eq!(found(&session(status, "side"), ""), Found::Free);
        }
        assert_eq!(found(&Session::default(), ""), Found::Free);
    }
}
