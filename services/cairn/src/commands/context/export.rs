//! `cairn context export`: the messages of a context as JSON lines.

use super::rpc;
use crate::client::Client;
use crate::error::CliError;
use crate::ui::file::{self, Readers, Replacement};
use crate::ui::{out, text};
use cairn_proto::orchestrator::ExportContextRequest;
use std::path::Path;

/// Writes the lines to a file or to standard output.
pub(super) async fn run(
    client: &Client<'_>,
    session: String,
    context: String,
    output: Option<&Path>,
) -> Result<(), CliError> {
    let output = file::named(output);
    let request = ExportContextRequest { session, context };
    let refused = |error: tonic::Status, session: &str| {
        rpc::not_found(client, session, CliError::from(error))
    };
    let session = request.session.clone();
    let chunks = client.contexts().export_context(request).await;
    let mut chunks = chunks
        .map_err(|error| refused(error, &session))?
        .into_inner();
    let mut target = output
        .map(|path| Replacement::begin(path, Readers::User))
        .transpose()?;
    let mut number = 0_u64;
    let mut write = |line: &str| -> Result<(), CliError> {
        number += 1;
        // Every character that could drive a terminal becomes an escape of JSON.
        let line = text::json_escaped(line);
        match &mut target {
            Some(file) => file.line(&line),
            None => out::line(&line),
        }
    };
    let mut rest = String::new();
    while let Some(chunk) = chunks
        .message()
        .await
        .map_err(|error| refused(error, &session))?
    {
        rest.push_str(&chunk.jsonl);
        let end = rest.rfind('\n').map_or(0, |at| at + 1);
        let lines = rest.drain(..end).collect::<String>();
        lines.lines().try_for_each(&mut write)?;
    }
    rest.lines().try_for_each(&mut write)?;
    if let (Some(file), Some(path)) = (target, output) {
        file.finish()?;
        file::written(client.context(), path, &format!("{number} messages"))?;
    }
    Ok(())
}
