//! Schemas of tools in a form that providers take.
//!
//! A provider refuses a whole request for one schema that it does not understand. So a schema is offered
//! in a form that each server of a protocol takes. That form may admit more than the tool does: its own
//! check has the schema as it is, and stays the judge of each call. What the form cannot say is added to
//! the tool's description.

use super::conversation::is_tool_name;
use crate::OfferedTool;
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
/// Most parts of the root of a schema: references, and the parts of choices. A few references can stand for
/// more parts than any computer follows.
const MOST_PARTS: usize = 256;
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
    let mut root = Root {
        document: &tool.parameters,
        lost: Vec::new(),
        parts: 0,
    };
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

/// The root of a schema, which no provider lets be a choice.
struct Root<'a> {
    document: &'a Value,
    /// Constraints that were taken from the root, each as a schema.
    lost: Vec<Value>,
    /// How many parts it has so far.
    parts: usize,
}

impl Root<'_> {
    /// A schema without choices, conditions on the whole and references at its root.
    fn flat(&mut self, schema: &Value) -> Result<Map<String, Value>, String> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(format!(
                "the root of its schema has more than {MOST_PARTS} parts, or refers to itself"
            ));
        }
        let mut fields = match schema {
            Value::Object(fields) => fields.clone(),
            Value::Bool(true) => Map::new(),
            Value::Bool(false) => return Err("its schema takes no arguments at all".to_owned()),
            _ => return Err("its schema is no JSON schema".to_owned()),
        };
        let mut parts = Vec::new();
        if let Some(reference) = fields.shift_remove("$ref") {
            parts.push(self.target(&reference)?);
        }
        if let Some(Value::Array(all)) = fields.shift_remove("allOf") {
            parts.extend(all);
        }
        for part in parts {
            let part = self.flat(&part)?;
            absorb(&mut fields, part);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = fields.shift_remove(name)
                && !choices.is_empty()
            {
                self.lost.push(json!({ name: choices }));
                self.absorb_choices(&mut fields, &choices)?;
            }
        }
        for name in ["not", "enum", "const"] {
            if let Some(value) = fields.shift_remove(name) {
                self.lost.push(json!({ name: value }));
            }
        }
        Ok(fields)
    }

    fn target(&self, reference: &Value) -> Result<Value, String> {
        let pointer = reference.as_str().and_then(|to| to.strip_prefix('#'));
        let target = pointer.and_then(|pointer| self.document.pointer(pointer));
        let target = target.cloned();
        target.ok_or_else(|| "its schema is that of another document".to_owned())
    }

    /// Adds the arguments of all choices, and requires those that each choice requires.
    fn absorb_choices(
        &mut self,
        fields: &mut Map<String, Value>,
        choices: &[Value],
    ) -> Result<(), String> {
        // The choices are in the description as a whole.
        let already_lost = self.lost.len();
        let mut flat = Vec::new();
        for choice in choices
            .iter()
            .filter(|choice| **choice != Value::Bool(false))
        {
            let choice = self.flat(choice)?;
            if takes_objects(&choice) {
                flat.push(choice);
            }
        }
        self.lost.truncate(already_lost);
        let Some(first) = flat.first() else {
            return Err("its arguments are no object".to_owned());
        };
        let in_each = |name: &&String| flat.iter().all(|choice| required(choice).contains(name));
        let common: Vec<String> = required(first).iter().filter(in_each).cloned().collect();
        require(fields, common);
        let mut added: Map<String, Value> = Map::new();
        for choice in &flat {
            for (name, schema) in properties(choice) {
                add_choice(&mut added, name, schema);
            }
        }
        add_properties(fields, added);
        Ok(())
    }
}

/// A schema that admits what was there before, or this.
fn add_choice(properties: &mut Map<String, Value>, name: &str, schema: &Value) {
    match properties.get_mut(name) {
        None => drop(properties.insert(name.to_owned(), schema.clone())),
        Some(before) if before == schema => {}
        Some(Value::Object(before)) if before.len() == 1 && before.contains_key("anyOf") => {
            if let Some(Value::Array(choices)) = before.get_mut("anyOf")
                && !choices.contains(schema)
            {
                choices.push(schema.clone());
            }
        }
        Some(before) => *before = json!({"anyOf": [before.clone(), schema]}),
    }
}

/// Adds what another schema requires as well.
fn absorb(fields: &mut Map<String, Value>, other: Map<String, Value>) {
    require(fields, required(&other));
    add_properties(fields, properties(&other).clone());
    for (name, value) in other {
        fields.entry(name).or_insert(value);
    }
}

/// Adds the properties that are not there yet.
fn add_properties(fields: &mut Map<String, Value>, added: Map<String, Value>) {
    if added.is_empty() {
        return;
    }
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (name, schema) in added {
            properties.entry(name).or_insert(schema);
        }
    }
}

fn require(fields: &mut Map<String, Value>, names: Vec<String>) {
    let mut all = required(fields);
    let new: Vec<String> = names
        .into_iter()
        .filter(|name| !all.contains(name))
        .collect();
    if !new.is_empty() {
        all.extend(new);
        fields.insert("required".to_owned(), all.into());
    }
}

fn required(fields: &Map<String, Value>) -> Vec<String> {
    let names = fields.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn properties(fields: &Map<String, Value>) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let properties = fields.get("properties").and_then(Value::as_object);
    properties.unwrap_or(&NONE)
}

fn takes_objects(fields: &Map<String, Value>) -> bool {
    let is_object = |name: &Value| {
        let name = name.as_str();
        name.is_some_and(|name| name.eq_ignore_ascii_case("object"))
    };
    match fields.get("type") {
        None | Some(Value::Null) => true,
        Some(Value::Array(names)) => names.iter().any(is_object),
        Some(name) => is_object(name),
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

/// Makes a schema one that JSON Schema of 2020-12 admits.
fn clean(schema: &mut Value, form: SchemaForm) {
    match schema {
        Value::Object(fields) => clean_fields(fields, form),
        // Some servers know no booleans as schemas.
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => *schema = json!({}),
    }
}

fn clean_fields(fields: &mut Map<String, Value>, form: SchemaForm) {
    // Servers that know another version refuse the name.
    fields.shift_remove("$schema");
    mend_bound(fields, "exclusiveMinimum", "minimum");
    mend_bound(fields, "exclusiveMaximum", "maximum");
    if fields.get("items").is_some_and(Value::is_array) {
        let items = fields.shift_remove("items").unwrap_or_default();
        fields.insert("prefixItems".to_owned(), items);
        if let Some(rest) = fields.shift_remove("additionalItems") {
            fields.insert("items".to_owned(), rest);
        }
    }
    fields.retain(|name, value| is_keyword_of_form(name, value));
    for (name, value) in fields.iter_mut() {
        clean_below(name, value, form);
    }
    if form == SchemaForm::OpenAi && has_type(fields, "array") {
        fields.entry("items").or_insert_with(|| json!({}));
    }
}

fn has_type(fields: &Map<String, Value>, wanted: &str) -> bool {
    match fields.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == wanted),
        Some(name) => name == wanted,
        None => false,
    }
}

/// In draft 4, an exclusive bound is a mark of the other bound.
fn mend_bound(fields: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = fields.get(exclusive) else {
        return;
    };
    let is_exclusive = *is_exclusive;
    fields.shift_remove(exclusive);
    if is_exclusive && let Some(limit) = fields.shift_remove(bound) {
        fields.insert(exclusive.to_owned(), limit);
    }
}

/// Mends the types of a schema, and the keyword's value has the type that JSON Schema requires.
fn is_keyword_of_form(name: &str, value: &mut Value) -> bool {
    match name {
        "type" => mend_type(value),
        "title" | "description" | "format" | "pattern" | "$ref" | "$comment" => value.is_string(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => value.is_u64(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "enum" | "examples" | "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            value.as_array().is_some_and(|items| !items.is_empty())
        }
        "required" => mend_required(value),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            value.is_object()
        }
        "items"
        | "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems" => value.is_object() || value.is_boolean(),
        _ => true,
    }
}

fn mend_type(value: &mut Value) -> bool {
    const TYPES: [&str; 7] = [
        "array", "boolean", "integer", "null", "number", "object", "string",
    ];
    let known = |name: &Value| {
        let name = name.as_str()?.to_ascii_lowercase();
        TYPES
            .contains(&name.as_str())
            .then_some(Value::String(name))
    };
    let mended = match &*value {
        Value::Array(names) => {
            let mut types: Vec<Value> = Vec::new();
            for name in names.iter().filter_map(known) {
                if !types.contains(&name) {
                    types.push(name);
                }
            }
            (!types.is_empty()).then_some(Value::Array(types))
        }
        name => known(name),
    };
    match mended {
        Some(mended) => {
            *value = mended;
            true
        }
        None => false,
    }
}

fn mend_required(value: &mut Value) -> bool {
    let Value::Array(names) = value else {
        return false;
    };
    let mut unique: Vec<Value> = Vec::new();
    for name in names.drain(..) {
        if name.is_string() && !unique.contains(&name) {
            unique.push(name);
        }
    }
    *names = unique;
    true
}

/// Cleans the schemas that a keyword has.
fn clean_below(name: &str, value: &mut Value, form: SchemaForm) {
    match (name, value) {
        ("additionalProperties" | "unevaluatedProperties", Value::Bool(_)) => {}
        (
            "items"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems",
            schema,
        ) => clean(schema, form),
        ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
            schemas.iter_mut().for_each(|schema| clean(schema, form));
        }
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(schemas),
        ) => schemas.values_mut().for_each(|schema| clean(schema, form)),
        _ => {}
    }
}

/// Replaces references that lead nowhere, such as into another document, by a schema that admits all.
fn drop_dead_references(value: &mut Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            let pointer = target.map(|to| to.strip_prefix('#'));
            // Names such as `#name` are no pointers.
            let is_dead = pointer.is_some_and(|pointer| {
                pointer.is_none_or(|pointer| document.pointer(pointer).is_none())
            });
            if is_dead {
                fields.shift_remove("$ref");
            }
            let values = fields.values_mut();
            values.for_each(|value| drop_dead_references(value, document));
        }
        Value::Array(items) => {
            let items = items.iter_mut();
            items.for_each(|value| drop_dead_references(value, document));
        }
        _ => {}
    }
}
