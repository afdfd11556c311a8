//! `cairn agent trust`: a person confirms the agent files, skills and instructions of the workspace.

use super::super::confirm::{is_at_terminal, is_wanted};
use super::request_id;
use super::workspace::{kind_name, listed, table, trust_command};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::commands::config::is_too_long;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use cairn_proto::api::{ConfirmWorkspaceFilesRequest, ListWorkspaceFilesResponse};
use cairn_rpc::text::escape;
use serde_json::{Value, json};

/// Reason of the service: the files are not those of the digest any more.
const WORKSPACE_CHANGED: &str = "WORKSPACE_CHANGED";
const NONE: &str = "the workspace has no agent files, skills or instructions";

/// The arguments of `cairn agent trust`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Agent files, skills and an AGENTS.md may have come with the folder, such as with a repository. None of them is
read before you confirm it. One digest stands for all of them, so a change of one file needs another confirmation.
Read the files before you confirm them.

Without a terminal, it wants --yes and the digest.

With --json one object: digest, confirmed, files (path, kind, size, name, others: the
further files of a skill), problems.

Examples:
  cairn agent trust
  cairn agent trust --in ~/project")]
pub(super) struct Args {
    /// Confirm them only if this is their digest
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Confirm them without a question; without a terminal, give their digest too
    #[arg(long)]
    yes: bool,
}

/// Shows the files of the workspace, and confirms them if a person wants that.
///
/// # Errors
/// The digest is another one; no person can be asked; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    // No tool is called.
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let done = Box::pin(confirm(&args, &mut client)).await;
    client.finish().await;
    done
}

async fn confirm(args: &Args, client: &mut Client<'_>) -> Result<(), CliError> {
    let context = client.context();
    let mut found = listed(client).await?;
    check_digest(args.digest.as_deref(), &found)?;
    if !context.json {
        show(&found, Style::new(context.color))?;
    }
    if found.files.is_empty() || found.confirmed {
        return report(&found, context);
    }
    let is_decided = match is_at_terminal(context) {
        true => args.yes || args.digest.is_some(),
        false => args.yes && args.digest.is_some(),
    };
    if !is_decided && !is_wanted_by_person(&found, context).await? {
        return out::line("nothing was confirmed");
    }
    // The digest of what was shown, so that nothing else is confirmed if a file has changed since.
    let request = ConfirmWorkspaceFilesRequest {
        request_id: request_id(),
        digest: found.digest.clone(),
    };
    let confirmed = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.confirm_workspace_files(request).await }
    });
    let confirmed = confirmed.await;
    confirmed.map_err(|error| changed(context, error))?;
    found.confirmed = true;
    if let Ok(now) = listed(client).await {
        tell_faults(&mut found, now, context)?;
    }
    report(&found, context)
}

/// What is wrong with texts is known only once they are confirmed.
fn tell_faults(
    found: &mut ListWorkspaceFilesResponse,
    now: ListWorkspaceFilesResponse,
    context: &Context,
) -> Result<(), CliError> {
    let before = std::mem::replace(&mut found.problems, now.problems);
    if context.json {
        return Ok(());
    }
    let style = Style::new(context.color);
    let news = found.problems.iter().filter(|it| !before.contains(it));
    tell_problems(news, style)
}

/// What is wrong with files of the workspace, one line each.
pub(super) fn tell_problems<'a>(
    mut problems: impl Iterator<Item = &'a String>,
    style: Style,
) -> Result<(), CliError> {
    problems.try_for_each(|problem| out::line(&style.asks(&format!("! {}", escape(problem)))))
}

/// Refuses a digest that is not that of the files.
fn check_digest(given: Option<&str>, found: &ListWorkspaceFilesResponse) -> Result<(), CliError> {
    let Some(digest) = given.filter(|digest| *digest != found.digest) else {
        return Ok(());
    };
    if found.files.is_empty() {
        let message = format!("{NONE}, so none with the digest {}", escape(digest));
        return Err(CliError::usage(message));
    }
    let message = format!(
        "the files of the workspace have the digest {}, not {}",
        found.digest,
        escape(digest)
    );
    Err(CliError::usage(message).hint("read them again before you confirm them"))
}

/// The files, and what is wrong with some.
fn show(found: &ListWorkspaceFilesResponse, style: Style) -> Result<(), CliError> {
    if !found.files.is_empty() {
        out::line(&format!("files with the digest {}:", found.digest))?;
        let mut lines = table(&found.files).lines(None).into_iter();
        lines.try_for_each(|line| out::line(&line))?;
    }
    tell_problems(found.problems.iter(), style)
}

async fn is_wanted_by_person(
    found: &ListWorkspaceFilesResponse,
    context: &Context,
) -> Result<bool, CliError> {
    let trust = trust_command(context);
    let by_digest = format!("{trust} --digest {} --yes", found.digest);
    if !is_at_terminal(context) {
        let message =
            "confirming the files of a workspace needs a terminal, or their digest and --yes";
        return Err(CliError::usage(message)
            .hint(format!("read them, then confirm them with: {by_digest}")));
    }
    if is_too_long(&table(&found.files).lines(None)) {
        let message = "the workspace has more files than can be looked at here";
        return Err(CliError::usage(message)
            .hint(format!("read them, then confirm them with: {by_digest}")));
    }
    is_wanted(context, "Confirm them only if you have read them. Confirm?").await
}

fn changed(context: &Context, error: CliError) -> CliError {
    if error.reason != WORKSPACE_CHANGED {
        return error;
    }
    error.hint(format!(
        "look at them again with: {}",
        trust_command(context)
    ))
}

/// What counts from now on.
fn report(found: &ListWorkspaceFilesResponse, context: &Context) -> Result<(), CliError> {
    if context.json {
        return out::json(&to_json(found));
    }
    out::line(match found.files.is_empty() {
        true => NONE,
        false => "the files are confirmed; a change of one needs another confirmation",
    })
}

fn to_json(found: &ListWorkspaceFilesResponse) -> Value {
    let files = found.files.iter().map(|file| {
        json!({
            "path": file.path,
            "kind": kind_name(file.kind()),
            "size": file.size,
            "name": file.name,
            "others": file.others,
        })
    });
    json!({
        "digest": found.digest,
        "confirmed": found.confirmed,
        "files": files.collect::<Vec<_>>(),
        "problems": found.problems,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::api::WorkspaceFile;

    #[test]
    fn only_the_digest_of_the_files_is_taken() {
        let files = ListWorkspaceFilesResponse {
            digest: "abc".to_owned(),
            files: vec![WorkspaceFile::default()],
            ..ListWorkspaceFilesResponse::default()
        };
        assert_eq!(check_digest(None, &files), Ok(()));
        assert_eq!(check_digest(Some("abc"), &files), Ok(()));
        let other = check_digest(Some("abd"), &files).unwrap_err();
        let said = "the files of the workspace have the digest abc, not abd";
        assert_eq!((other.message.as_str(), other.code), (said, 2));
        let none = check_digest(Some("abc"), &ListWorkspaceFilesResponse::default());
        assert!(none.unwrap_err().message.starts_with(NONE));
    }
}
