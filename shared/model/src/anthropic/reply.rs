//! From the server's JSON to a reply.

use super::wire::{Answer, Content, Event};
use crate::clean::Cleaner;
use crate::server::reply::Draft;
use crate::server::{Piece, fault, from_json};
use crate::{FinishReason, ModelError};
use serde_json::Value;

/// Reads a whole answer.
pub(super) fn whole(json: &[u8], cleaner: &Cleaner) -> Result<Draft, ModelError> {
    let mut answer: Answer = from_json(json, cleaner)?;
    refuse_error(answer.error.as_ref(), cleaner)?;
    let Some(content) = answer.content.take() else {
        return Err(fault::senseless("it has no content", json, cleaner));
    };
    let mut draft = Draft::default();
    begin(&mut draft, answer);
    for (index, block) in (0..).zip(content) {
        let text = open(&mut draft, index, block)?;
        draft.text.push_str(&text);
        // A whole block ends where it begins.
        draft.other_blocks.clear();
    }
    Ok(draft)
}

/// Reads the data of one event of a stream.
pub(super) fn piece(draft: &mut Draft, data: &str, cleaner: &Cleaner) -> Result<Piece, ModelError> {
    let event: Event = from_json(data.as_bytes(), cleaner)?;
    refuse_error(event.error.as_ref(), cleaner)?;
    let index = event.index.unwrap_or_default();
    match event.kind.as_str() {
        "message_start" => begin(draft, event.message.unwrap_or_default()),
        "content_block_start" => {
            let mut block = event.content_block.unwrap_or_default();
            // Nearly always empty here, and then it follows in pieces; what is not is whole.
            block.input = block.input.filter(|input| !is_empty(input));
            return open(draft, index, block).map(Piece::Text);
        }
        "content_block_delta" => return delta(draft, index, event),
        "content_block_stop" => draft.other_blocks.retain(|other| *other != index),
        "message_delta" => {
            let delta = event.delta.unwrap_or_default();
            draft.finish = delta
                .stop_reason
                .as_deref()
                .map(stop_reason)
                .or(draft.finish);
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

fn delta(draft: &mut Draft, index: u64, event: Event) -> Result<Piece, ModelError> {
    if draft.other_blocks.contains(&index) {
        return Ok(Piece::NOTHING);
    }
    let delta = event.delta.unwrap_or_default();
    match delta.kind.as_str() {
        "text_delta" => return Ok(Piece::Text(delta.text.unwrap_or_default())),
        "input_json_delta" => {
            let mut calls = draft.calls.iter_mut();
            let Some(call) = calls.rfind(|call| call.index == Some(index)) else {
                return Err(ModelError::BadAnswer {
                    message: format!("block {index} has arguments and is no tool call"),
                });
            };
            let piece = delta.partial_json.unwrap_or_default();
            call.arguments.push_str(&piece);
        }
        // Thinking and its signature, citations.
        _ => {}
    }
    Ok(Piece::NOTHING)
}

/// Takes over what stands beside the content.
fn begin(draft: &mut Draft, answer: Answer) {
    draft.model = answer.model.or(draft.model.take());
    draft.finish = answer
        .stop_reason
        .as_deref()
        .map(stop_reason)
        .or(draft.finish);
    if let Some(usage) = &answer.usage {
        usage.report(&mut draft.usage);
    }
}

/// Begins a block; returns the text that it brought.
fn open(draft: &mut Draft, index: u64, block: Content) -> Result<String, ModelError> {
    match block.kind.as_str() {
        "text" => Ok(block.text.unwrap_or_default()),
        "tool_use" => {
            let call = draft.new_call(Some(index))?;
            call.id = block.id.unwrap_or_default();
            call.name = block.name.unwrap_or_default();
            call.arguments = block.input.map(to_text).unwrap_or_default();
            Ok(String::new())
        }
        _ => {
            draft.begin_other_block(index)?;
            Ok(String::new())
        }
    }
}

fn stop_reason(said: &str) -> FinishReason {
    match said {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        // `pause_turn` belongs to tools that run at the server, of which none is offered.
        _ => FinishReason::Other,
    }
}

fn refuse_error(error: Option<&Value>, cleaner: &Cleaner) -> Result<(), ModelError> {
    error.map_or(Ok(()), |error| Err(fault::of_answer(error, cleaner)))
}

fn is_empty(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}

fn to_text(input: Value) -> String {
    match input {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
