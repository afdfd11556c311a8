//! Schemas of tools in a form that providers take.
//!
//! A provider refuses a whole request for one schema that it does not understand. So a schema is offered
//! in a form that each server of a protocol takes. That form may admit more than the tool does: its own
//! check has the schema as it is, and stays the judge of each call. What the form cannot say is added to
//! the tool's description.

mod clean;
mod root;

use super::conversation::is_tool_name;
use crate::OfferedTool;
use clean::{clean_fields, drop_dead_references};
use root::{Root, required, takes_objects};
use serde_json::{Map, Value, json};

/// What the servers of a protocol require of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaForm {
    /// An object has `properties`, and a list has `items`.
    OpenAi,
    /// The arguments have names of 1 to 64 letters, digits, `_`, `.` and `-`.
    Anthropic,
}

/// Most bytes of the constraints that a description repeats.
const MOST_NOTE: usize = 2_000;
/// Longest name of an argument.
const LONGEST_ARGUMENT: usize = 64;

/// The tool as it is offered.
///
/// # Errors
/// Why it cannot be offered, in words that follow the tool's name.
pub(crate) fn offered(tool: &OfferedTool, form: SchemaForm) -> Result<OfferedTool, String> {
    if !is_tool_name(&tool.name) {
        return Err(
            "its name is refused (allowed: 1 to 64 letters, digits, '_' and '-')".to_owned(),
        );
    }
    let mut root = Root::of(&tool.parameters);
    let mut fields = root.flat(&tool.parameters)?;
    match takes_objects(&fields) {
        true if fields.get("type").is_some_and(Value::is_string) => {}
        true => drop(fields.insert("type".to_owned(), "object".into())),
        false => return Err("its arguments are no object".to_owned()),
    }
    let lost = root.lost;
    clean_fields(&mut fields, form);
    if form == SchemaForm::OpenAi && !fields.contains_key("properties") {
        fields.insert("properties".to_owned(), json!({}));
    }
    if form == SchemaForm::Anthropic {
        drop_refused_arguments(&mut fields)?;
    }
    let mut parameters = Value::Object(fields);
    let document = parameters.clone();
    drop_dead_references(&mut parameters, &document);
    Ok(OfferedTool {
        name: tool.name.clone(),
        description: format!("{}{}", tool.description, note(&lost)),
        parameters,
    })
}

/// What the root of the schema does not say any more.
fn note(lost: &[Value]) -> String {
    let lost: Vec<String> = lost.iter().map(Value::to_string).collect();
    let lost = lost.join(" and ");
    match lost.len() {
        1..=MOST_NOTE => format!("\n\nThe arguments must also fit the JSON schema {lost}"),
        _ => String::new(),
    }
}

/// Leaves out arguments whose names the protocol refuses.
fn drop_refused_arguments(fields: &mut Map<String, Value>) -> Result<(), String> {
    let is_allowed = |name: &str| {
        let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        (1..=LONGEST_ARGUMENT).contains(&name.len()) && name.chars().all(is_char)
    };
    let required = required(fields);
    let Some(Value::Object(properties)) = fields.get_mut("properties") else {
        return Ok(());
    };
    let mut refused = properties.keys().filter(|name| !is_allowed(name));
    if let Some(name) = refused.find(|name| required.iter().any(|other| other == *name)) {
        let shown: String = name.escape_debug().take(LONGEST_ARGUMENT).collect();
        return Err(format!(
            "it requires the argument '{shown}', whose name is refused (allowed: 1 to 64 letters, \
             digits, '_', '.' and '-')"
        ));
    }
    properties.retain(|name, _| is_allowed(name));
    Ok(())
}
