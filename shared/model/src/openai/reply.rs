//! From the server's JSON to a reply.

use super::{reasoning, wire};
use crate::clean::Cleaner;
use crate::server::draft::{CallDraft, Draft};
use crate::server::{Piece, fault};
use crate::{FinishReason, ModelError};
use serde_json::Value;

/// Reads a whole answer.
pub(super) fn whole(json: &[u8], cleaner: &Cleaner) -> Result<Draft, ModelError> {
    let mut reply = wire::Reply::parse(json, cleaner)?;
    let choice = reply.choices.iter_mut().flatten().next();
    let Some(delta) = choice.and_then(|choice| choice.message.as_mut()) else {
        return Err(fault::senseless(
            "it has no choice with a message",
            json,
            cleaner,
        ));
    };
    // Calls of a whole answer carry no index; each is a call of its own.
    for (at, call) in (0..).zip(delta.tool_calls.iter_mut().flatten()) {
        call.index = Some(at);
    }
    let mut draft = Draft::default();
    add(&mut draft, reply)?;
    Ok(draft)
}

/// Reads the data of one event of a stream.
pub(super) fn piece(draft: &mut Draft, data: &str, cleaner: &Cleaner) -> Result<Piece, ModelError> {
    if data == "[DONE]" {
        return Ok(Piece::End);
    }
    let piece = wire::Reply::parse(data.as_bytes(), cleaner)?;
    add(draft, piece).map(Piece::Text)
}

/// Adds a piece; returns the text that it brought.
fn add(draft: &mut Draft, piece: wire::Reply) -> Result<String, ModelError> {
    if let Some(usage) = &piece.usage {
        draft.usage = usage.reported();
    }
    draft.model = draft.model.take().or(piece.model);
    let Some(choice) = piece.choices.into_iter().flatten().next() else {
        return Ok(String::new());
    };
    let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
    draft.finish = draft.finish.or(reason.as_deref().map(finish_reason));
    let mut delta = choice.delta.or(choice.message).unwrap_or_default();
    for (name, value) in delta.take_reasoning() {
        reasoning::add(draft, name, value.unwrap_or_default())?;
    }
    let mut text = delta
        .content
        .map(wire::Content::into_text)
        .unwrap_or_default();
    if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
        draft.refused = true;
        text.push_str(&refusal);
    }
    draft.add_text(&text);
    let only = delta.function_call.map(|function| wire::CallPiece {
        index: Some(0),
        function: Some(function),
        ..wire::CallPiece::default()
    });
    for call in delta.tool_calls.into_iter().flatten().chain(only) {
        add_call(draft, call)?;
    }
    Ok(text)
}

fn finish_reason(said: &str) -> FinishReason {
    match said.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" => FinishReason::Length,
        "content_filter" => FinishReason::Refusal,
        _ => FinishReason::Other,
    }
}

fn add_call(draft: &mut Draft, piece: wire::CallPiece) -> Result<(), ModelError> {
    let id = piece.id.unwrap_or_default();
    let function = piece.function.unwrap_or_default();
    let name = function.name.unwrap_or_default();
    if let Some(call) = open_call(draft, piece.index, &id, &name) {
        add_piece(call, id, &name, function.arguments);
        return Ok(());
    }
    let mut call = CallDraft {
        index: piece.index,
        ..CallDraft::default()
    };
    add_piece(&mut call, id, &name, function.arguments);
    draft.add_call(call)
}

fn add_piece(call: &mut CallDraft, id: String, name: &str, arguments: Option<Value>) {
    if call.id.is_empty() {
        call.id = id;
    }
    // Some servers repeat the name in every piece, some send it once, in the first.
    if call.name != name {
        call.name.push_str(name);
    }
    match arguments {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => call.arguments.push_str(&text),
        Some(json) => call.arguments.push_str(&json.to_string()),
    }
}

/// The call that a piece continues. Servers that number all calls 0 tell them apart by id; those
/// that do not number them begin each with its name.
fn open_call<'a>(
    draft: &'a mut Draft,
    index: Option<u64>,
    id: &str,
    name: &str,
) -> Option<&'a mut CallDraft> {
    draft.calls_mut().rfind(|call| {
        let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
        match index {
            Some(_) => call.index == index && same_id,
            None if id.is_empty() => name.is_empty(),
            None => call.id == id,
        }
    })
}
