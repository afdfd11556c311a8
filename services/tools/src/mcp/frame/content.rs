//! The result of a call, block by block: one that cannot be read becomes a line that says so.

use super::raw::{self, Raw};
use super::{Fields, given, value};
use crate::text::brief;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value};

/// Most characters of a server's word in a line.
const MOST_WORD: usize = 64;

/// Whether the fields are those of a call's result. Those of a question and of a task have another type.
pub(super) fn is_result(fields: &Fields<'_>) -> bool {
    let kind = given(fields, "resultType");
    let is_complete = kind.is_none_or(|kind| kind.get() == "\"complete\"");
    let has = |name: &&str| fields.contains_key(*name);
    is_complete && ["content", "structuredContent", "isError"].iter().any(has)
}

pub(super) fn result(fields: &Fields<'_>) -> CallToolResult {
    let mut blocks = match given(fields, "content") {
        None => Vec::new(),
        Some(content) => match raw::items(content.get()) {
            Some(items) => (1..).zip(items).map(|(at, item)| block(at, item)).collect(),
            // One block, or its text.
            None => vec![block(1, content)],
        },
    };
    let structured = match given(fields, "structuredContent").map(value) {
        None => None,
        Some(Ok(structured)) => Some(structured),
        Some(Err(why)) => {
            let line = format!("[structuredContent is left out: it {why}]");
            blocks.push(ContentBlock::text(line));
            None
        }
    };
    let mut result = CallToolResult::success(blocks);
    result.structured_content = structured;
    result.is_error = Some(given(fields, "isError").is_some_and(is_true));
    result
}

/// The result of a server that gave no object.
pub(super) fn of_text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// What is neither true nor false is taken for the worse.
fn is_true(raw: Raw<'_>) -> bool {
    let word = raw.get().trim_matches('"');
    !(word.eq_ignore_ascii_case("false") || matches!(word, "" | "0"))
}

fn block(at: usize, raw: Raw<'_>) -> ContentBlock {
    match readable(raw) {
        Ok(block) => block,
        Err(why) => ContentBlock::text(format!("[content {at} is left out: {why}]")),
    }
}

/// # Errors
/// What is wrong with it, by the name of its field.
fn readable(raw: Raw<'_>) -> Result<ContentBlock, String> {
    let fields = match value(raw).map_err(|why| format!("it {why}"))? {
        Value::Object(fields) => fields,
        Value::String(text) => return Ok(ContentBlock::text(text)),
        _ => return Err("it is no object".to_owned()),
    };
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        None | Some(Value::Null) if fields.contains_key("text") => "text",
        None | Some(Value::Null) => return Err("its type is missing".to_owned()),
        Some(_) => return Err("its type is no text".to_owned()),
    };
    match kind {
        "text" => words(&fields),
        "image" => Ok(ContentBlock::image(
            text(&fields, "", "data")?,
            text(&fields, "", "mimeType")?,
        )),
        "audio" => Ok(ContentBlock::audio(
            text(&fields, "", "data")?,
            text(&fields, "", "mimeType")?,
        )),
        "resource" => resource(&fields),
        "resource_link" => {
            let uri = text(&fields, "", "uri")?;
            let name = text(&fields, "", "name").unwrap_or_else(|_| uri.clone());
            Ok(ContentBlock::resource_link(Resource::new(uri, name)))
        }
        other => Err(format!(
            "its type '{}' is unknown",
            brief(other, MOST_WORD).escape_debug()
        )),
    }
}

/// What should be a text and is not is shown as JSON.
fn words(fields: &Map<String, Value>) -> Result<ContentBlock, String> {
    match fields.get("text") {
        None | Some(Value::Null) => Err("its text is missing".to_owned()),
        Some(Value::String(text)) => Ok(ContentBlock::text(text)),
        Some(other) => Ok(ContentBlock::text(other.to_string())),
    }
}

fn resource(fields: &Map<String, Value>) -> Result<ContentBlock, String> {
    let Some(Value::Object(fields)) = fields.get("resource") else {
        return Err("its resource is missing".to_owned());
    };
    let at = "resource.";
    let uri = text(fields, at, "uri")?;
    let mime_type = text(fields, at, "mimeType").ok();
    let contents = match text(fields, at, "blob") {
        Ok(blob) => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            meta: None,
        },
        Err(_) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text(fields, at, "text")?,
            meta: None,
        },
    };
    Ok(ContentBlock::resource(contents))
}

/// # Errors
/// It is missing, or no text.
fn text(fields: &Map<String, Value>, at: &str, name: &str) -> Result<String, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Err(format!("its {at}{name} is missing")),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("its {at}{name} is no text")),
    }
}
