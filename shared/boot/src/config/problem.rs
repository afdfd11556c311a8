//! What the reader stumbles over, in words for the person who wrote the configuration.

use super::fault::Origin;
use super::node::{Node, child_path};
use cairn_rpc::text::clip;
use serde::de::{Error, Expected, Unexpected};
use std::fmt;

/// How much of a wrong value is shown.
const SHOWN_BYTES: usize = 80;

/// Why the reading stopped, and at which node.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) allowed: String,
    /// Path and origin of the innermost node in which it happened.
    pub(super) at: Option<Box<(String, Origin)>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A name that is not known.
    UnknownName { suggestion: bool },
    /// A field of the node that has to be there and is not.
    Missing(&'static str),
    /// The node's value.
    Value,
}

impl Problem {
    fn new(kind: Kind, text: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            allowed: allowed.into(),
            at: None,
        }
    }

    /// The problem with its place, unless an inner node gave it one already.
    pub(super) fn at(mut self, node: &Node) -> Self {
        self.at
            .get_or_insert_with(|| Box::new((node.path.clone(), node.origin.clone())));
        self
    }

    /// The problem without anything of the value.
    pub(super) fn without_value(mut self) -> Self {
        "is not a string".clone_into(&mut self.text);
        "a string".clone_into(&mut self.allowed);
        self
    }

    /// The path of the setting that it is about.
    pub(super) fn path(&self) -> String {
        let path = self.at.as_ref().map_or("", |at| &at.0);
        match self.kind {
            Kind::Missing(field) => child_path(path, field),
            _ => path.to_owned(),
        }
    }
}

impl Error for Problem {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(Kind::Value, format!("is not valid: {text}"), "")
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        Self::new(Kind::Value, found(unexpected), in_words(&expected))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(len: usize, expected: &dyn Expected) -> Self {
        Self::new(
            Kind::Value,
            format!("has {len} items"),
            expected.to_string(),
        )
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let text = format!(
            "is {:?}{}",
            clip(variant, SHOWN_BYTES),
            hint(variant, expected)
        );
        Self::new(Kind::Value, text, expected.join(", "))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = hint(field, expected);
        let kind = Kind::UnknownName {
            suggestion: !hint.is_empty(),
        };
        Self::new(kind, format!("is not a setting{hint}"), expected.join(", "))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Kind::Missing(field), "is missing", "")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

/// `, did you mean …?`, if there is a name that may have been meant.
fn hint(name: &str, known: &[&str]) -> String {
    let distance =
        |known: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let nearest = known.iter().min_by_key(|known| distance(known));
    match nearest {
        Some(known) if distance(known) <= (known.len() / 3).max(1) => {
            format!(", did you mean {known}?")
        }
        _ => String::new(),
    }
}

fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("is {value}"),
        Unexpected::Unsigned(value) => format!("is {value}"),
        Unexpected::Signed(value) => format!("is {value}"),
        Unexpected::Float(value) => format!("is {value}"),
        Unexpected::Str(value) => format!("is {:?}", clip(value, SHOWN_BYTES)),
        Unexpected::Seq => "is a list".to_owned(),
        Unexpected::Map => "is a table".to_owned(),
        other => format!("is {other}"),
    }
}

/// serde's words for what it expects, in words for people.
fn in_words(expected: &str) -> String {
    let text = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other if other.contains("enum ") => "one of the names",
        other => other,
    };
    text.to_owned()
}
