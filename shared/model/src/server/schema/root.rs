//! The root of a schema without choices: providers take an object there, and nothing else.

use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Most parts of the root of a schema: references, and the parts of choices. A few references can stand for
/// more parts than any computer follows.
const MOST_PARTS: usize = 256;

/// The root of a schema, which no provider lets be a choice.
pub(super) struct Root<'a> {
    document: &'a Value,
    /// Constraints that were taken from the root, each as a schema.
    pub(super) lost: Vec<Value>,
    /// How many parts it has so far.
    parts: usize,
}

impl<'a> Root<'a> {
    /// The root of a document, before anything is known of it.
    pub(super) fn of(document: &'a Value) -> Self {
        Self {
            document,
            lost: Vec::new(),
            parts: 0,
        }
    }

    /// A schema without choices, conditions on the whole and references at its root.
    pub(super) fn flat(&mut self, schema: &Value) -> Result<Map<String, Value>, String> {
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
    if let Some(Value::Object(before)) = fields.get_mut("properties") {
        for (name, schema) in properties(&other) {
            let known = before.entry(name);
            known
                .and_modify(|known| refine(known, schema))
                .or_insert_with(|| schema.clone());
        }
    }
    for (name, value) in other {
        fields.entry(name).or_insert(value);
    }
}

/// Makes a schema require what another one requires as well.
fn refine(schema: &mut Value, other: &Value) {
    if let (Value::Object(fields), Value::Object(added)) = (&mut *schema, other) {
        let fits = |(name, value): (&String, &Value)| {
            let is_for_people = matches!(name.as_str(), "title" | "description");
            is_for_people || fields.get(name).is_none_or(|known| known == value)
        };
        if added.iter().all(fits) {
            for (name, value) in added {
                fields.entry(name).or_insert_with(|| value.clone());
            }
            return;
        }
    }
    *schema = json!({"allOf": [schema.clone(), other]});
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

pub(super) fn required(fields: &Map<String, Value>) -> Vec<String> {
    let names = fields.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn properties(fields: &Map<String, Value>) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let properties = fields.get("properties").and_then(Value::as_object);
    properties.unwrap_or(&NONE)
}

pub(super) fn takes_objects(fields: &Map<String, Value>) -> bool {
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
