//! From the server's JSON to a reply.
//!
//! Texts and calls are read. Every other block, such as thinking, is kept as the server made it,
//! because the server wants it back unchanged.

use super::wire::{Answer, CALL_NAMES, Event, Fields};
use crate::clean::Cleaner;
use crate::server::draft::{CallDraft, Draft, OpaqueDraft, PartDraft};
use crate::server::extra::{Extra, unnamed};
use crate::server::{Piece, end, fault, from_json};
use crate::{FinishReason, ModelError};
use serde_json::Value;

/// The field that holds the pieces of a block's `input`.
const PARTIAL_JSON: &str = "partial_json";

/// Reads a whole answer.
pub(super) fn whole(json: &[u8], cleaner: &Cleaner) -> Result<Draft, ModelError> {
    let mut answer: Answer = from_json(json, cleaner)?;
    refuse_error(answer.error.as_ref(), cleaner)?;
    let Some(content) = answer.content.take() else {
        return Err(fault::senseless("it has no content", json, cleaner));
    };
    let mut draft = Draft::default();
    begin(&mut draft, answer, cleaner)?;
    for block in content {
        open(&mut draft, None, block)?;
    }
    // The server completes the JSON of a call that it cuts, so nothing in it shows the cut.
    if draft.finish == Some(FinishReason::Length)
        && matches!(draft.parts.last(), Some(PartDraft::Call(_)))
    {
        draft.parts.pop();
    }
    Ok(draft)
}

/// Reads the data of one event of a stream.
pub(super) fn piece(draft: &mut Draft, data: &str, cleaner: &Cleaner) -> Result<Piece, ModelError> {
    let event: Event = from_json(data.as_bytes(), cleaner)?;
    refuse_error(event.error.as_ref(), cleaner)?;
    let index = event.index.unwrap_or_default();
    match event.kind.as_str() {
        "message_start" if draft.parts.is_empty() => {
            begin(draft, event.message.unwrap_or_default(), cleaner)?;
        }
        // What was shown of the first message would be a part of the second.
        "message_start" => {
            return Err(ModelError::Stream {
                message: "a second message began before the first ended".to_owned(),
            });
        }
        "content_block_start" => {
            let block = event.content_block.unwrap_or_default();
            return open(draft, Some(index), block).map(Piece::Text);
        }
        "content_block_delta" => {
            let delta = event.delta.unwrap_or_default();
            return self::delta(draft, index, delta).map(Piece::Text);
        }
        "content_block_stop" => close(draft, index),
        "message_delta" => {
            let delta = event.delta.unwrap_or_default();
            set_finish(draft, text_of(&delta, "stop_reason"), cleaner)?;
            if let Some(usage) = &event.usage {
                usage.report(&mut draft.usage);
            }
        }
        "message_stop" => return Ok(Piece::End),
        // Pings, and what the protocol may learn to say.
        _ => {}
    }
    Ok(Piece::NOTHING)
}

/// Takes over the fields beside the content.
fn begin(draft: &mut Draft, answer: Answer, cleaner: &Cleaner) -> Result<(), ModelError> {
    draft.model = answer.model.or(draft.model.take());
    set_finish(draft, answer.stop_reason.as_deref(), cleaner)?;
    if let Some(usage) = &answer.usage {
        usage.report(&mut draft.usage);
    }
    Ok(())
}

/// Takes over the reason of the end. A later reason replaces an earlier one.
fn set_finish(draft: &mut Draft, name: Option<&str>, cleaner: &Cleaner) -> Result<(), ModelError> {
    let reason = end::reason(name.unwrap_or_default(), draft, cleaner)?;
    draft.finish = reason.or(draft.finish);
    Ok(())
}

/// Begins a block, which is whole without an index; returns the text that it brought.
fn open(draft: &mut Draft, index: Option<u64>, mut block: Fields) -> Result<String, ModelError> {
    if index.is_some() {
        // The server uses the index again, so the block that had it never ends.
        draft.parts.retain(|part| match part {
            PartDraft::Opaque(opaque) => opaque.open != index,
            PartDraft::Text(_) | PartDraft::Call(_) => true,
        });
    }
    let text = |block: &Fields, name| text_of(block, name).unwrap_or_default().to_owned();
    let kind = text(&block, "type");
    match kind.as_str() {
        "text" => {
            let text = text(&block, "text");
            draft.add_text(&text);
            return Ok(text);
        }
        "tool_use" => {
            // In a stream the input is nearly always empty here, and follows in pieces.
            let input = block.shift_remove("input").filter(|input| {
                let fields = input.as_object();
                index.is_none() || fields.is_none_or(|fields| !fields.is_empty())
            });
            let arguments = input.map(to_text).unwrap_or_default();
            let (id, name) = (text(&block, "id"), text(&block, "name"));
            let mut extra = Extra::default();
            extra.add(unnamed(block, &CALL_NAMES));
            draft.add_call(CallDraft {
                index,
                id,
                name,
                came_whole: !arguments.is_empty(),
                arguments,
                extra,
            })?;
        }
        _ => {
            let json = Value::Object(block);
            draft.add_opaque(OpaqueDraft {
                open: index,
                kind,
                bytes: json.to_string().len(),
                json,
            })?;
        }
    }
    Ok(String::new())
}

/// Adds a piece of a block; returns the text that it brought.
fn delta(draft: &mut Draft, index: u64, delta: Fields) -> Result<String, ModelError> {
    if let Some(opaque) = open_block(draft, index) {
        merge(opaque, delta);
        return Ok(String::new());
    }
    match text_of(&delta, "type").unwrap_or_default() {
        "text_delta" => {
            let text = text_of(&delta, "text").unwrap_or_default();
            draft.add_text(text);
            return Ok(text.to_owned());
        }
        "input_json_delta" => {
            let mut calls = draft.calls_mut();
            let Some(call) = calls.rfind(|call| call.index == Some(index)) else {
                return Err(ModelError::BadAnswer {
                    message: format!("block {index} has arguments and is no tool call"),
                });
            };
            let piece = text_of(&delta, PARTIAL_JSON).unwrap_or_default();
            if !piece.is_empty() && std::mem::take(&mut call.came_whole) {
                call.arguments.clear();
            }
            call.arguments.push_str(piece);
        }
        // Citations of a text.
        _ => {}
    }
    Ok(String::new())
}

/// Adds a piece to a block of any kind: its texts continue the block's texts of the same names, a
/// citation is one more of the block's citations, and another value replaces the block's.
fn merge(opaque: &mut OpaqueDraft, delta: Fields) {
    let Value::Object(block) = &mut opaque.json else {
        return;
    };
    for (name, value) in delta {
        opaque.bytes += match &value {
            Value::String(text) => text.len(),
            other => other.to_string().len(),
        };
        match (name.as_str(), value) {
            ("type", _) => {}
            ("citation", citation) => {
                let citations = block.entry("citations").or_insert(Value::Null);
                match citations {
                    Value::Array(list) => list.push(citation),
                    other => *other = Value::Array(vec![citation]),
                }
            }
            (_, Value::String(piece)) => match block.get_mut(&name) {
                Some(Value::String(text)) => text.push_str(&piece),
                _ => {
                    block.insert(name, Value::String(piece));
                }
            },
            (_, value) => {
                block.insert(name, value);
            }
        }
    }
}

/// Ends a block. One whose input is incomplete stays open, and so is no part of the reply.
fn close(draft: &mut Draft, index: u64) {
    let Some(opaque) = open_block(draft, index) else {
        return;
    };
    if let Value::Object(block) = &mut opaque.json
        && let Some(input) = block.shift_remove(PARTIAL_JSON)
    {
        let input = input.as_str().unwrap_or_default();
        let Ok(input) = serde_json::from_str(input) else {
            return;
        };
        block.insert("input".to_owned(), input);
    }
    opaque.open = None;
}

fn open_block(draft: &mut Draft, index: u64) -> Option<&mut OpaqueDraft> {
    draft
        .opaque_mut()
        .rfind(|opaque| opaque.open == Some(index))
}

fn refuse_error(error: Option<&Value>, cleaner: &Cleaner) -> Result<(), ModelError> {
    error.map_or(Ok(()), |error| Err(fault::of_answer(error, cleaner)))
}

fn text_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn to_text(input: Value) -> String {
    match input {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
