//! What a call of a server gave.

use crate::error::ToolError;
use crate::text;
use crate::tool::{InputRequired, Media, Output};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_views::elicitation;
use rmcp::model::{
    CallToolResult, ContentBlock, InputRequiredResult, ResourceContents, ServerResult,
};
use serde_json::Value;

/// Most bytes of the state of a question: it is stored with it.
const MOST_STATE: usize = 64 * 1024;
/// Most bytes of a text that is compared with structured content: its values may need many times as much.
const MOST_COMPARED: usize = 1 << 20;
/// Most characters of a name or an address in a line about content.
const MOST_NAME: usize = 300;

/// Reads a result. All of it was one message, which bounds its size.
///
/// # Errors
/// The tool failed, or asks a person.
pub(crate) fn read(tool: &str, result: ServerResult) -> Result<Output, ToolError> {
    match result {
        ServerResult::CallToolResult(result) => complete(tool, result),
        ServerResult::InputRequiredResult(result) => Err(asked(tool, result)),
        ServerResult::CreateTaskResult(_) => Err(ToolError::ExecutionFailed(format!(
            "tool '{tool}' answered with a task, which Cairn does not offer to its servers; what it had \
             done by then stays done"
        ))),
        // Some servers leave out the content.
        ServerResult::EmptyResult(_) => Ok(Output::default()),
        _ => Err(ToolError::ExecutionFailed(format!(
            "tool '{tool}' answered what is no result of a tool"
        ))),
    }
}

fn complete(tool: &str, result: CallToolResult) -> Result<Output, ToolError> {
    let is_error = result.is_error == Some(true);
    let mut output = Output::default();
    let mut lines: Vec<String> = Vec::new();
    for block in result.content {
        add(block, &mut lines, &mut output.media);
    }
    if let Some(structured) = result.structured_content
        && !lines.iter().any(|line| is_same(line, &structured))
    {
        lines.push(structured.to_string());
    }
    if is_error && !output.media.is_empty() {
        let files = cairn_engine::text::counted(output.media.len(), "picture or file");
        lines.push(format!("[{files} left out, because the call failed]"));
    }
    output.text = match lines.len() {
        // It may be large, and is not copied.
        1 => lines.remove(0),
        _ => lines.join("\n"),
    };
    if !is_error {
        return Ok(output);
    }
    let said = match output.text.trim() {
        "" => format!("tool '{tool}' failed without saying why"),
        said => said.to_owned(),
    };
    Err(ToolError::ExecutionFailed(text::cut(
        said,
        crate::tool::OUTPUT_LIMIT,
    )))
}

/// Servers often give their structured content as text, too, or their text once more as the only member
/// of an object.
fn is_same(line: &str, structured: &Value) -> bool {
    let only = structured.as_object().filter(|it| it.len() == 1);
    let only = only.and_then(|it| it.values().next());
    if only.and_then(Value::as_str) == Some(line) {
        return true;
    }
    if line.len() > MOST_COMPARED {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    value == *structured || only == Some(&value)
}

fn add(block: ContentBlock, lines: &mut Vec<String>, media: &mut Vec<Media>) {
    match block {
        ContentBlock::Text(text) => lines.push(text.text),
        ContentBlock::Image(image) => {
            lines.push(decoded("image", &image.mime_type, "", &image.data, media));
        }
        ContentBlock::Audio(audio) => {
            lines.push(decoded("audio", &audio.mime_type, "", &audio.data, media));
        }
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                lines.push(format!("[resource {}]\n{text}", named(&uri)));
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                lines.push(decoded("resource", &mime, &uri, &blob, media));
            }
            _ => lines.push("[content of an unknown kind]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => {
            let (uri, name) = (named(&link.uri), named(&link.name));
            lines.push(match name.is_empty() || name == uri {
                true => format!("[link {uri}]"),
                false => format!("[link {uri} {name}]"),
            });
        }
        _ => lines.push("[content of an unknown kind]".to_owned()),
    }
}

/// A line about content that is no text, which goes to the media.
fn decoded(kind: &str, mime: &str, uri: &str, data: &str, media: &mut Vec<Media>) -> String {
    let mime = named(mime);
    let uri = named(uri);
    let place = if uri.is_empty() {
        String::new()
    } else {
        format!(" {uri}")
    };
    match STANDARD.decode(data) {
        Ok(data) => {
            let line = format!("[{kind} {mime}{place}, {} bytes]", grouped(data.len()));
            media.push(Media {
                mime_type: mime,
                name: uri,
                data,
            });
            line
        }
        Err(_) => format!("[{kind} {mime}{place}, left out: it is not base64]"),
    }
}

/// A server's word in a line of ours.
fn named(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    text::brief(&line, MOST_NAME)
}

/// A number with commas: `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn asked(tool: &str, result: InputRequiredResult) -> ToolError {
    let refused = |why: &str| {
        ToolError::ExecutionFailed(format!(
            "tool '{tool}' asks what people cannot answer: {why}"
        ))
    };
    let requests = serde_json::to_string(&result.input_requests.unwrap_or_default());
    let Ok(requests) = requests else {
        return refused("its requests are no JSON");
    };
    if let Err(why) = elicitation::check(&requests) {
        return refused(&why);
    }
    if result
        .request_state
        .as_ref()
        .is_some_and(|state| state.len() > MOST_STATE)
    {
        return refused("its state has more than 64 KiB");
    }
    ToolError::InputRequired(InputRequired {
        requests,
        state: result.request_state,
    })
}

#[cfg(test)]
mod tests;
