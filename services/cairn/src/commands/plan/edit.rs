//! `cairn plan edit`: changes a plan by hand.

use super::super::{plan_file, revise};
use super::{in_force, no_plan};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::plan_document::document;
use crate::ui::text::{command, json_escaped, quoted};
use cairn_engine::plan::PlanDraft;
use cairn_proto::orchestrator::propose_plan_request::Change;
use cairn_proto::orchestrator::{GetPlanResponse, ProposePlanRequest};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What can be said to `cairn plan edit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Opens the plan in force as JSON in $VISUAL or $EDITOR, or reads it from a file. You see what the
change would mean; nothing changes before you say yes. Steps whose words stay, and whose steps
before them do, are kept with their results. A run that has ended continues.

With --json one object: session, run, proposal, diff, applied (revision, seq; null if it was not).
Exit codes: 0 applied or nothing was changed, 3 not applied, 2 the plan is wrong.

Examples:
  cairn plan edit
  EDITOR='code --wait' cairn plan edit s-7f3k
  cairn plan show --json >plan.json; cairn plan edit --file plan.json --yes")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The plan as it is to be: a JSON file, or - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Apply it without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    // Nobody holds the store while a person edits.
    let mut reader = Client::attach(context, Access::Read).await?;
    let session = reader.resolve(args.session.as_deref()).await?;
    let before = in_force(&mut reader, &session, 0).await?;
    reader.finish().await;
    if before.steps.is_empty() {
        return Err(no_plan(before.run));
    }
    let text = pretty(&before);
    let edited = match &args.file {
        Some(path) => Edited {
            plan: plan_file::read(path).await?,
            kept: None,
        },
        None => by_hand(context, &session, &text).await?,
    };
    // The text that it was, read as every plan is: only so the two can be compared.
    let old = plan_file::parse("in force", &text)?;
    if edited.plan == old {
        edited.done();
        return unchanged(context, &session, &before);
    }
    let mut client = Client::attach(context, Access::Change).await?;
    let change = edited.plan.clone();
    let reported = propose(&mut client, &session, &before, change, args.yes).await;
    client.finish().await;
    match reported {
        Ok(code) => {
            edited.done();
            Ok(code)
        }
        Err(error) => Err(edited.kept(context, &session, error)),
    }
}

async fn propose(
    client: &mut Client<'_>,
    session: &str,
    before: &GetPlanResponse,
    plan: PlanDraft,
    yes: bool,
) -> Result<ExitCode, CliError> {
    let request = ProposePlanRequest {
        session: session.to_owned(),
        run: before.run,
        expected_revision: before.revision,
        change: Some(Change::Plan(plan.into())),
        ..ProposePlanRequest::default()
    };
    let proposed = revise::propose(client, request).await?;
    revise::conclude(client, session, &proposed, yes).await
}

fn pretty(plan: &GetPlanResponse) -> String {
    let document = document(plan);
    let text = serde_json::to_string_pretty(&document);
    json_escaped(&text.unwrap_or_else(|_| document.to_string())) + "\n"
}

fn unchanged(
    context: &Context,
    session: &str,
    before: &GetPlanResponse,
) -> Result<ExitCode, CliError> {
    if context.json {
        out::json(&json!({
            "session": session,
            "run": before.run,
            "proposal": null,
            "diff": null,
            "applied": null,
        }))?;
    } else {
        out::line("nothing was changed")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A plan that somebody has written, and the file that it would be lost with.
struct Edited {
    plan: PlanDraft,
    kept: Option<PathBuf>,
}

impl Edited {
    fn done(&self) {
        if let Some(path) = &self.kept {
            // It stays where it hurts nobody.
            let _ = std::fs::remove_file(path);
        }
    }

    fn kept(&self, context: &Context, session: &str, error: CliError) -> CliError {
        match &self.kept {
            Some(path) => still_there(context, session, path, error),
            None => error,
        }
    }
}

/// An error after which what a person has written is not lost.
fn still_there(context: &Context, session: &str, path: &Path, error: CliError) -> CliError {
    let file = quoted(&path.to_string_lossy());
    let again = command(context, &format!("plan edit {session} --file {file}"));
    let before = match error.hint.as_str() {
        "" => String::new(),
        hint => format!("{hint}\n"),
    };
    error.hint(format!(
        "{before}what you wrote is in {file}; go on with: {again}"
    ))
}

/// The plan after somebody has had it in their editor.
async fn by_hand(context: &Context, session: &str, text: &str) -> Result<Edited, CliError> {
    let editor = editor(context)?;
    let name = format!("cairn-plan-{}.json", uuid::Uuid::now_v7().simple());
    let path = std::env::temp_dir().join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    let opened = path.clone();
    let shown = editor.clone();
    let ended = tokio::task::spawn_blocking(move || {
        // An editor may have arguments; the shell knows how they are written.
        Command::new("sh")
            .arg("-c")
            .arg(format!("{editor} \"$1\""))
            .arg("sh")
            .arg(opened)
            .status()
    });
    let ended = ended.await.map_err(|error| CliError::chain(&error))?;
    let failed = match ended {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = failed {
        let error = CliError::new(format!(
            "the editor '{shown}' failed: {why}; the plan stays as it is"
        ));
        return Err(still_there(context, session, &path, error));
    }
    match plan_file::read(&path).await {
        Ok(plan) => Ok(Edited {
            plan,
            kept: Some(path),
        }),
        Err(error) => Err(still_there(context, session, &path, error)),
    }
}

fn editor(context: &Context) -> Result<String, CliError> {
    let names = ["VISUAL", "EDITOR"];
    let mut given = names
        .iter()
        .filter_map(|name| context.environment.get(name));
    let editor = given.find(|editor| !editor.trim().is_empty());
    editor.map(str::to_owned).ok_or_else(|| {
        CliError::usage("there is no editor: neither VISUAL nor EDITOR is set").hint(
            "set one of them, or change a file:\n\
             cairn plan show --json >plan.json\ncairn plan edit --file plan.json",
        )
    })
}
