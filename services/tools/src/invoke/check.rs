//! What is checked of a call before the gate: the tool, the permissions, the arguments, the values.

use super::{Invoker, Request};
use crate::error::ToolError;
use crate::registry::{Entry, Snapshot, unknown};
use crate::schema;
use crate::tool::Rejudge;
use cairn_engine::rules::{Condition, Value, Values, values};

impl Invoker {
    /// The tool and the arguments of a call that may be made.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn check(&self, request: &Request) -> Result<(Entry, serde_json::Value), ToolError> {
        let tools = self.registry.now();
        let Some(entry) = tools.find(&request.name) else {
            return Err(self.not_here(&request.name, &tools));
        };
        self.permissions.check(&request.name)?;
        if let Some(why) = &entry.disabled {
            let message = format!("tool '{}' is disabled: {why}", request.name);
            return Err(ToolError::Denied(message));
        }
        let is_judged = request.tool_digest.is_empty() || request.tool_digest == entry.digest;
        if !is_judged {
            return Err(rejudge(entry, Vec::new()));
        }
        let arguments = schema::parse(&request.arguments, entry.spec().argument_limit)?;
        entry.schema.check(&arguments)?;
        let textual = values(&entry.spec().matchers, &request.arguments);
        let real = entry.tool.resolve(&arguments, textual.clone());
        self.permissions.check_values(&request.name, &real)?;
        if let Some(name) = newly_unclear(&textual, &real) {
            return Err(ToolError::InvalidArguments(format!(
                "'{name}' is not declared by the schema of '{}', and rules cannot be applied to its value; \
                 leave it out, or give a plain text",
                request.name
            )));
        }
        match differing(&textual, &real) {
            resolved if resolved == request.resolved => Ok((entry.clone(), arguments)),
            resolved => Err(rejudge(entry, resolved)),
        }
    }

    /// A tool whose server is away is there for all that: its calls wait.
    fn not_here(&self, name: &str, tools: &Snapshot) -> ToolError {
        match self.registry.missing(name) {
            Some(why) => match self.permissions.check(name) {
                Err(denied) => denied,
                Ok(()) => ToolError::Unreachable(format!("tool '{name}' is out of reach: {why}")),
            },
            None => {
                let known = tools.iter().map(|entry| entry.spec().name.as_str());
                unknown(name, known.filter(|name| self.permissions.allows(name)))
            }
        }
    }
}

fn rejudge(entry: &Entry, resolved: Vec<Condition>) -> ToolError {
    ToolError::Rejudge(Rejudge {
        tool_digest: entry.digest.clone(),
        resolved,
    })
}

/// The owner cannot judge what is unclear without being so by its text.
fn newly_unclear<'a>(textual: &Values, real: &'a Values) -> Option<&'a str> {
    let is_unclear = |value: Option<&Value>| matches!(value, Some(Value::Unclear));
    let mut names = real.keys();
    names
        .find(|name| is_unclear(real.get(*name)) && !is_unclear(textual.get(*name)))
        .map(String::as_str)
}

/// The real values that the arguments do not show.
fn differing(textual: &Values, real: &Values) -> Vec<Condition> {
    let differs = |(name, value): &(&String, &Value)| textual.get(*name) != Some(*value);
    let real = real.iter().filter(differs);
    let known = real.filter_map(|(name, value)| match value {
        Value::Known(value) => Some(Condition {
            name: name.clone(),
            pattern: value.clone(),
        }),
        Value::Unclear => None,
    });
    known.collect()
}
