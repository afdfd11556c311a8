//! A tool of a server.

use super::connect::Target;
use super::source::Shared;
use super::{MOST_DESCRIPTION_BYTES, MOST_SCHEMA_BYTES, SEPARATOR, call};
use crate::error::ToolError;
use crate::matchers;
use crate::registry::is_name;
use crate::text;
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::rules::{Answer, Condition, Scope};
use rmcp::model::{self, ToolAnnotations};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Most characters of a title.
const MOST_TITLE: usize = 200;

/// A tool of a server.
pub(crate) struct McpTool {
    spec: ToolSpec,
    /// Its name at the server.
    remote: String,
    shared: Arc<Shared>,
}

impl McpTool {
    pub(crate) fn new(spec: ToolSpec, remote: String, shared: Arc<Shared>) -> Self {
        Self {
            spec,
            remote,
            shared,
        }
    }

    /// Its name at the server.
    pub(crate) fn remote(&self) -> &str {
        &self.remote
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn links(&self, scope: &Scope) -> Vec<Condition> {
        matchers::links(&self.spec.matchers, scope)
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let live = self.shared.live_soon(&call.stop).await.map_err(|why| {
            let (tool, server) = (&self.spec.name, &self.shared.name);
            ToolError::Unreachable(format!(
                "tool '{tool}' is out of reach: server '{server}': {why}"
            ))
        })?;
        call::call(&live, &self.spec, &self.remote, call).await
    }
}

/// What is known of a tool of a server.
///
/// # Errors
/// Why it is left out, in words for a person.
pub(crate) fn spec(target: &Target, tool: model::Tool) -> Result<ToolSpec, String> {
    let Target {
        name: server,
        config,
        ..
    } = target;
    let remote = tool.name.as_ref();
    let shown = text::brief(remote, 128).escape_debug().to_string();
    let name = format!("{server}{SEPARATOR}{remote}");
    if !is_name(&name) {
        return Err(format!(
            "tool '{shown}' is left out: its name here would be '{}', and a name has at most 64 letters, \
             digits, '_' and '-'",
            text::brief(&name, 160).escape_debug()
        ));
    }
    let parameters = Value::Object(tool.input_schema.as_ref().clone());
    let output_schema = tool
        .output_schema
        .map(|it| Value::Object(it.as_ref().clone()));
    check_size(&shown, "arguments", Some(&parameters))?;
    check_size(&shown, "results", output_schema.as_ref())?;
    let hints = tool.annotations.as_ref();
    let title = tool
        .title
        .or_else(|| hints.and_then(|it| it.title.clone()))
        .unwrap_or_default();
    let description = match tool.description.as_deref().map(str::trim) {
        None | Some("") => format!("The tool {remote} of the server {server}."),
        Some(description) => cut(description),
    };
    let declared = config.effects.get(remote).copied();
    let (effect, default) = match declared {
        None if config.trust_hints && is_read_only(hints) => (Effect::Pure, Answer::Allow),
        declared => (tightened(declared.unwrap_or_default(), hints), Answer::Ask),
    };
    Ok(ToolSpec {
        effect,
        time_limit: Duration::from_millis(config.time_limit_ms),
        in_process: false,
        source: server.clone(),
        title: text::brief(&title, MOST_TITLE),
        output_schema,
        hints: hints.cloned().and_then(|mut hints| {
            hints.title = hints.title.map(|title| text::brief(&title, MOST_TITLE));
            serde_json::to_value(hints).ok()
        }),
        matchers: matchers::matchers(
            &parameters,
            target.program_folder().as_deref(),
            &config.arguments,
        ),
        default,
        is_trusted: false,
        ..ToolSpec::new(name, description, parameters)
    })
}

fn check_size(tool: &str, what: &str, schema: Option<&Value>) -> Result<(), String> {
    let bytes = schema.map_or(0, |schema| schema.to_string().len());
    match bytes > MOST_SCHEMA_BYTES {
        true => Err(format!(
            "tool '{tool}' is left out: its schema of {what} has {bytes} bytes, and at most \
             {MOST_SCHEMA_BYTES} are taken"
        )),
        false => Ok(()),
    }
}

/// A description within its limit; what is cut is not judged by anyone.
fn cut(description: &str) -> String {
    if description.len() <= MOST_DESCRIPTION_BYTES {
        return description.to_owned();
    }
    let end = description.floor_char_boundary(MOST_DESCRIPTION_BYTES);
    format!("{}…", &description[..end])
}

/// The operator's declaration, unless the server itself says that a repeat may do harm. A hint never
/// makes a tool more harmless than it was declared, but where the operator trusts the hints of the server.
fn tightened(declared: Effect, hints: Option<&ToolAnnotations>) -> Effect {
    let Some(hints) = hints else {
        return declared;
    };
    let is_read_only = hints.read_only_hint == Some(true);
    let writes = hints.read_only_hint == Some(false) || hints.destructive_hint == Some(true);
    match declared {
        Effect::Pure if writes && !is_read_only => match hints.idempotent_hint {
            Some(true) => Effect::Idempotent,
            Some(false) | None => Effect::Effectful,
        },
        Effect::Idempotent if hints.idempotent_hint == Some(false) && !is_read_only => {
            Effect::Effectful
        }
        declared => declared,
    }
}

/// The server says that a call changes nothing, and nothing else beside it.
fn is_read_only(hints: Option<&ToolAnnotations>) -> bool {
    hints.is_some_and(|hints| {
        hints.read_only_hint == Some(true) && hints.destructive_hint != Some(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_is_read_only_if_its_hints_agree() {
        for (hints, expected) in [
            (json!({}), false),
            (json!({"readOnlyHint": true}), true),
            (
                json!({"readOnlyHint": true, "destructiveHint": false}),
                true,
            ),
            (
                json!({"readOnlyHint": true, "destructiveHint": true}),
                false,
            ),
            (json!({"readOnlyHint": false}), false),
            (json!({"idempotentHint": true}), false),
        ] {
            let parsed: ToolAnnotations = serde_json::from_value(hints.clone()).unwrap();
            assert_eq!(is_read_only(Some(&parsed)), expected, "{hints}");
        }
        assert!(!is_read_only(None));
    }

    #[test]
    fn hints_tighten_and_never_loosen() {
        use Effect::{Effectful, Idempotent, Pure};
        let cases = [
            (json!({}), [Pure, Idempotent, Effectful]),
            (json!({"readOnlyHint": true}), [Pure, Idempotent, Effectful]),
            (
                json!({"readOnlyHint": true, "idempotentHint": false}),
                [Pure, Idempotent, Effectful],
            ),
            (
                json!({"readOnlyHint": false}),
                [Effectful, Idempotent, Effectful],
            ),
            (
                json!({"readOnlyHint": false, "idempotentHint": true}),
                [Idempotent, Idempotent, Effectful],
            ),
            (
                json!({"destructiveHint": true}),
                [Effectful, Idempotent, Effectful],
            ),
            (
                json!({"idempotentHint": false}),
                [Pure, Effectful, Effectful],
            ),
            (
                json!({"idempotentHint": true}),
                [Pure, Idempotent, Effectful],
            ),
        ];
        for (hints, expected) in cases {
            let parsed: ToolAnnotations = serde_json::from_value(hints.clone()).unwrap();
            let found = [Pure, Idempotent, Effectful].map(|it| tightened(it, Some(&parsed)));
            assert_eq!(found, expected, "{hints}");
        }
    }
}
