//! Fields in which servers send another type than their protocol names.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number, also as a text. Any other value counts as missing.
pub(crate) fn number<'de, D: Deserializer<'de>>(field: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(field)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    })
}

/// A text, also as a number. Any other value counts as missing.
pub(crate) fn text<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(field)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}
