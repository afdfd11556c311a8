//! Servers of a `.mcp.json`, in the form that editors and agents share.

use super::config::ServerConfig;
use super::setting::Setting;
use crate::error::Fault;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Most bytes of such a file.
const MOST_BYTES: usize = 1 << 20;
/// Most servers of one file.
const MOST_SERVERS: usize = 64;

/// Why a file cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("{0}; expected is {{\"mcpServers\": {{\"NAME\": {{\"command\": …}} or {{\"url\": …}}}}}}")]
pub struct JsonError(String);

/// The servers of such a file by name, and a line about each that cannot be used. Unknown keys are
/// ignored, as each program has its own.
///
/// # Errors
/// It is too large, or no JSON of that form.
pub fn parse_servers(
    text: &str,
) -> Result<(BTreeMap<String, ServerConfig>, Vec<String>), JsonError> {
    if text.len() > MOST_BYTES {
        return Err(JsonError(format!("it has more than {MOST_BYTES} bytes")));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| JsonError(format!("it is no JSON: {error}")))?;
    let servers = match value.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(JsonError("its mcpServers is no object".to_owned())),
        None => return Err(JsonError("it has no mcpServers".to_owned())),
    };
    let mut found = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, server) in servers {
        let shown = crate::text::brief(name, 64).escape_debug().to_string();
        if found.len() == MOST_SERVERS {
            problems.push(format!(
                "there are more than {MOST_SERVERS} servers; the rest is not used"
            ));
            break;
        }
        match server_of(name, server) {
            Ok(config) => {
                found.insert(name.clone(), config);
            }
            Err(problem) => problems.push(format!("server '{shown}' is not used: {problem}")),
        }
    }
    Ok((found, problems))
}

fn server_of(name: &str, server: &Value) -> Result<ServerConfig, String> {
    let Value::Object(fields) = server else {
        return Err("it is no object".to_owned());
    };
    match fields.get("type").and_then(Value::as_str) {
        None | Some("stdio" | "http" | "streamable-http" | "streamableHttp") => {}
        Some("sse") => {
            return Err(
                "its type is sse, which is no longer spoken; use its http address".to_owned(),
            );
        }
        Some(_) => return Err("its type is unknown; stdio and http are spoken".to_owned()),
    }
    let config = ServerConfig {
        command: text(fields, "command")?,
        args: list(fields, "args")?,
        env: settings(fields, "env")?,
        cwd: Some(text(fields, "cwd")?)
            .filter(|it| !it.is_empty())
            .map(Into::into),
        url: text(fields, "url")?,
        headers: settings(fields, "headers")?,
        ..ServerConfig::default()
    };
    let mut faults: Vec<Fault> = Vec::new();
    config.validate("it", name, &mut faults);
    match faults.first() {
        None => Ok(config),
        Some(fault) => {
            let subject = match fault.field.strip_prefix("it.") {
                Some(field) => format!("its {field}"),
                None => "it".to_owned(),
            };
            Err(format!(
                "{subject} {}; allowed: {}",
                fault.problem, fault.allowed
            ))
        }
    }
}

/// A text that is shown, and so can hold no variable.
fn plain(field: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.contains("${") => Err(format!(
            "its {field} has a variable, which is possible in env and headers only"
        )),
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("its {field} is no text")),
    }
}

fn text(fields: &Map<String, Value>, field: &str) -> Result<String, String> {
    fields
        .get(field)
        .map_or(Ok(String::new()), |value| plain(field, value))
}

fn list(fields: &Map<String, Value>, field: &str) -> Result<Vec<String>, String> {
    match fields.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(|item| plain(field, item)).collect(),
        Some(_) => Err(format!("its {field} is no list")),
    }
}

fn settings(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, Setting>, String> {
    let items = match fields.get(field) {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(items)) => items,
        Some(_) => return Err(format!("its {field} is no object")),
    };
    let setting = |(name, value): (&String, &Value)| {
        let shown = name.escape_debug();
        let Value::String(text) = value else {
            return Err(format!("its {field}.{shown} is no text"));
        };
        let value = Setting::from_template(text)
            .map_err(|problem| format!("its {field}.{shown} {problem}"))?;
        Ok((name.clone(), value))
    };
    items.iter().map(setting).collect()
}

#[cfg(test)]
mod tests;
