//! A page of a list of tools, item by item: one that cannot be used is left out, with its field.

use super::super::{MOST_LIST_BYTES, MOST_TOOLS};
use super::raw::{self, Raw};
use super::{Fields, given, value};
use crate::text::brief;
use rmcp::model::{JsonObject, ListToolsResult, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

/// Where a page says what was left out of it: lines for a person.
const LEFT_OUT: &str = "dev.cairn/left-out";
/// Most bytes of the tools of a page that are read: in memory they may need many times as much.
const MOST_PAGE_BYTES: usize = 2 * MOST_LIST_BYTES;
/// Most characters of the name of a tool that is left out.
const MOST_NAME: usize = 128;

/// What was left out of a page.
pub(crate) fn left_out(page: &ListToolsResult) -> impl Iterator<Item = &str> {
    let lines = page.meta.as_ref().and_then(|meta| meta.0.get(LEFT_OUT));
    let lines = lines.and_then(Value::as_array).into_iter().flatten();
    lines.filter_map(Value::as_str)
}

/// The page, if these are the fields of one.
pub(super) fn page(fields: &Fields<'_>) -> Option<ListToolsResult> {
    let items = match fields.get("tools")?.get() {
        // As Go writes an empty list.
        "null" => Vec::new(),
        items => raw::items(items)?,
    };
    let mut tools = Vec::new();
    let mut lines: Vec<Value> = Vec::new();
    let mut bytes = 0;
    for (at, item) in (1_usize..).zip(items) {
        let length = item.get().len();
        let is_too_large = length > MOST_LIST_BYTES;
        bytes += if is_too_large { 0 } else { length };
        if bytes > MOST_PAGE_BYTES || lines.len() == MOST_TOOLS {
            lines.push("the rest of a page is left out: there is too much of it".into());
            break;
        }
        if is_too_large {
            lines.push(format!("tool {at} is left out: it has {length} bytes").into());
            continue;
        }
        match tool(at, item) {
            Ok(tool) => tools.push(tool),
            Err(line) => lines.push(line.into()),
        }
    }
    let mut page = ListToolsResult::with_all_items(tools);
    page.next_cursor = match given(fields, "nextCursor").map(|it| serde_json::from_str(it.get())) {
        None => None,
        Some(Ok(cursor)) => Some(cursor),
        Some(Err(_)) => {
            let line = "the pages after this one are left out: its nextCursor is no text";
            lines.push(line.into());
            None
        }
    };
    let holds = given(fields, "ttlMs").and_then(|it| serde_json::from_str::<i64>(it.get()).ok());
    page.ttl_ms = holds.map(|ms| u64::try_from(ms).unwrap_or_default());
    if !lines.is_empty() {
        let mut meta = MetaObject::new();
        meta.0.insert(LEFT_OUT.to_owned(), Value::Array(lines));
        page.meta = Some(meta);
    }
    Some(page)
}

/// # Errors
/// That it is left out and why, in a line for a person.
fn tool(at: usize, raw: Raw<'_>) -> Result<Tool, String> {
    let nameless = |why: &str| format!("tool {at} is left out: {why}");
    let fields = raw::fields(raw.get()).ok_or_else(|| nameless("it is no object"))?;
    let name = given(&fields, "name").ok_or_else(|| nameless("its name is missing"))?;
    let name: String =
        serde_json::from_str(name.get()).map_err(|_| nameless("its name is no text"))?;
    if name.trim().is_empty() {
        return Err(nameless("its name is empty"));
    }
    let shown = brief(&name, MOST_NAME).escape_debug().to_string();
    named(name, &fields).map_err(|why| format!("tool '{shown}' is left out: its {why}"))
}

/// # Errors
/// Which field is wrong, in words that follow "its".
fn named(name: String, fields: &Fields<'_>) -> Result<Tool, String> {
    let parameters = schema(fields, "inputSchema")?.ok_or("inputSchema is missing")?;
    let description = text(fields, "description")?;
    let mut tool = Tool::new_with_raw(name, description.map(Into::into), parameters);
    tool.title = text(fields, "title")?;
    // No result is checked by it here.
    tool.output_schema = schema(fields, "outputSchema")
        .ok()
        .flatten()
        .map(Into::into);
    tool.annotations = hints(fields)?;
    Ok(tool)
}

fn text(fields: &Fields<'_>, name: &str) -> Result<Option<String>, String> {
    let found = given(fields, name).map(|raw| serde_json::from_str(raw.get()));
    found.transpose().map_err(|_| format!("{name} is no text"))
}

fn schema(fields: &Fields<'_>, name: &str) -> Result<Option<JsonObject>, String> {
    match given(fields, name).map(value) {
        None => Ok(None),
        Some(Ok(Value::Object(schema))) => Ok(Some(schema)),
        Some(Ok(_)) => Err(format!("{name} is no object")),
        Some(Err(why)) => Err(format!("{name} {why}")),
    }
}

/// A hint that cannot be read might have said that the tool does harm.
fn hints(fields: &Fields<'_>) -> Result<Option<ToolAnnotations>, String> {
    let Some(hints) = given(fields, "annotations") else {
        return Ok(None);
    };
    let hints = raw::fields(hints.get()).ok_or("annotations is no object")?;
    let hint = |name: &str| match given(&hints, name).map(Raw::get) {
        None => Ok(None),
        Some("true" | "\"true\"") => Ok(Some(true)),
        Some("false" | "\"false\"") => Ok(Some(false)),
        Some(_) => Err(format!("annotations.{name} is neither true nor false")),
    };
    let title = given(&hints, "title").and_then(|it| serde_json::from_str(it.get()).ok());
    Ok(Some(ToolAnnotations::from_raw(
        title,
        hint("readOnlyHint")?,
        hint("destructiveHint")?,
        hint("idempotentHint")?,
        hint("openWorldHint")?,
    )))
}
