//! Servers of tools and hooks that an agent names. What starts a program comes from the operator alone, so
//! only names count.

use crate::fault::shown;
use crate::fields::Fields;
use crate::yaml::Value;

/// Names of servers: a list, a text, or a map of names to settings.
pub(super) fn servers(fields: &mut Fields) -> Vec<String> {
    const ALLOWED: &str = "names of servers";
    let Some(entry) = fields.take(&["mcpservers"]) else {
        return Vec::new();
    };
    let found = &mut fields.found;
    let mut servers = Vec::new();
    let mut has_settings = false;
    let mut add = |line, value: &Value| match value {
        Value::Text(text) => {
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            servers.extend(names.map(str::to_owned));
        }
        Value::Map(entries) => {
            servers.extend(entries.iter().map(|entry| entry.name.clone()));
            has_settings |= entries.iter().any(|it| !matches!(it.value, Value::Nothing));
        }
        other => found.error(line, &entry.name, shown(other), ALLOWED),
    };
    match &entry.value {
        Value::Nothing => {}
        Value::List(nodes) => nodes.iter().for_each(|node| add(node.line, &node.value)),
        value => add(entry.line, value),
    }
    if has_settings {
        let problem = "has settings of servers, of which only the names count: the operator's settings start \
            servers";
        fields.found.warn(entry.line, &entry.name, problem);
    }
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// Names of hooks: a list or a text. Hooks of other programs, a map, do not count.
pub(super) fn hooks(fields: &mut Fields) -> Vec<String> {
    const ALLOWED: &str = "names of hooks";
    let Some(entry) = fields.take(&["hooks"]) else {
        return Vec::new();
    };
    let found = &mut fields.found;
    let mut hooks = Vec::new();
    let mut add = |line, value: &Value| match value {
        Value::Text(text) => {
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            hooks.extend(names.map(str::to_owned));
        }
        other => found.error(line, &entry.name, shown(other), ALLOWED),
    };
    match &entry.value {
        Value::Nothing => {}
        Value::List(nodes) => nodes.iter().for_each(|node| add(node.line, &node.value)),
        Value::Map(_) => {
            let problem =
                "has no effect: hooks come from the operator's settings, and an agent names them";
            fields.found.warn(entry.line, &entry.name, problem);
        }
        value => add(entry.line, value),
    }
    hooks.sort_unstable();
    hooks.dedup();
    hooks
}
