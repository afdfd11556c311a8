//! What the settings of an unconfirmed file would do, for the person who is asked. Pure.

use cairn_engine::rules::Rule;
use cairn_rpc::text::clip;
use serde_json::Value;

/// Most bytes of a value that is shown.
const MOST_SHOWN: usize = 160;
/// Settings that send keys or texts to a place, by the end of their names.
const PLACES: [&str; 2] = [".base_url", "telemetry.otlp"];

/// One line for each effect, the most dangerous first. Texts are the file's, and escaped. Secrets are
/// not shown: only values of settings that cannot be one are.
pub fn effects(withheld: &[(String, Value)]) -> Vec<String> {
    let of = |effect: fn(&str, &Value) -> Vec<String>| {
        let lines = withheld
            .iter()
            .flat_map(move |(path, value)| effect(path, value));
        lines.collect::<Vec<_>>()
    };
    let mut lines = [of(programs), of(servers), of(rules), of(places), of(files)].concat();
    let others = withheld.iter().filter(|(path, value)| {
        let known = [programs, servers, rules, places, files];
        !path.starts_with("mcp.servers.")
            && known.iter().all(|effect| effect(path, value).is_empty())
    });
    let others: Vec<&str> = others.map(|(path, _)| path.as_str()).collect();
    if !others.is_empty() {
        lines.push(format!("set {}", shown(&others.join(", "))));
    }
    lines
}

fn shown(text: &str) -> String {
    clip(text, MOST_SHOWN)
}

fn programs(path: &str, value: &Value) -> Vec<String> {
    let commands = value.as_array().filter(|_| path == "tools.commands");
    let line = |command: &Value| {
        let name = command["name"].as_str().unwrap_or_default();
        format!(
            "run as the tool {}: {}",
            shown(name),
            shown(&words(&command["argv"]))
        )
    };
    commands.into_iter().flatten().map(line).collect()
}

/// Settings of servers come one by one.
fn servers(path: &str, value: &Value) -> Vec<String> {
    let Some((name, field)) = path
        .strip_prefix("mcp.servers.")
        .and_then(|it| it.rsplit_once('.'))
    else {
        return Vec::new();
    };
    let name = shown(name);
    let text = value.as_str().unwrap_or_default();
    match field {
        "command" => vec![format!("start the MCP server {name}: {}", shown(text))],
        "args" => vec![format!(
            "start the MCP server {name} with: {}",
            shown(&words(value))
        )],
        "url" => vec![format!(
            "connect to the MCP server {name} at {}",
            address(text)
        )],
        _ => Vec::new(),
    }
}

fn rules(path: &str, value: &Value) -> Vec<String> {
    if !path.starts_with("tools.rules[") {
        return Vec::new();
    }
    let line = match serde_json::from_value::<Rule>(value.clone()) {
        Ok(rule) => shown(&rule.to_line()),
        Err(_) => shown(&value.to_string()),
    };
    vec![format!("answer calls for you: {line}")]
}

fn places(path: &str, value: &Value) -> Vec<String> {
    let is_place = PLACES.iter().any(|end| path.ends_with(end));
    let is_place = is_place || path.starts_with("links.") || path == "client.server";
    match value.as_str().filter(|_| is_place) {
        Some(place) => vec![format!("send to {} ({})", address(place), shown(path))],
        None => Vec::new(),
    }
}

fn files(path: &str, value: &Value) -> Vec<String> {
    match path {
        "workspace.show" => vec![format!("show files to models: {}", shown(&words(value)))],
        "workspace.path" | "workspace.output" | "store.path" => {
            let place = value.as_str().unwrap_or_default();
            vec![format!("use {} as {path}", shown(place))]
        }
        _ => Vec::new(),
    }
}

fn words(list: &Value) -> String {
    let items = list.as_array().into_iter().flatten();
    let words = items.map(|item| {
        item.as_str()
            .map_or_else(|| item.to_string(), str::to_owned)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An address without a user, whose password may stand before the host.
fn address(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{}", shown(host)),
        None => shown(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_effect_is_named_and_no_secret_is() {
        let withheld = [
            ("models.openai.api_key", json!("sk-canary")),
            (
                "models.openai.base_url",
                json!("https://me:canary@h.example/v1"),
            ),
            (
                "tools.commands",
                json!([{"name": "t\u{1b}[2J", "argv": ["sh", "-c", "x"]}]),
            ),
            ("mcp.servers.s.command", json!("npx")),
            ("mcp.servers.s.env.TOKEN", json!("canary")),
            ("tools.rules[1]", json!({"tool": "*", "answer": "allow"})),
            ("workspace.show", json!([".ssh/"])),
            ("store.redis.url", json!("redis://u:canary@h")),
        ];
        let withheld = withheld.map(|(path, value)| (path.to_owned(), value));
        let lines = effects(&withheld);
        assert_eq!(
            lines,
            [
                "run as the tool t\\u{1b}[2J: sh -c x",
                "start the MCP server s: npx",
                "answer calls for you: *: allow",
                "send to …@h.example/v1 (models.openai.base_url)",
                "show files to models: .ssh/",
                "set models.openai.api_key, store.redis.url",
            ]
        );
    }
}
