//! `cairn tools call`.

use super::Call;
use crate::client::Client;
use crate::commands::confirm::{is_at_terminal, is_wanted};
use crate::context::Context;
use crate::error::{CliError, FAILURE, WAITING};
use crate::ui::tools::{extension, is_own, media_line};
use crate::ui::{out, text};
use cairn_proto::event::CallMedia;
use cairn_proto::orchestrator::{CallToolRequest, ListToolsResponse};
use cairn_proto::tools::{ToolResult, ToolSourceState};
use cairn_rpc::text::{clip, escape};
use cairn_tools::mcp::SEPARATOR;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most bytes of the arguments that a question shows.
const MOST_SHOWN: usize = 1000;

pub(super) async fn call(
    call: Call,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<ExitCode, CliError> {
    // A server that is being started has no tools yet.
    let listed = super::list::listed_for(&call.name, client, context).await?;
    let mut request = CallToolRequest {
        name: call.name,
        arguments_json: call.arguments,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
        approved: call.yes,
    };
    let result = match send(client, &request).await {
        Err(error) if error.reason == "APPROVAL_NEEDED" => {
            if !is_at_terminal(context) {
                return Err(needs_approval(&request));
            }
            let arguments = clip(&request.arguments_json, MOST_SHOWN);
            out::line(&format!("{} {arguments}", escape(&request.name)))?;
            if !is_wanted(context, "this call needs your approval; make it?").await? {
                return Err(CliError::new("the call was not made"));
            }
            request.approved = true;
            send(client, &request).await?
        }
        Err(error) => return Err(with_allowance(error, &listed, &request.name)),
        Ok(result) => result,
    };
    show(&result, call.save.as_deref(), context)
}

/// What helps if the tool, or its server, waits for a person.
fn with_allowance(error: CliError, listed: &ListToolsResponse, name: &str) -> CliError {
    let disabled = listed.tools.iter().find(|tool| tool.name == name);
    let disabled = disabled.filter(|tool| !tool.disabled.is_empty() && !is_own(&tool.source));
    let mut sources = listed.sources.iter();
    let waits = sources.find(|source| {
        let owns = name.strip_prefix(&source.name);
        source.state() == ToolSourceState::NotAllowed
            && owns.is_some_and(|rest| rest.starts_with(SEPARATOR))
    });
    let name = disabled.map(|tool| &tool.name).or(waits.map(|it| &it.name));
    match name {
        Some(name) => error.hint(format!(
            "look at it, and allow it with: cairn tools allow {name}"
        )),
        None => error,
    }
}

fn needs_approval(request: &CallToolRequest) -> CliError {
    let message = format!("a call of {} needs approval", request.name);
    CliError::new(message)
        .hint("approve it with: --yes")
        .code(WAITING)
}

/// Not sent again by itself: the tool may not stand a second call.
async fn send(client: &Client<'_>, request: &CallToolRequest) -> Result<ToolResult, CliError> {
    let answer = client.orchestrator().call_tool(request.clone()).await?;
    let result = answer.into_inner().result;
    result.ok_or_else(|| CliError::new("the services gave no result"))
}

fn show(result: &ToolResult, save: Option<&Path>, context: &Context) -> Result<ExitCode, CliError> {
    let files = match save {
        Some(folder) => saved(&result.media, folder)?,
        None => Vec::new(),
    };
    if context.json {
        let media = result.media.iter().enumerate().map(|(at, media)| {
            let file = files.get(at).map(|path| path.display().to_string());
            json!({"mime_type": media.mime_type, "name": media.name,
                   "bytes": media.data.len(), "file": file})
        });
        out::json(&json!({
            "output": result.output,
            "is_error": result.is_error,
            "reason": result.reason,
            "duration_ms": result.duration_ms,
            "media": media.collect::<Vec<_>>(),
        }))?;
    } else {
        if !result.output.is_empty() {
            out::line(&text::block(&result.output))?;
        }
        // The output has a line about each already.
        for (media, file) in result.media.iter().zip(&files) {
            out::line(&media_line(media, file))?;
        }
    }
    match result.is_error {
        true => Ok(ExitCode::from(FAILURE)),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Writes each into a new file; names are ours, as those of a server could lead elsewhere.
fn saved(media: &[CallMedia], folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let fault = |path: &Path, error: &std::io::Error| {
        CliError::new(format!("cannot write {}: {error}", path.display()))
    };
    if !media.is_empty() {
        fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
    }
    let save = |(at, media): (usize, &CallMedia)| {
        let path = folder.join(format!("media-{}.{}", at + 1, extension(&media.mime_type)));
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(&media.data));
        written.map_err(|error| fault(&path, &error))?;
        Ok(path)
    };
    media.iter().enumerate().map(save).collect()
}
