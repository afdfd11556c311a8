//! Front matter as values with their lines.
//!
//! Anchors, aliases, tags of other programs and merge keys are refused: an agent has no use for them, and a
//! small text can become a large one by them. Depth and counts are bounded.

mod loose;

use crate::fault::{Fault, shown};
use cairn_engine::text::cut;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Budget, DuplicateKeyPolicy, Error, MergeKeyPolicy, Options, Spanned};
use std::fmt;

/// Most maps and lists around a value.
const MAX_DEPTH: usize = 16;
/// Most values.
const MAX_VALUES: usize = 4096;
/// What front matter has to be.
const ALLOWED: &str = "fields of the form `name: value`";

/// A value and the line it begins in.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: u64,
    pub(crate) value: Value,
}

/// A value of YAML.
#[derive(Debug)]
pub(crate) enum Value {
    Nothing,
    Truth(bool),
    Whole(u64),
    /// Another number, in decimal notation if it is neither very large nor very small.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) line: u64,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// The fields of front matter, and what a person should know of how they were read.
///
/// `before` counts the lines of the file before the first one of `source`. Text that its writer should have
/// put in quotes is taken as it stands, up to the next one of the fields `known`.
///
/// # Errors
/// What is no YAML, or more of it than a file may have.
pub(crate) fn read(
    source: &str,
    before: u64,
    known: &[&str],
) -> Result<(Vec<Entry>, Vec<Fault>), Fault> {
    let error = match parse(source) {
        Ok(node) => return Ok((fields(node, before)?, Vec::new())),
        Err(error) => error,
    };
    // Only what is no YAML may be text without quotes.
    let is_syntax = matches!(
        error,
        Error::ExternalMessage { .. } | Error::UnknownAnchor { .. }
    );
    let taken = is_syntax.then(|| loose::take(source, known)).flatten();
    let Some(taken) = taken else {
        return Err(fault(&error, before));
    };
    let node = parse(&taken.rest).map_err(|error| fault(&error, before))?;
    let mut entries = fields(node, before)?;
    let mut warnings = Vec::new();
    for mut entry in taken.entries {
        entry.line += before;
        let problem = "is no YAML without quotes, and is read as it stands";
        warnings.push(Fault::new(entry.line, &entry.name, problem, ""));
        entries.push(entry);
    }
    entries.sort_by_key(|entry| entry.line);
    Ok((entries, warnings))
}

fn parse(source: &str) -> Result<Node, Error> {
    serde_saphyr::from_str_with_options(source, options())
}

fn options() -> Options {
    let budget: Option<Budget> = serde_saphyr::budget! {
        flow_nesting_limit: MAX_DEPTH,
        max_events: 4 * MAX_VALUES,
        max_aliases: 0,
        max_anchors: 0,
        max_depth: MAX_DEPTH,
        max_inclusion_depth: 0,
        max_documents: 1,
        max_nodes: MAX_VALUES,
        max_total_scalar_bytes: crate::document::MAX_FILE,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The fields of the root, with their lines in the file.
fn fields(node: Node, before: u64) -> Result<Vec<Entry>, Fault> {
    let mut entries = match node.value {
        Value::Map(entries) => entries,
        Value::Nothing => Vec::new(),
        other => {
            let problem = format!("the front matter {}", shown(&other));
            return Err(Fault::new(node.line + before, "", problem, ALLOWED));
        }
    };
    for entry in &mut entries {
        entry.line += before;
        move_down(&mut entry.value, before);
    }
    Ok(entries)
}

fn move_down(value: &mut Value, lines: u64) {
    match value {
        Value::List(nodes) => {
            for node in nodes {
                node.line += lines;
                move_down(&mut node.value, lines);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                entry.line += lines;
                move_down(&mut entry.value, lines);
            }
        }
        _ => {}
    }
}

/// An error of the parser in words for the writer of the file.
fn fault(error: &Error, before: u64) -> Fault {
    let line = error.location().map_or(0, |at| at.line());
    let line = if line == 0 { before + 1 } else { line + before };
    let (field, problem, allowed): (&str, String, &str) = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let field = key.as_deref().unwrap_or_default();
            (field, "is there twice".to_owned(), "each field once")
        }
        Error::Budget { breach, .. } => ("", exceeded(breach), ""),
        Error::UnknownAnchor { .. } | Error::AliasError { .. } => ("", NO_ANCHORS.to_owned(), ""),
        Error::MergeKeyNotAllowed { .. } => ("<<", "is not supported".to_owned(), ALLOWED),
        Error::UnsupportedTag { .. } => ("", "tags are not supported".to_owned(), "plain values"),
        Error::MultipleDocuments { .. } => (
            "",
            "the front matter has more than one document".to_owned(),
            "one",
        ),
        Error::ExternalMessage { msg, .. } => {
            let hint = "; text with ': ', '#' or quotes stands in quotes";
            let message = cut(msg, 200);
            let problem = format!(
                "the front matter is no YAML: {}{hint}",
                message.escape_debug()
            );
            ("", problem, "")
        }
        _ => (
            "",
            "the front matter is no YAML of fields and values".to_owned(),
            ALLOWED,
        ),
    };
    Fault::new(line, field, problem, allowed)
}

const NO_ANCHORS: &str = "anchors and aliases (`&name`, `*name`) are not supported; text that begins so \
    stands in quotes";

fn exceeded(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => NO_ANCHORS.to_owned(),
        BudgetBreach::Depth { .. } => {
            format!("the front matter is deeper than {MAX_DEPTH} maps and lists")
        }
        BudgetBreach::Documents { .. } => "the front matter has more than one document".to_owned(),
        _ => format!("the front matter has more than {MAX_VALUES} values"),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self {
            line: spanned.defined.line(),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes a value of any type.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Truth(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or_else(|_| Value::Number(value.to_string()), Value::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // As short as it can be written, and `1.0` keeps its point.
        Ok(Value::Number(format!("{value:?}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element::<Node>()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            entries.push(Entry {
                line: name.defined.line(),
                name: name.value,
                value: map.next_value::<Value>()?,
            });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests;
