//! Validation errors in words that a model can act on: where, what is wrong, what is allowed.

use crate::registry::nearest;
use crate::text::brief;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

/// Longest piece of a value that is repeated back.
const SHOWN: usize = 60;
/// Most names or values listed as allowed.
const LISTED: usize = 30;

/// One fault as one clause.
pub(super) fn fault(schema: &Value, error: &ValidationError<'_>) -> String {
    let at = place(error.instance_path().as_str());
    let given = || shown(error.instance());
    match error.kind() {
        Kind::Required { property } => required(schema, error, &at, property),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unknown(schema, error, &at, unexpected)
        }
        Kind::Type { kind } => {
            format!("{at} is {}; it must be {}", given(), types(kind))
        }
        Kind::Enum { options } => format!("{at} is {}; it must be {}", given(), one_of(options)),
        Kind::Constant { expected_value } => {
            format!("{at} is {}; it must be {expected_value}", given())
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            format!(
                "{at} fits none of the {} forms that are allowed: {}",
                context.len(),
                forms(schema, context)
            )
        }
        kind => match bound(kind) {
            Some(rule) => format!("{at} is {}; it must {rule}", given()),
            None => format!("{at}: {}", error.masked_with("the value")),
        },
    }
}

/// What JSON calls the value, with an article.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn required(schema: &Value, error: &ValidationError<'_>, at: &str, property: &Value) -> String {
    let name = property.as_str().unwrap_or_default();
    let expected = siblings(schema, error)
        .and_then(|properties| properties.get(name))
        .and_then(expectation);
    let place = if at == ROOT {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    };
    match expected {
        Some(expected) => format!("{place} is missing; it must be {expected}"),
        None => format!("{place} is missing"),
    }
}

fn unknown(schema: &Value, error: &ValidationError<'_>, at: &str, unexpected: &[String]) -> String {
    let named: Vec<String> = unexpected
        .iter()
        .take(LISTED)
        .map(|name| format!("'{}'", brief(name, SHOWN).escape_debug()))
        .collect();
    let mut text = format!("{at} must not have {}", named.join(", "));
    let known: Vec<&str> = siblings(schema, error)
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    if known.is_empty() {
        text.push_str("; nothing is allowed here");
        return text;
    }
    text.push_str("; allowed: ");
    text.push_str(&known[..known.len().min(LISTED)].join(", "));
    if let [only] = unexpected
        && let Some(near) = nearest(only, &known)
    {
        text.push_str(&format!("; did you mean '{near}'?"));
    }
    text
}

/// The `properties` beside the keyword that failed.
fn siblings<'a>(schema: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let keyword = error.schema_path().as_str();
    let (parent, _) = keyword.rsplit_once('/')?;
    schema.pointer(parent)?.get("properties")
}

fn bound(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::Minimum { limit } => format!("be at least {limit}"),
        Kind::Maximum { limit } => format!("be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("be greater than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("have at least {limit} character(s)"),
        Kind::MaxLength { limit } => format!("have at most {limit} character(s)"),
        Kind::MinItems { limit } => format!("have at least {limit} item(s)"),
        Kind::MaxItems { limit } => format!("have at most {limit} item(s)"),
        Kind::MinProperties { limit } => format!("have at least {limit} property(ies)"),
        Kind::MaxProperties { limit } => format!("have at most {limit} property(ies)"),
        Kind::Pattern { pattern } => format!("match the pattern {pattern}"),
        Kind::Format { format } => format!("have the format {format}"),
        Kind::UniqueItems => "have no item twice".to_owned(),
        _ => return None,
    })
}

fn forms(schema: &Value, context: &[Vec<ValidationError<'static>>]) -> String {
    let first_faults: Vec<String> = context
        .iter()
        .filter_map(|errors| errors.first())
        .take(LISTED)
        .enumerate()
        // One level only: a form within a form is not explained further.
        .map(|(index, error)| match error.kind() {
            Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
                format!("({}) {}", index + 1, error.masked_with("the value"))
            }
            _ => format!("({}) {}", index + 1, fault(schema, error)),
        })
        .collect();
    first_faults.join(", ")
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => article(&one.to_string()),
        TypeKind::Multiple(several) => {
            let names: Vec<String> = several
                .iter()
                .map(|one| article(&one.to_string()))
                .collect();
            names.join(" or ")
        }
    }
}

/// What a property's schema asks for, in a few words.
fn expectation(schema: &Value) -> Option<String> {
    if let Some(options) = schema.get("enum") {
        return Some(one_of(options));
    }
    match schema.get("type")? {
        Value::String(name) => Some(article(name)),
        Value::Array(names) => {
            let names: Vec<String> = names
                .iter()
                .filter_map(Value::as_str)
                .map(article)
                .collect();
            Some(names.join(" or "))
        }
        _ => None,
    }
}

fn one_of(options: &Value) -> String {
    let options: Vec<String> = options
        .as_array()
        .map(|options| options.iter().take(LISTED).map(shown).collect())
        .unwrap_or_default();
    format!("one of {}", options.join(", "))
}

fn article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {name}"),
        _ => format!("a {name}"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        Value::String(text) => Value::from(brief(text, SHOWN)).to_string(),
        other => brief(&other.to_string(), SHOWN),
    }
}

const ROOT: &str = "the arguments";

/// `/steps/0/title` as `steps[0].title`; the root by name.
fn place(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        let part = brief(&part.replace("~1", "/").replace("~0", "~"), SHOWN);
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&part);
        }
    }
    if text.is_empty() {
        return ROOT.to_owned();
    }
    text
}
