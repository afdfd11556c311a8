//! Fields of a reply that its protocol does not name, such as the thought signature of a call. Some
//! servers refuse the next request without them. Strict servers refuse other fields of a message, so
//! only those that a server is known to want back are kept of one.
//!
//! They are kept as an opaque part, so that they go back to the model that made them and to no other.
//! The fields of a call stand right after the call, because that place survives storage.

use crate::clean::Cleaner;
use cairn_engine::message::Opaque;
pub(crate) use cairn_engine::message::{CALL_FIELDS, MESSAGE_FIELDS};
use serde_json::{Map, Value};

/// The extra fields of a call or of a message while they come, whole or in pieces.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    fields: Map<String, Value>,
    /// Bytes that were gathered. Measuring the JSON at every piece would take too long.
    bytes: usize,
}

impl Extra {
    /// Adds the fields of one piece. Objects are merged and lists continued. Another value replaces
    /// the one before, because servers repeat a name or a flag in every piece.
    pub(crate) fn add(&mut self, fields: Map<String, Value>) {
        merge_fields(&mut self.fields, fields, &mut self.bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn redact(&mut self, cleaner: &Cleaner) {
        let mut json = Value::Object(std::mem::take(&mut self.fields));
        cleaner.redact_json(&mut json);
        if let Value::Object(fields) = json {
            self.fields = fields;
        }
    }

    pub(crate) fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// The fields as one value; none without a field.
    pub(crate) fn into_json(self) -> Option<Value> {
        (!self.fields.is_empty()).then_some(Value::Object(self.fields))
    }
}

/// The fields that an opaque part has.
pub(crate) fn fields_of(opaque: &Opaque) -> Map<String, Value> {
    serde_json::from_str(&opaque.json).unwrap_or_default()
}

/// The fields that have a value, without those that the protocol names.
pub(crate) fn unnamed(mut fields: Map<String, Value>, named: &[&str]) -> Map<String, Value> {
    fields.retain(|name, value| !named.contains(&name.as_str()) && !is_nothing(value));
    fields
}

/// The fields of a message with these names that have a value. A piece may be marked as a thought, which
/// the whole message is not.
pub(crate) fn returned(mut fields: Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    fields.values_mut().for_each(without_marks);
    fields.retain(|name, value| names.contains(&name.as_str()) && !is_nothing(value));
    fields
}

fn without_marks(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|name, value| name != "thought" || !value.is_boolean());
        fields.values_mut().for_each(without_marks);
        fields.retain(|_, value| !is_nothing(value));
    }
}

/// No value, or an empty one.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn merge_fields(old: &mut Map<String, Value>, new: Map<String, Value>, bytes: &mut usize) {
    for (name, value) in new {
        match old.get_mut(&name) {
            Some(old) => merge(old, value, bytes),
            None => {
                *bytes += name.len() + size(&value);
                old.insert(name, value);
            }
        }
    }
}

fn merge(old: &mut Value, new: Value, bytes: &mut usize) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => merge_fields(old, new, bytes),
        (Value::Array(old), Value::Array(new)) => {
            *bytes += new.iter().map(size).sum::<usize>();
            old.extend(new);
        }
        (old, new) => {
            *bytes = bytes.saturating_sub(size(old)) + size(&new);
            *old = new;
        }
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(json: Value) -> Map<String, Value> {
        match json {
            Value::Object(fields) => fields,
            other => panic!("no object: {other}"),
        }
    }

    #[test]
    fn fields_come_in_pieces_and_those_that_the_protocol_names_are_left_out() {
        let mut extra = Extra::default();
        for piece in [
            json!({"type": "function", "name": "M", "a": {"x": 1}, "list": [1], "nothing": null}),
            json!({"type": "function", "name": "M", "a": {"y": 2}, "list": [2], "b": ""}),
        ] {
            extra.add(unnamed(fields(piece), &["type"]));
        }
        let all = json!({"name": "M", "a": {"x": 1, "y": 2}, "list": [1, 2]});
        assert!(extra.bytes() > 0 && extra.bytes() < 60, "{extra:?}");
        assert_eq!(extra.into_json(), Some(all));
        assert_eq!(Extra::default().into_json(), None);
    }

    #[test]
    fn a_field_that_every_piece_repeats_counts_once() {
        let mut extra = Extra::default();
        for _ in 0..1_000 {
            extra.add(fields(json!({"name": "M"})));
        }
        assert_eq!(extra.bytes(), "name".len() + "\"M\"".len());
    }
}
