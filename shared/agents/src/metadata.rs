//! Notes of files for programs other than Cairn.

use crate::fault::shown;
use crate::fields::Fields;
use crate::yaml::{Entry, Value};
use std::collections::BTreeMap;

/// Reads `metadata`.
pub(crate) fn read(fields: &mut Fields) -> BTreeMap<String, String> {
    let Some(entry) = fields.take(&["metadata"]) else {
        return BTreeMap::new();
    };
    match &entry.value {
        Value::Nothing => BTreeMap::new(),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|it| (it.name.clone(), text(&it.value)));
            pairs.collect()
        }
        other => {
            let allowed = "a map of names to text";
            fields
                .found
                .error(entry.line, &entry.name, shown(other), allowed);
            BTreeMap::new()
        }
    }
}

/// A text as it is, and another value as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => json(other),
    }
}

fn json(value: &Value) -> String {
    match value {
        Value::Nothing => "null".to_owned(),
        Value::Truth(truth) => truth.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quoted(text),
        Value::List(nodes) => {
            let items: Vec<String> = nodes.iter().map(|node| json(&node.value)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(entries) => {
            let pair = |it: &Entry| format!("{}:{}", quoted(&it.name), json(&it.value));
            let pairs: Vec<String> = entries.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn values_are_texts_or_json() {
        let text =
            "metadata:\n  a: b\n  v: 1.0\n  on: true\n  none:\n  deep: {x: [1, \"q\\\"\"], y: }\n";
        let (entries, _) = yaml::read(text, 0, &[]).unwrap();
        let mut fields = Fields::new("", entries);
        let metadata = read(&mut fields);
        let pairs = metadata
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let pairs: Vec<String> = pairs.collect();
        let expected = [
            "a=b",
            "deep={\"x\":[1,\"q\\\"\"],\"y\":null}",
            "none=null",
            "on=true",
            "v=1.0",
        ];
        assert_eq!(pairs, expected);
        assert!(fields.found.errors.is_empty());
    }
}
