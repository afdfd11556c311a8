//! `cairn log --result`: the whole text of a long result.

use crate::client::Client;
use crate::error::CliError;
use crate::ui::event_json::result_handle;
use crate::ui::file::{self, Readers, Replacement};
use crate::ui::{out, screen};
use cairn_proto::event::ResultHandle;
use cairn_proto::orchestrator::GetResultRequest;
use serde_json::json;
use std::path::Path;

/// The flag for the field of the request.
const RESULT: [(&str, &str); 1] = [("handle", "--result")];

/// Where the text goes.
enum Target {
    File(Replacement),
    /// To standard output once it is whole, so that a slow reader does not keep the server waiting.
    Gathered(Vec<u8>),
}

impl Target {
    fn add(&mut self, part: &[u8]) -> Result<(), CliError> {
        match self {
            Self::File(file) => file.bytes(part),
            Self::Gathered(text) => {
                text.extend_from_slice(part);
                Ok(())
            }
        }
    }
}

/// Writes the text to a file or to standard output.
pub(super) async fn show(
    client: &Client<'_>,
    session: String,
    handle: String,
    output: Option<&Path>,
) -> Result<(), CliError> {
    let context = client.context();
    let request = GetResultRequest {
        session: session.clone(),
        handle,
    };
    let parts = client.orchestrator().get_result(request).await;
    let parts = parts.map_err(|status| CliError::from(status).naming(&RESULT))?;
    let mut parts = parts.into_inner();
    let output = file::named(output);
    let mut target = match output {
        Some(path) => Target::File(Replacement::begin(path, Readers::User)?),
        None => Target::Gathered(Vec::new()),
    };
    let mut whole = ResultHandle::default();
    let mut bytes = 0;
    while let Some(message) = parts.message().await? {
        if let Some(found) = message.whole {
            whole = found;
        }
        bytes += message.data.len();
        target.add(&message.data)?;
    }
    match target {
        Target::File(file) => {
            file.finish()?;
            if let Some(path) = output {
                file::written(context, path, &format!("{bytes} bytes"))?;
            }
        }
        Target::Gathered(text) if context.json => out::json(&json!({
            "session": session,
            "whole": result_handle(Some(&whole)),
            "text": String::from_utf8_lossy(&text),
        }))?,
        Target::Gathered(text) if out::is_terminal() => {
            out::text(&String::from_utf8_lossy(&text))?;
        }
        Target::Gathered(text) => out::bytes(&text)?,
    }
    if !context.json {
        warn_of_loss(&whole);
    }
    Ok(())
}

/// Warns if the text is incomplete.
fn warn_of_loss(whole: &ResultHandle) {
    if whole.lost_bytes > 0 {
        screen::tell(&format!(
            "the last {} bytes of the result were not kept: the session had no more room in the store",
            whole.lost_bytes
        ));
    }
    if whole.is_cut {
        screen::tell("the tool gave more than its limit of output, which was not kept");
    }
}
