//! From the server's JSON to a reply.

use super::wire::{CALL_NAMES, FUNCTION, FUNCTION_NAMES, MESSAGE_RETURNED};
use super::{calls, reasoning, wire};
use crate::ModelError;
use crate::clean::Cleaner;
use crate::server::draft::{CallDraft, Draft};
use crate::server::extra::{Extra, returned, unnamed};
use crate::server::{Piece, end, fault};
use serde_json::Value;

/// Reads a whole answer.
pub(super) fn whole(json: &[u8], cleaner: &Cleaner) -> Result<Draft, ModelError> {
    let reply = wire::Reply::parse(json, cleaner)?;
    let choice = reply.choices.iter().flatten().next();
    if choice.is_none_or(|choice| choice.message.is_none()) {
        return Err(fault::senseless(
            "it has no choice with a message",
            json,
            cleaner,
        ));
    }
    let mut draft = Draft::default();
    add(&mut draft, reply, cleaner)?;
    Ok(draft)
}

/// Reads the data of one event of a stream.
pub(super) fn piece(draft: &mut Draft, data: &str, cleaner: &Cleaner) -> Result<Piece, ModelError> {
    if data == "[DONE]" {
        return Ok(Piece::End);
    }
    let piece = wire::Reply::parse(data.as_bytes(), cleaner)?;
    add(draft, piece, cleaner).map(Piece::Text)
}

/// Adds a piece; returns the text that it brought.
fn add(draft: &mut Draft, piece: wire::Reply, cleaner: &Cleaner) -> Result<String, ModelError> {
    if let Some(usage) = &piece.usage {
        draft.usage = usage.reported();
    }
    draft.model = draft.model.take().or(piece.model);
    let Some(choice) = piece.choices.into_iter().flatten().next() else {
        return Ok(String::new());
    };
    if let Some(name) = &choice.finish_reason {
        let reason = end::reason(name, draft, cleaner)?;
        draft.finish = draft.finish.or(reason);
    }
    match (choice.delta, choice.message) {
        (Some(delta), _) => add_delta(draft, delta),
        // A message that comes first or ends the stream is whole; one between is a piece.
        (None, Some(message)) if draft.is_empty() || draft.finish.is_some() => {
            let rest = rest_of(draft, message);
            add_delta(draft, rest)
        }
        (None, Some(message)) => add_delta(draft, message),
        (None, None) => Ok(String::new()),
    }
}

/// What a whole message has beyond the pieces before it. Some servers end a stream with the message
/// that they have sent in pieces.
fn rest_of(draft: &mut Draft, mut message: wire::Delta) -> wire::Delta {
    let shown = draft.text();
    message.content = message.content.take().map(|content| {
        let text = content.into_text();
        wire::Content::Text(text_after(&shown, text))
    });
    if draft.refused {
        message.refusal = None;
    }
    for (name, value) in message.reasoning_mut() {
        if draft.opaque_mut().any(|opaque| opaque.kind == name) {
            *value = None;
        }
    }
    if !draft.extra.is_empty() {
        message.extra.clear();
    }
    // Calls of a whole message carry no index; each is a call of its own.
    let repeated = draft.calls().count();
    let all = message.tool_calls.take().into_iter().flatten();
    let all = (0..).zip(all.chain(only_call(message.function_call.take())));
    let new = all.skip(repeated).map(|(at, call)| wire::CallPiece {
        index: Some(at),
        ..call
    });
    message.tool_calls = Some(new.collect());
    message
}

/// The part of a text that was not shown. A text that does not repeat what was shown is new.
fn text_after(shown: &str, text: String) -> String {
    match text.strip_prefix(shown) {
        Some(rest) => rest.to_owned(),
        None if text.trim() == shown.trim() => String::new(),
        None => text,
    }
}

/// Adds a piece of the message; returns the text that it brought.
fn add_delta(draft: &mut Draft, mut delta: wire::Delta) -> Result<String, ModelError> {
    for (name, value) in delta.reasoning_mut() {
        reasoning::add(draft, name, value.take().unwrap_or_default())?;
    }
    draft.extra.add(returned(delta.extra, &MESSAGE_RETURNED));
    let mut text = delta
        .content
        .map(wire::Content::into_text)
        .unwrap_or_default();
    if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
        draft.refused = true;
        text.push_str(&refusal);
    }
    draft.add_text(&text);
    let calls = delta.tool_calls.into_iter().flatten();
    for call in calls.chain(only_call(delta.function_call)) {
        calls::add(draft, call_of(call))?;
    }
    Ok(text)
}

/// The one call of older servers, which has no index.
fn only_call(function: Option<wire::FunctionPiece>) -> Option<wire::CallPiece> {
    function.map(|function| wire::CallPiece {
        index: Some(0),
        function: Some(function),
        ..wire::CallPiece::default()
    })
}

fn call_of(piece: wire::CallPiece) -> CallDraft {
    let function = piece.function.unwrap_or_default();
    let mut extra = Extra::default();
    extra.add(unnamed(piece.extra, &CALL_NAMES));
    let of_function = unnamed(function.extra, &FUNCTION_NAMES);
    if !of_function.is_empty() {
        let fields = [(FUNCTION.to_owned(), Value::Object(of_function))];
        extra.add(fields.into_iter().collect());
    }
    CallDraft {
        index: piece.index,
        id: piece.id.unwrap_or_default(),
        name: function.name.unwrap_or_default(),
        arguments: match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(json) => json.to_string(),
        },
        extra,
        ..CallDraft::default()
    }
}
