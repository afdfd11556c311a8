//! A configuration as text, with the origin of each value.

use super::fault::Origin;
use super::node::{child_path, is_within};
use cairn_rpc::text::{escape, is_hidden};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The origin of a setting: its own, that of a part of it, or that of the table it was given in.
pub(super) fn origin<'a>(origins: &'a BTreeMap<String, Origin>, path: &str) -> &'a Origin {
    const DEFAULT: &Origin = &Origin::Default;
    // The setting itself comes before its parts in the order of the map.
    let inside = origins.iter().find(|(p, _)| is_within(p, path));
    let around = || origins.iter().rev().find(|(p, _)| is_within(path, p));
    inside.or_else(around).map_or(DEFAULT, |(_, origin)| origin)
}

pub(super) fn show(config: &impl Serialize, origins: &BTreeMap<String, Origin>) -> String {
    let mut text = String::new();
    match serde_json::to_value(config) {
        Ok(value) => lines("", &value, origins, &mut text),
        // Settings are plain data. Should they ever not be, it is said where they were expected.
        Err(error) => text = format!("# the configuration cannot be shown: {error}\n"),
    }
    text
}

fn lines(path: &str, value: &Value, origins: &BTreeMap<String, Origin>, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() || path.is_empty() => {
            for (name, field) in fields {
                lines(&child_path(path, name), field, origins, text);
            }
        }
        value => {
            let origin = escape(&origin(origins, path).to_string()).into_owned();
            // Writing into a String cannot fail.
            let _ = match value {
                Value::Null => writeln!(text, "# {path} is not set  # {origin}"),
                value => writeln!(text, "{path} = {}  # {origin}", inline(value)),
            };
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(name, field)| format!("{} = {}", child_path("", name), inline(field)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// A TOML basic string; hidden characters are written as escapes, so that a line stays a line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_hidden(c) => {
                // Writing into a String cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
