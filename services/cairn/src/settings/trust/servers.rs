//! What a server of a settings file or of a `.mcp.json` would be, for the person who is asked. Pure.

use super::effects::{address, words};
use crate::ui::text::quoted;
use cairn_rpc::text::escape;
use serde_json::Value;

/// Ends of names of variables whose values are data, and most likely secrets. Every other value may name a
/// program, as in `PATH` and `NODE_OPTIONS`, and is shown.
const SECRET: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Settings with lines of their own.
const KNOWN: [&str; 8] = [
    "command", "args", "url", "cwd", "env", "headers", "effects", "disabled",
];

/// What is started or connected to, and below it all that decides how. `settings` is as the file has it.
pub fn server_lines(name: &str, settings: &Value) -> Vec<String> {
    let name = escape(name);
    let mut lines = Vec::new();
    if let Some(command) = settings.get("command") {
        let arguments = settings.get("args").map(words).unwrap_or_default();
        let program = format!("{} {arguments}", word(command));
        lines.push(format!(
            "start the MCP server {name}: {}",
            program.trim_end()
        ));
    } else if let Some(arguments) = settings.get("args") {
        lines.push(format!(
            "start the MCP server {name} with: {}",
            words(arguments)
        ));
    }
    if let Some(url) = settings.get("url") {
        let url = address(url.as_str().unwrap_or_default());
        lines.push(format!("connect to the MCP server {name} at {url}"));
    }
    if lines.is_empty() {
        lines.push(format!("set up the MCP server {name}"));
    }
    if let Some(folder) = settings.get("cwd") {
        lines.push(format!("  in the folder {}", word(folder)));
    }
    for (variable, value) in fields(settings, "env") {
        lines.push(format!(
            "  with the variable {}",
            variable_line(variable, value)
        ));
    }
    for (header, value) in fields(settings, "headers") {
        let value = reference(value).unwrap_or_else(|| hidden(value));
        lines.push(format!("  with the header {} = {value}", escape(header)));
    }
    for (tool, effect) in fields(settings, "effects") {
        lines.push(format!("  with {} as {}", escape(tool), word(effect)));
    }
    let others = settings.as_object().into_iter().flatten();
    for (field, value) in others.filter(|(field, _)| !KNOWN.contains(&field.as_str())) {
        lines.push(format!(
            "  with {} = {}",
            escape(field),
            escape(&value.to_string())
        ));
    }
    lines
}

fn fields<'a>(settings: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    settings
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// A name with its value, unless that is data that nobody else may see.
fn variable_line(name: &str, value: &Value) -> String {
    let is_secret = SECRET
        .iter()
        .any(|end| name.to_ascii_uppercase().ends_with(end));
    let value = match reference(value) {
        Some(reference) => reference,
        None if is_secret => hidden(value),
        // With what stands beside a reference.
        None => word(value),
    };
    format!("{} = {value}", escape(name))
}

/// What a value that nobody else may see is made of.
pub(super) fn hidden(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let names = text.split("${").skip(1).filter_map(|it| it.split_once('}'));
    let names = names.map(|(name, _)| format!("env:{}", escape(name)));
    let parts: Vec<String> = names.chain(["a value of the file".to_owned()]).collect();
    parts.join(" and ")
}

/// The variables and files that a value refers to, in either form.
pub(super) fn reference(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    if text.starts_with("env:") || text.starts_with("file:") {
        return Some(escape(text).into_owned());
    }
    // Only a value that is a reference as a whole: text beside it decides what runs, too.
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let is_plain = !name.contains(['$', '{', '}']);
    is_plain.then(|| format!("env:{}", escape(name)))
}

/// One value as a word of a shell.
fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| escape(&value.to_string()).into_owned(), quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_that_decides_what_runs_is_shown() {
        let long = "a".repeat(500);
        let settings = json!({
            "command": "npx", "args": ["-y", "two words", long], "cwd": "sub\u{1b}[2J",
            "env": {
                "PATH": "./bin:/usr/bin", "NODE_OPTIONS": "--require ./x.js", "command": "value",
                "API_KEY": "sk-canary", "OTHER": "env:HOME", "FILE": "file:/etc/key",
                "WRAPPER": "./bin:${PATH}",
            },
            "effects": {"read": "pure"}, "protocol": "legacy", "allow": ["read"],
        });
        let lines = server_lines("s", &settings);
        assert!(lines[0].ends_with(&long), "{lines:?}");
        let program = lines.join("\n").replace(&long, "<500 times a>");
        // An address, with its headers and no value of them.
        let settings = json!({
            "url": "https://me:canary@evil.example/mcp/@good.example?key=canary",
            "headers": {"authorization": "env:T", "x-a": "canary", "x-b": "Bearer ${TOKEN} canary"},
        });
        let address = server_lines("s", &settings).join("\n");
        let text = format!("{program}\n---\n{address}");
        assert!(!text.contains("canary"), "{text}");
        insta::assert_snapshot!("servers", text);
    }
}
