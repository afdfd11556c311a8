//! Servers of a `.mcp.json`, in the form that editors and agents share.

use super::config::{ServerConfig, is_server_name};
use super::setting::{Piece, Setting, pieces};
use crate::error::Fault;
use cairn_engine::text::without_bom;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of such a file.
const MOST_BYTES: usize = 1 << 20;
/// Most servers of one file.
const MOST_SERVERS: usize = 64;
/// Fields that decide what runs. Variables in them are put in when the file is read, so that what a person
/// allows is what runs.
const EXPANDED: [&str; 4] = ["command", "args", "cwd", "url"];
/// Ends of names of variables whose values nobody is shown.
const SECRET: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Why a file cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("{0}; expected is {{\"mcpServers\": {{\"NAME\": {{\"command\": …}} or {{\"url\": …}}}}}}")]
pub struct JsonError(String);

/// A server of such a file.
#[derive(Debug)]
pub struct JsonServer {
    /// Its name in the file.
    pub written: String,
    /// Its name here: what names of tools cannot have became `_`.
    pub name: String,
    /// Its entry with variables put in where they decide what runs, for a person; secrets stay variables.
    pub entry: Value,
    /// Its settings, or why it is not used.
    pub config: Result<ServerConfig, Unused>,
}

/// Why a server is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unused {
    /// Its entry says so.
    Disabled,
    /// It cannot be used; in words that begin with "it" or "its".
    Unusable(String),
}

/// The servers of such a file, in its order. `environment` has the values of variables. Unknown keys are
/// ignored, as each program has its own.
///
/// # Errors
/// It is too large, or no JSON of that form.
pub fn parse_servers(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<JsonServer>, JsonError> {
    if text.len() > MOST_BYTES {
        return Err(JsonError(format!("it has more than {MOST_BYTES} bytes")));
    }
    let value: Value = serde_json::from_str(without_bom(text))
        .map_err(|error| JsonError(format!("it is no JSON: {error}")))?;
    let servers = match value.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(JsonError("its mcpServers is no object".to_owned())),
        None => return Err(JsonError("it has no mcpServers".to_owned())),
    };
    let mut taken = BTreeSet::new();
    let server = |(written, entry): (&String, &Value)| {
        let name = usable(written);
        let (entry, config) = match expanded(entry, environment) {
            Ok(expanded) => {
                let config = match () {
                    () if is_disabled(entry) => Err(Unused::Disabled),
                    () if taken.len() == MOST_SERVERS => Err(Unused::Unusable(format!(
                        "it is one of more than {MOST_SERVERS} servers"
                    ))),
                    () if taken.contains(&name) => Err(Unused::Unusable(format!(
                        "its name here would be '{name}', which another server has"
                    ))),
                    () => server_of(&name, &expanded).map_err(Unused::Unusable),
                };
                (expanded.shown, config)
            }
            Err(_) if is_disabled(entry) => (entry.clone(), Err(Unused::Disabled)),
            Err(problem) => (entry.clone(), Err(Unused::Unusable(problem))),
        };
        if config.is_ok() {
            taken.insert(name.clone());
        }
        JsonServer {
            written: written.clone(),
            name,
            entry,
            config,
        }
    };
    Ok(servers.iter().map(server).collect())
}

/// Other programs let people switch a server off by either word.
fn is_disabled(entry: &Value) -> bool {
    entry.get("disabled") == Some(&Value::Bool(true))
        || entry.get("enabled") == Some(&Value::Bool(false))
}

/// A name that tools can be named by. One of which nothing is left stays, and is refused.
fn usable(written: &str) -> String {
    if is_server_name(written) {
        return written.to_owned();
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let parts = written.split(|c: char| !is_part(c));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    match parts.join("_") {
        name if name.is_empty() => written.to_owned(),
        name => name,
    }
}

/// An entry with its variables put in.
struct Expanded {
    /// As it runs.
    entry: Map<String, Value>,
    /// As people see it.
    shown: Value,
    /// The values of its variables, where it has any.
    values: Vec<String>,
    /// What runs as the file has it, if it has variables.
    written: Option<String>,
}

fn expanded(entry: &Value, environment: &BTreeMap<String, String>) -> Result<Expanded, String> {
    let Value::Object(fields) = entry else {
        return Err("it is no object".to_owned());
    };
    let (mut runs, mut shown, mut values) = (fields.clone(), fields.clone(), Vec::new());
    for field in EXPANDED {
        match fields.get(field) {
            Some(Value::String(text)) => {
                let (whole, seen) = put_in(field, text, environment, &mut values)?;
                runs.insert(field.to_owned(), whole.into());
                shown.insert(field.to_owned(), seen.into());
            }
            Some(Value::Array(items)) => {
                let (mut whole_list, mut seen_list) = (Vec::new(), Vec::new());
                for item in items {
                    let (whole, seen) = match item {
                        Value::String(text) => {
                            let (whole, seen) = put_in(field, text, environment, &mut values)?;
                            (whole.into(), seen.into())
                        }
                        other => (other.clone(), other.clone()),
                    };
                    whole_list.push(whole);
                    seen_list.push(seen);
                }
                runs.insert(field.to_owned(), Value::Array(whole_list));
                shown.insert(field.to_owned(), Value::Array(seen_list));
            }
            Some(_) | None => {}
        }
    }
    Ok(Expanded {
        written: (!values.is_empty()).then(|| as_written(fields)),
        entry: runs,
        shown: Value::Object(shown),
        values,
    })
}

/// A text with its variables put in, as it runs and as people see it.
fn put_in(
    field: &str,
    text: &str,
    environment: &BTreeMap<String, String>,
    values: &mut Vec<String>,
) -> Result<(String, String), String> {
    let (mut whole, mut seen) = (String::new(), String::new());
    let parts = pieces(text).map_err(|problem| format!("its {field} {problem}"))?;
    for part in parts {
        let (name, value) = match part {
            Piece::Text(text) => {
                whole.push_str(text);
                seen.push_str(text);
                continue;
            }
            Piece::Variable { name, .. } => (name, part.value(environment)),
        };
        let unset = || format!("its {field} refers to the variable {name}, which is not set");
        let value = value.ok_or_else(unset)?;
        whole.push_str(value);
        let upper = name.to_ascii_uppercase();
        match SECRET.iter().any(|end| upper.ends_with(end)) {
            true => seen.push_str(&format!("${{{name}}}")),
            false => seen.push_str(value),
        }
        values.push(value.to_owned());
    }
    Ok((whole, seen))
}

/// The program with its arguments, or the address without user, query and fragment.
fn as_written(fields: &Map<String, Value>) -> String {
    if let Some(url) = fields.get("url").and_then(Value::as_str) {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        return match url.split_once("//") {
            Some((scheme, rest)) => {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                format!("{scheme}//{host}")
            }
            None => url.to_owned(),
        };
    }
    let arguments = fields.get("args").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten();
    let words = fields.get("command").into_iter().chain(arguments);
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    words.join(" ")
}

fn server_of(name: &str, expanded: &Expanded) -> Result<ServerConfig, String> {
    let fields = &expanded.entry;
    match fields.get("type").and_then(Value::as_str) {
        None | Some("stdio" | "http" | "streamable-http" | "streamableHttp") => {}
        Some("sse") => {
            return Err(
                "its type is sse, which is no longer spoken; use its http address".to_owned(),
            );
        }
        Some(_) => return Err("its type is unknown; stdio and http are spoken".to_owned()),
    }
    if !fields.contains_key("command") && !fields.contains_key("url") {
        return Err("it has neither command nor url".to_owned());
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
        disabled_tools: list(fields, "disabledTools")?,
        values: expanded.values.clone(),
        written: expanded.written.clone(),
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

fn plain(field: &str, value: &Value) -> Result<String, String> {
    match value {
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
