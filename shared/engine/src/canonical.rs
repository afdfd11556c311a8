//! JSON in one spelling: sorted keys, no white space. Digests and comparisons use it.
//!
//! A number keeps its digits: `1`, `1.0` and `1e0` are three values, because a tool may read them in three
//! ways. An exponent has one spelling, `e` and a sign, which a parsed number has: `1E21` is `1e+21`.

use serde_json::Value;

/// Writes `value` with sorted keys and without white space.
pub fn to_canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
