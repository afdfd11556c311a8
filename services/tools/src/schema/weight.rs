//! What it costs to check arguments by a schema that a server wrote. A few references can stand for more
//! work than any computer does.

use serde_json::Value;
use std::collections::HashMap;

/// Most parts of a schema, with each reference replaced by what it refers to.
const MOST_PARTS: u64 = 5_000;
/// Deepest nesting, with references followed: the stack is limited, too.
const DEEPEST: usize = 128;
/// Most patterns of a schema; each may need much memory.
const MOST_PATTERNS: usize = 8;

/// Whether arguments can be checked by the schema here. If not, only its server checks them.
pub(crate) fn is_light(schema: &Value) -> bool {
    let mut weighing = Weighing {
        root: schema,
        open: Vec::new(),
        known: HashMap::new(),
        patterns: 0,
        depth: 0,
    };
    let parts = weighing.parts(schema);
    parts.is_some_and(|parts| parts <= MOST_PARTS) && weighing.patterns <= MOST_PATTERNS
}

struct Weighing<'s> {
    root: &'s Value,
    /// References that are being followed.
    open: Vec<&'s str>,
    known: HashMap<&'s str, u64>,
    patterns: usize,
    depth: usize,
}

impl<'s> Weighing<'s> {
    /// The parts below `node`; none for what may have no end, or is too deep.
    fn parts(&mut self, node: &'s Value) -> Option<u64> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let parts = self.below(node);
        self.depth -= 1;
        parts
    }

    fn below(&mut self, node: &'s Value) -> Option<u64> {
        let mut parts: u64 = 1;
        match node {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let more = match (name.as_str(), value) {
                        ("$ref", Value::String(to)) => self.referred(to)?,
                        ("$dynamicRef" | "$recursiveRef" | "$id", _) => return None,
                        ("pattern", Value::String(_)) => {
                            self.patterns += 1;
                            1
                        }
                        ("patternProperties", Value::Object(patterns)) => {
                            self.patterns += patterns.len();
                            self.parts(value)?
                        }
                        _ => self.parts(value)?,
                    };
                    parts = parts.saturating_add(more);
                }
            }
            Value::Array(items) => {
                for item in items {
                    parts = parts.saturating_add(self.parts(item)?);
                }
            }
            _ => {}
        }
        Some(parts)
    }

    fn referred(&mut self, to: &'s str) -> Option<u64> {
        if let Some(parts) = self.known.get(to) {
            return Some(*parts);
        }
        if self.open.contains(&to) {
            return None;
        }
        let target = self.root.pointer(to.strip_prefix('#')?)?;
        self.open.push(to);
        let parts = self.parts(target)?;
        self.open.pop();
        self.known.insert(to, parts);
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_count_as_what_they_refer_to() {
        let usual = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "string", "pattern": "^[a-z]+$"}}});
        assert!(is_light(&usual));
        let mut defs = json!({"d0": {"type": "object"}});
        for at in 1..40 {
            let below = json!({"$ref": format!("#/$defs/d{}", at - 1)});
            defs[format!("d{at}")] = json!({"allOf": [below, below]});
        }
        assert!(!is_light(&json!({"$ref": "#/$defs/d39", "$defs": defs})));
        let mut defs = json!({"d0": {"type": "object"}});
        for at in 1..400 {
            let below = json!({"$ref": format!("#/$defs/d{}", at - 1)});
            defs[format!("d{at}")] = json!([[[[[[[[below]]]]]]]]);
        }
        let deep = json!({"$ref": "#/$defs/d399", "$defs": defs});
        assert!(!is_light(&deep), "it is too deep");
        let own = json!({"properties": {"a": {"$ref": "#"}}});
        assert!(!is_light(&own), "it has no end");
        for reference in ["#/$defs/none", "https://example.com/schema", "#name"] {
            assert!(!is_light(&json!({"$ref": reference})), "{reference}");
        }
    }

    #[test]
    fn many_patterns_are_too_much() {
        let of = |count: usize| {
            let patterns = (0..count).map(|at| (format!("^a{at}$"), json!({})));
            json!({"patternProperties": patterns.collect::<serde_json::Map<_, _>>()})
        };
        assert!(is_light(&of(MOST_PATTERNS)));
        assert!(!is_light(&of(MOST_PATTERNS + 1)));
    }
}
