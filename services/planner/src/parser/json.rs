//! From a JSON object to a draft, with every fault named by its place.

use super::PlanParseError;
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use serde_json::{Map, Value};

const PLAN_FIELDS: &[&str] = &["order", "steps"];
const STEP_FIELDS: &[&str] = &[
    "id",
    "title",
    "description",
    "tool",
    "arguments",
    "depends_on",
    "capabilities",
    "external_id",
    "note",
];

/// A longer text in an error helps nobody.
const MAX_QUOTED_CHARS: usize = 40;

/// Reads a plan's object. If `strict`, unknown fields are errors.
pub(super) fn to_draft(
    object: Map<String, Value>,
    strict: bool,
) -> Result<PlanDraft, PlanParseError> {
    let mut plan = Fields { path: None, object };
    let order = to_order(plan.text("order")?.as_deref())?;
    let steps = match plan.take("steps") {
        Some(Value::Array(steps)) => steps,
        Some(other) => return Err(plan.wrong_type("steps", "an array", &other)),
        None => return Err(PlanParseError::MissingSteps),
    };
    if strict {
        plan.refuse_others(PLAN_FIELDS)?;
    }
    let steps = steps
        .into_iter()
        .enumerate()
        .map(|(position, step)| to_step(position, step, strict))
        .collect::<Result<_, _>>()?;
    Ok(PlanDraft { order, steps })
}

fn to_order(order: Option<&str>) -> Result<Order, PlanParseError> {
    match order {
        None | Some("chain") => Ok(Order::Chain),
        Some("graph") => Ok(Order::Graph),
        Some(other) => Err(PlanParseError::UnknownOrder {
            order: other.chars().take(MAX_QUOTED_CHARS).collect(),
        }),
    }
}

fn to_step(position: usize, step: Value, strict: bool) -> Result<StepDraft, PlanParseError> {
    let path = format!("steps[{position}]");
    let Value::Object(object) = step else {
        return Err(PlanParseError::WrongType {
            path,
            expected: "an object",
            found: name_of_type(&step),
        });
    };
    let mut step = Fields {
        path: Some(path),
        object,
    };
    let tool = step.tool(position)?;
    let description = match tool {
        None => step.text_with_content("description")?,
        Some(_) => step.text("description")?,
    };
    // Of a model neither is taken: people and other systems write them.
    let (external_id, note) = match strict {
        true => (step.text("external_id")?, step.text("note")?),
        false => (None, None),
    };
    let draft = StepDraft {
        id: step.id("id")?.unwrap_or_default(),
        title: step.text("title")?.unwrap_or_default(),
        description: description.unwrap_or_default(),
        tool,
        depends_on: step.list("depends_on", to_id)?,
        capabilities: step.list("capabilities", to_text)?,
        // Nobody writes it: a step of the same words has that of the plan in force.
        redo: 0,
        external_id: external_id.unwrap_or_default(),
        note: note.unwrap_or_default(),
    };
    if strict {
        step.refuse_others(STEP_FIELDS)?;
    }
    Ok(draft)
}

/// What remains to be read of an object, and where the object stands; the plan itself has no path.
struct Fields {
    path: Option<String>,
    object: Map<String, Value>,
}

impl Fields {
    fn path_of(&self, field: &str) -> String {
        match &self.path {
            Some(path) => format!("{path}.{field}"),
            None => format!("'{field}'"),
        }
    }

    fn wrong_type(&self, field: &str, expected: &'static str, found: &Value) -> PlanParseError {
        PlanParseError::WrongType {
            path: self.path_of(field),
            expected,
            found: name_of_type(found),
        }
    }

    /// A field whose value is `null` is as good as absent: models like to write that.
    fn take(&mut self, field: &str) -> Option<Value> {
        self.object.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &str) -> Result<Option<String>, PlanParseError> {
        match self.take(field) {
            Some(value) => to_text(value)
                .map(Some)
                .map_err(|value| self.wrong_type(field, "a string", &value)),
            None => Ok(None),
        }
    }

    fn text_with_content(&mut self, field: &str) -> Result<Option<String>, PlanParseError> {
        let text = self.text(field)?;
        self.refuse_empty(field, text.as_deref())?;
        Ok(text)
    }

    fn id(&mut self, field: &str) -> Result<Option<String>, PlanParseError> {
        let Some(value) = self.take(field) else {
            return Ok(None);
        };
        let id = to_id(value).map_err(|value| self.wrong_type(field, "a string", &value))?;
        self.refuse_empty(field, Some(&id))?;
        Ok(Some(id))
    }

    fn list(
        &mut self,
        field: &str,
        convert: fn(Value) -> Result<String, Value>,
    ) -> Result<Vec<String>, PlanParseError> {
        let items = match self.take(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.wrong_type(field, "an array of strings", &other)),
        };
        let mut texts = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            let place = || format!("{field}[{position}]");
            let text =
                convert(item).map_err(|item| self.wrong_type(&place(), "a string", &item))?;
            self.refuse_empty(&place(), Some(&text))?;
            texts.push(text);
        }
        Ok(texts)
    }

    fn tool(&mut self, step: usize) -> Result<Option<ToolInvocation>, PlanParseError> {
        let name = self.text_with_content("tool")?;
        match (name, self.take("arguments")) {
            (Some(name), Some(arguments @ Value::Object(_))) => Ok(Some(ToolInvocation {
                name,
                arguments: arguments.to_string(),
            })),
            (Some(_), Some(other)) => Err(self.wrong_type("arguments", "an object", &other)),
            (Some(_), None) => Err(PlanParseError::MissingArguments { step }),
            (None, Some(_)) => Err(PlanParseError::ArgumentsWithoutTool { step }),
            (None, None) => Ok(None),
        }
    }

    fn refuse_empty(&self, field: &str, text: Option<&str>) -> Result<(), PlanParseError> {
        match text {
            Some(text) if text.trim().is_empty() => Err(PlanParseError::EmptyField {
                path: self.path_of(field),
            }),
            _ => Ok(()),
        }
    }

    fn refuse_others(&self, allowed: &[&str]) -> Result<(), PlanParseError> {
        match self
            .object
            .keys()
            .find(|key| !allowed.contains(&key.as_str()))
        {
            Some(key) => {
                let key: String = key.chars().take(MAX_QUOTED_CHARS).collect();
                Err(PlanParseError::UnknownField {
                    path: self.path_of(&key),
                    allowed: allowed.join(", "),
                })
            }
            None => Ok(()),
        }
    }
}

/// The text of a string, or the value back.
fn to_text(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(other),
    }
}

/// The text of a string or of a whole number, trimmed; steps without an id are named by their
/// position, and models write positions as numbers.
fn to_id(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) if number.is_u64() => Ok(number.to_string()),
        other => Err(other),
    }
}

/// What people call the type of a value.
pub(super) fn name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
