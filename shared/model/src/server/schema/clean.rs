//! Schemas of older drafts, and faulty ones, as JSON Schema of 2020-12.

use super::SchemaForm;
use serde_json::{Map, Value, json};

/// Makes a schema one that JSON Schema of 2020-12 admits.
fn clean(schema: &mut Value, form: SchemaForm) {
    match schema {
        Value::Object(fields) => clean_fields(fields, form),
        // Some servers know no booleans as schemas.
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => *schema = json!({}),
    }
}

pub(super) fn clean_fields(fields: &mut Map<String, Value>, form: SchemaForm) {
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
pub(super) fn drop_dead_references(value: &mut Value, document: &Value) {
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
            for (name, value) in fields.iter_mut() {
                match (name.as_str(), value) {
                    // Values of arguments, whatever is in them.
                    ("const" | "default" | "enum" | "example" | "examples", _) => {}
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions"
                        | "dependentSchemas",
                        Value::Object(schemas),
                    ) => schemas
                        .values_mut()
                        .for_each(|schema| drop_dead_references(schema, document)),
                    (_, value) => drop_dead_references(value, document),
                }
            }
        }
        Value::Array(items) => {
            let items = items.iter_mut();
            items.for_each(|value| drop_dead_references(value, document));
        }
        _ => {}
    }
}
