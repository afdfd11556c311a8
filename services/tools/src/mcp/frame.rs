//! The messages of one frame: a line, a body, or the data of an event.
//!
//! Servers send what JavaScript and Python write and JSON forbids, items without their fields, and frames
//! that end in the middle. What is readable of a frame is read. A frame that cannot be read and answers a
//! request ends that request: its server has acted on it, and nothing more will come.

mod content;
mod gather;
mod raw;
mod repair;
mod scan;
mod tools;

pub(crate) use gather::{Endless, Gathered, Room};
pub(crate) use tools::left_out;

use super::MOST_VALUES;
use crate::schema::depth;
use raw::Raw;
use repair::repaired;
use rmcp::model::{
    ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use scan::{Scan, number};
use serde_json::Value;
use std::collections::BTreeMap;

/// The code of an answer that cannot be read. No server has it: the codes of JSON-RPC are far from it.
pub(crate) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);
/// The code of a request that its server refused before it acted on it.
pub(crate) const REFUSED: ErrorCode = ErrorCode(i32::MIN + 1);

/// Deepest nesting of a schema, a block or a structured result. With the message around it, it stays within
/// what the parser takes.
const DEEPEST: usize = 120;

/// An object whose values are not read yet: one that cannot be read does not take the others with it.
type Fields<'a> = BTreeMap<String, Raw<'a>>;

/// The messages of a frame: one, those of a batch, or none if it is no message, as a line of a log.
///
/// `asked` is the request that the frame answers, where the connection says so. An answer without a readable
/// id is taken for its answer.
pub(crate) fn read(frame: &[u8], asked: Option<&RequestId>) -> Vec<ServerJsonRpcMessage> {
    let text = String::from_utf8_lossy(frame);
    let around = |c: char| c.is_whitespace() || matches!(c, '\0' | '\u{feff}');
    let text = repaired(text.trim_matches(around));
    // A shorter one has fewer.
    if text.len() > MOST_VALUES {
        let mut scan = Scan::default();
        scan.add(text.as_bytes());
        if scan.values() > MOST_VALUES {
            let too_many = |id| unreadable(id, format!("it has more than {MOST_VALUES} values"));
            return scan.answers(asked).map(too_many).into_iter().collect();
        }
    }
    match raw::items(&text) {
        Some(batch) => {
            let messages = batch.iter().map(|item| message(item.get(), asked));
            messages.flatten().collect()
        }
        None => message(&text, asked).into_iter().collect(),
    }
}

/// The answer to a request in place of one that cannot be read.
pub(crate) fn unreadable(id: RequestId, why: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(UNREADABLE, why, None), Some(id))
}

/// Whether a message is in place of one that cannot be read.
pub(crate) fn is_unreadable(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Error(error) if error.error.code == UNREADABLE)
}

fn message(text: &str, asked: Option<&RequestId>) -> Option<ServerJsonRpcMessage> {
    let Some(fields) = raw::fields(text) else {
        let mut scan = Scan::default();
        scan.add(text.as_bytes());
        let id = scan.answers(asked)?;
        return Some(unreadable(id, "it is no JSON".to_owned()));
    };
    if fields.contains_key("method") {
        return request(text);
    }
    if asked.is_none() && is_log(&fields) {
        return None;
    }
    let id = fields.get("id").and_then(|id| number(id.get()));
    let id = id.or_else(|| asked.cloned());
    match (given(&fields, "error"), fields.get("result").copied()) {
        // Some servers always send both, and one of them is null.
        (Some(found), _) => Some(JsonRpcMessage::error(error(found), id)),
        (None, Some(found)) => match result(found) {
            Ok(result) => Some(JsonRpcMessage::response(result, id?)),
            Err(why) => Some(unreadable(id?, why)),
        },
        (None, None) if fields.contains_key("jsonrpc") => Some(unreadable(
            id?,
            "it has neither a result nor an error".to_owned(),
        )),
        (None, None) => None,
    }
}

/// Whether a line is one of a log: some servers leave out the version, and add nothing.
fn is_log(fields: &Fields<'_>) -> bool {
    let is_ours = |name: &String| matches!(name.as_str(), "id" | "result" | "error");
    !fields.contains_key("jsonrpc") && !fields.keys().all(is_ours)
}

/// A request or a notification. One that cannot be read is nobody's answer, and is left out.
fn request(text: &str) -> Option<ServerJsonRpcMessage> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return None;
    };
    if fields.get("id").is_some_and(Value::is_null) {
        fields.remove("id");
    }
    fields.remove("result");
    fields.remove("error");
    fields.insert("jsonrpc".to_owned(), "2.0".into());
    serde_json::from_value(Value::Object(fields)).ok()
}

/// # Errors
/// Why it cannot be read.
fn result(raw: Raw<'_>) -> Result<ServerResult, String> {
    let Some(fields) = raw::fields(raw.get()) else {
        return Ok(match raw.get() {
            "null" => ServerResult::empty(()),
            _ => ServerResult::CallToolResult(content::of_text(plain(raw))),
        });
    };
    if content::is_result(&fields) {
        return Ok(ServerResult::CallToolResult(content::result(&fields)));
    }
    if let Some(page) = tools::page(&fields) {
        return Ok(ServerResult::ListToolsResult(page));
    }
    let value = value(raw).map_err(|why| format!("it {why}"))?;
    serde_json::from_value(value).map_err(|_| "it is no result".to_owned())
}

fn error(raw: Raw<'_>) -> ErrorData {
    let Some(fields) = raw::fields(raw.get()) else {
        return ErrorData::new(ErrorCode::INTERNAL_ERROR, plain(raw), None);
    };
    let code = given(&fields, "code").and_then(|code| code.get().trim_matches('"').parse().ok());
    let code = code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let message = given(&fields, "message").map_or("no message".to_owned(), plain);
    // The library looks for the versions in it that a server speaks.
    let data = given(&fields, "data").and_then(|data| value(data).ok());
    ErrorData::new(code, message, data)
}

/// A field that is there. One that is null is not.
fn given<'a>(fields: &Fields<'a>, name: &str) -> Option<Raw<'a>> {
    let found = fields.get(name).copied();
    found.filter(|raw| raw.get() != "null")
}

/// A text as it is, anything else as its JSON.
fn plain(raw: Raw<'_>) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// # Errors
/// Why it cannot be read, in words that follow its name.
fn value(raw: Raw<'_>) -> Result<Value, String> {
    if depth(raw.get()) > DEEPEST {
        return Err(format!("is nested more than {DEEPEST} levels deep"));
    }
    serde_json::from_str(raw.get()).map_err(|_| "cannot be read".to_owned())
}
