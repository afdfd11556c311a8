//! The reasoning of a reply: gathered from its pieces, and sent back as it came.

use super::wire::{REASONING, REASONING_CONTENT, REASONING_DETAILS};
use crate::ModelError;
use crate::server::draft::{Draft, OpaqueDraft};
use cairn_engine::message::Opaque;
use serde_json::{Map, Value};

/// The texts of a detail that come in pieces; its other fields are whole.
const PIECEWISE: [&str; 3] = ["text", "summary", "data"];

/// Adds the value of the field `name` in one piece of a reply. A value of another kind than the
/// field has is left out.
pub(super) fn add(draft: &mut Draft, name: &'static str, value: Value) -> Result<(), ModelError> {
    let is_empty = match &value {
        Value::String(text) => text.is_empty() || name == REASONING_DETAILS,
        Value::Array(list) => list.is_empty() || name != REASONING_DETAILS,
        _ => true,
    };
    if is_empty {
        return Ok(());
    }
    let gathered = draft.opaque_mut().find(|opaque| opaque.kind == name);
    let Some(gathered) = gathered else {
        return draft.add_opaque(OpaqueDraft {
            open: None,
            kind: name.to_owned(),
            bytes: value.to_string().len(),
            json: value,
        });
    };
    match (&mut gathered.json, value) {
        (Value::String(text), Value::String(piece)) => {
            gathered.bytes += piece.len();
            text.push_str(&piece);
        }
        (Value::Array(list), Value::Array(pieces)) => {
            for piece in pieces {
                gathered.bytes += piece.to_string().len();
                add_detail(list, piece);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds a piece to the detail that it continues: one of the same kind with the same number.
fn add_detail(list: &mut Vec<Value>, piece: Value) {
    let key = |detail: &Value| (detail.get("index").cloned(), detail.get("type").cloned());
    let number = piece.get("index").is_some_and(Value::is_number);
    let last = list.iter_mut().rfind(|detail| key(detail) == key(&piece));
    let (Some(Value::Object(detail)), Value::Object(fields)) = (last.filter(|_| number), &piece)
    else {
        list.push(piece);
        return;
    };
    for (name, value) in fields {
        match (detail.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if PIECEWISE.contains(&name.as_str()) =>
            {
                text.push_str(more);
            }
            _ => {
                detail.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Puts reasoning into the field in which it came; a part of another kind is left out.
pub(super) fn put(fields: &mut Map<String, Value>, opaque: &Opaque) {
    let Ok(value) = serde_json::from_str::<Value>(&opaque.json) else {
        return;
    };
    let fits = match opaque.kind.as_str() {
        REASONING_CONTENT | REASONING => value.is_string(),
        REASONING_DETAILS => value.is_array(),
        _ => false,
    };
    if fits {
        fields.insert(opaque.kind.clone(), value);
    }
}
