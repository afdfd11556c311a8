//! Arguments: bounded before they are parsed, checked before the tool sees them.

mod explain;
mod weight;

use crate::error::ToolError;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Deepest nesting of arrays and objects in arguments.
pub(crate) const DEPTH_LIMIT: usize = 32;
/// Faults told of in one message; a model mends the first ones first.
const FAULTS: usize = 5;
/// Most bytes of a compiled `pattern`.
const PATTERN_SIZE: usize = 1 << 20;
/// The same in a schema that a server wrote.
const PATTERN_SIZE_OF_SERVER: usize = 1 << 17;

/// A compiled JSON Schema, kept with its source for the messages.
pub(crate) struct Schema {
    source: Value,
    /// None if it is not checked here.
    validator: LazyValidator,
}

type LazyValidator = LazyLock<Option<Validator>, Box<dyn FnOnce() -> Option<Validator> + Send>>;

impl Schema {
    /// Compiles `source`, which must describe an object. References to other documents are not
    /// followed, and `pattern` runs in linear time (no look-around).
    pub(crate) fn compile(source: &Value) -> Result<Self, String> {
        is_object(source)?;
        let validator =
            build(source, PATTERN_SIZE).map_err(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                path => format!("at {path}: {error}"),
            })?;
        Ok(Self {
            source: source.clone(),
            validator: LazyLock::new(Box::new(|| Some(validator))),
        })
    }

    /// Takes a schema that a server wrote. It is compiled for the first call. What costs too much to check,
    /// or cannot be compiled, its server alone checks.
    pub(crate) fn of_server(source: &Value) -> Result<Self, String> {
        is_object(source)?;
        let schema = source.clone();
        let compile = move || match weight::is_light(&schema) {
            true => build(&schema, PATTERN_SIZE_OF_SERVER).ok(),
            false => None,
        };
        Ok(Self {
            source: source.clone(),
            validator: LazyLock::new(Box::new(compile)),
        })
    }

    /// # Errors
    /// [`ToolError::InvalidArguments`] naming path, fault and what is allowed, for the first five.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), ToolError> {
        let Some(validator) = &*self.validator else {
            return Ok(());
        };
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let errors = validator.iter_errors(arguments).take(FAULTS);
        let faults: Vec<String> = errors
            .map(|error| explain::fault(&self.source, &error))
            .collect();
        Err(ToolError::InvalidArguments(faults.join("; ")))
    }
}

fn is_object(source: &Value) -> Result<(), String> {
    match source.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => Err("it must have \"type\": \"object\", as model providers ask".to_owned()),
    }
}

fn build(source: &Value, pattern_size: usize) -> Result<Validator, ValidationError<'static>> {
    let patterns = PatternOptions::regex().size_limit(pattern_size);
    let options = jsonschema::options().offline();
    options.with_pattern_options(patterns).build(source)
}

/// Reads arguments as the model wrote them. Nothing at all is an empty object.
///
/// # Errors
/// [`ToolError::TooLarge`] beyond `limit` bytes or [`DEPTH_LIMIT`] levels, before anything is
/// parsed; [`ToolError::InvalidArguments`] if it is no JSON object.
pub(crate) fn parse(text: &str, limit: usize) -> Result<Value, ToolError> {
    if text.len() > limit {
        return Err(ToolError::TooLarge(format!(
            "the arguments have {} bytes; at most {limit} are accepted",
            text.len()
        )));
    }
    if depth(text) > DEPTH_LIMIT {
        return Err(ToolError::TooLarge(format!(
            "the arguments are nested more than {DEPTH_LIMIT} levels deep; give flatter ones"
        )));
    }
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => Err(ToolError::InvalidArguments(format!(
            "the arguments are {}; they must be a JSON object",
            explain::kind(&other)
        ))),
        Err(error) => Err(ToolError::InvalidArguments(format!(
            "the arguments are not valid JSON ({error}); give one JSON object"
        ))),
    }
}

/// Deepest level of brackets outside strings; an upper bound also for text that is no JSON.
pub(crate) fn depth(text: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
