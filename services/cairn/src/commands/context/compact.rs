//! `cairn context compact`: a summary takes the place of the older messages of a context.

use super::super::confirm::agreed_session;
use super::compaction::{Compacting, Happened, Replaced, nothing_older};
use super::rpc;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED, WAITING};
use crate::ui::event_line::waits_for;
use crate::ui::out;
use crate::ui::text::command;
use crate::workspace::resume_command;
use cairn_engine::text::without_bom;
use cairn_proto::event::CompactContext;
use cairn_proto::orchestrator::CancelRunRequest;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// How many of the latest messages stay unless a number is given.
pub(in crate::commands) const KEEP: u32 = 4;
/// How long an interrupted compaction may take to be cancelled.
const CANCEL: Duration = Duration::from_secs(5);
/// The flags for the fields of the request.
const FLAGS: [(&str, &str); 4] = [
    ("compact.context", "--context"),
    ("compact.prompt", "--prompt"),
    ("compact.keep_in_mind", "--keep-in-mind"),
    ("compact.model", "--model"),
];

/// The arguments of `cairn context compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A model writes a summary of the older messages, and the summary takes their place. The latest messages
and earlier summaries stay. Ctrl-C cancels it. A compaction that fails or is cancelled leaves the
messages that no summary has replaced.

Without a session, you are asked at a terminal whether the latest is meant.

With --json one object: session, context, run (0 if all messages stay), version, replaced (a number of
messages), tokens_before, tokens_after (estimates of a request; 0 if all messages stay).")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it [default: the latest, after a question]
    #[arg(value_name = "SESSION")]
    pub(super) session: Option<String>,
    /// The context [default: the active one]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    context: Option<String>,
    /// How many of the latest messages stay as they are; more if a call would lose its results
    #[arg(long, value_name = "N", default_value_t = KEEP)]
    keep: u32,
    /// What the model is asked, or @FILE for the text of a file [default: a built-in prompt]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    prompt: Option<String>,
    /// What the summary must keep
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    keep_in_mind: Option<String>,
    /// The model, by its name in the settings of the process that does the work [default: as they say]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
}

impl Args {
    /// Names the session, and reads the prompt, while nothing holds the store.
    ///
    /// # Errors
    /// No session is named and nobody can be asked; the person does not agree; a file that cannot be read.
    pub(super) async fn prepare(&mut self, context: &Context) -> Result<(), CliError> {
        self.prompt = self.prompt.take().map(prompt).transpose()?;
        let session = self.session.take();
        self.session = Some(agreed_session(context, session, "Compact").await?);
        Ok(())
    }
}

/// The text as it is given, or that of the file which it names.
fn prompt(given: String) -> Result<String, CliError> {
    let Some(path) = given.strip_prefix('@') else {
        return Ok(given);
    };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| {
        CliError::usage(format!("--prompt: the file {path} cannot be read: {error}"))
    })?;
    match without_bom(&text).trim() {
        "" => Err(CliError::usage(format!(
            "--prompt: the file {path} is empty"
        ))),
        text => Ok(text.to_owned()),
    }
}

/// Starts the run, and waits for its end.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: &str,
    args: Args,
) -> Result<(), CliError> {
    let compact = CompactContext {
        context: args.context.unwrap_or_default(),
        keep: args.keep,
        prompt: args.prompt,
        keep_in_mind: args.keep_in_mind.unwrap_or_default(),
        // The agent of the context may have a model of its own.
        model: args.model.unwrap_or_default(),
        ..CompactContext::default()
    };
    let context = compact.context.clone();
    client.work_on(session)?;
    let started = rpc::compact(client, session, compact).await;
    let started = started.map_err(|error| error.naming(&FLAGS))?;
    let replaced = match Compacting::of(session, &started) {
        Some(compacting) => follow(client, session, compacting).await?,
        None => {
            if !client.context().json {
                out::line(&nothing_older(args.keep))?;
            }
            Vec::new()
        }
    };
    if !client.context().json {
        return Ok(());
    }
    let (first, last) = (replaced.first(), replaced.last());
    out::json(&json!({
        "session": session,
        "context": context,
        "run": started.run,
        "version": last.map_or(started.version, |it| it.version),
        "replaced": replaced.iter().map(|it| it.messages).sum::<u32>(),
        "tokens_before": first.map_or(0, |it| it.tokens_before),
        "tokens_after": last.map_or(0, |it| it.tokens_after),
    }))
}

/// Waits until the run has completed. More messages than one request takes are replaced in parts.
async fn follow(
    client: &mut Client<'_>,
    session: &str,
    mut compacting: Compacting,
) -> Result<Vec<Replaced>, CliError> {
    let context = client.context();
    let mut replaced = Vec::new();
    loop {
        let happened = match compacting.next(client).await {
            Err(error) if error.code == INTERRUPTED => {
                return Err(interrupted(client, session, compacting.run()).await);
            }
            happened => happened?,
        };
        return Err(match happened {
            Happened::Replaced(part) => {
                if !context.json {
                    out::line(&part.to_line())?;
                }
                replaced.push(part);
                continue;
            }
            Happened::Continues => continue,
            Happened::Completed => return Ok(replaced),
            Happened::Failed(why) => {
                let stays = compacting.what_stays();
                CliError::new(format!("the compaction failed, and {stays}: {why}"))
            }
            Happened::Cancelled => {
                let stays = compacting.what_stays();
                CliError::new(format!("the compaction was cancelled, and {stays}"))
            }
            Happened::Waits(reason) => {
                let why = waits_for(reason);
                let pending = command(context, &format!("pending {session}"));
                CliError::new(format!("the compaction waits: {why}"))
                    .hint(format!("see what waits with: {pending}"))
                    .code(WAITING)
            }
            Happened::Paused => {
                let resume = resume_command(context, session);
                CliError::new("the compaction was paused")
                    .hint(format!("continue with: {resume}"))
                    .code(WAITING)
            }
        });
    }
}

/// Cancels the run, as Ctrl-C does in a conversation.
async fn interrupted(client: &Client<'_>, session: &str, run: u32) -> CliError {
    let request = CancelRunRequest {
        session: session.to_owned(),
        run,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
        ..CancelRunRequest::default()
    };
    let mut orchestrator = client.orchestrator();
    let cancelled = timeout(CANCEL, orchestrator.cancel_run(request)).await;
    let what = match cancelled {
        Ok(Ok(_)) => "interrupted; the compaction was cancelled".to_owned(),
        _ => {
            let cancel = command(client.context(), &format!("cancel {session}"));
            format!("interrupted; the compaction may continue; end it with: {cancel}")
        }
    };
    CliError::new(what).code(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_a_text_or_that_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompt.md");
        std::fs::write(&file, "\u{feff}Keep the names.\n").unwrap();
        let given = |text: &str| prompt(text.to_owned()).map_err(|error| error.message);
        assert_eq!(given("Keep all."), Ok("Keep all.".to_owned()));
        let named = format!("@{}", file.display());
        assert_eq!(given(&named), Ok("Keep the names.".to_owned()));
        std::fs::write(&file, "\n").unwrap();
        assert!(given(&named).unwrap_err().ends_with("is empty"));
        assert!(given("@none.md").unwrap_err().contains("none.md"));
    }
}
