//! What the settings of an unconfirmed file would do, for the person who is asked. Pure.
//!
//! Nothing that counts is cut: a file whose effects are too long to show is not asked about.

use super::servers::{hidden, reference, server_lines};
use crate::ui::text::quoted;
use cairn_engine::rules::Rule;
use cairn_http::Url;
use cairn_rpc::text::escape;
use serde_json::Value;

/// Settings that send keys or texts to a place, by the end of their names.
const PLACES: [&str; 2] = [".base_url", "telemetry.otlp"];
/// Sections that are shown as a whole.
const TOGETHER: [&str; 3] = ["mcp.servers.", "tools.web_search.", "capabilities."];

/// One line for each effect, the most dangerous first; lines that begin with blanks belong to the one
/// before. `withheld` are the settings without effect, and `whole` is all of the file. Texts are the
/// file's, and escaped. Secrets are not shown: only values of settings that cannot be one are.
pub(super) fn effects(withheld: &[(String, Value)], whole: &Value) -> Vec<String> {
    let of = |effect: fn(&str, &Value) -> Vec<String>| {
        let lines = withheld
            .iter()
            .flat_map(move |(path, value)| effect(path, value));
        lines.collect::<Vec<_>>()
    };
    let mut lines = [of(programs), of(hooks), of(plan_parser)].concat();
    // The settings of a server belong together, and its name and variables may have dots.
    let servers = whole["mcp"]["servers"].as_object().into_iter().flatten();
    lines.extend(servers.flat_map(|(name, settings)| server_lines(name, settings)));
    lines.extend(of(shell));
    // The settings of these belong together, too.
    lines.extend(searches(&whole["tools"]["web_search"]));
    lines.extend(capabilities(&whole["capabilities"]));
    lines.extend([of(rules), of(places), of(files)].concat());
    let others = withheld.iter().filter(|(path, value)| {
        let known = [programs, hooks, plan_parser, shell, rules, places, files];
        !TOGETHER.iter().any(|start| path.starts_with(start))
            && known.iter().all(|effect| effect(path, value).is_empty())
    });
    let others: Vec<String> = others.map(|(path, value)| other(path, value)).collect();
    if !others.is_empty() {
        lines.push(format!("set {}", others.join(", ")));
    }
    lines
}

/// Numbers and switches are no secrets.
fn other(path: &str, value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => format!("{} = {value}", escape(path)),
        _ => escape(path).into_owned(),
    }
}

fn programs(path: &str, value: &Value) -> Vec<String> {
    let commands = value.as_array().filter(|_| path == "tools.commands");
    commands.into_iter().flatten().flat_map(program).collect()
}

fn program(command: &Value) -> Vec<String> {
    let name = escape(command["name"].as_str().unwrap_or_default());
    let mut lines = vec![format!(
        "run as the tool {name}: {}",
        words(&command["argv"])
    )];
    if command["confine"] == "none" {
        lines.push("  with all your rights, not confined to the workspace".to_owned());
    }
    let variables = command["env"].as_array().into_iter().flatten();
    let variables = variables.filter_map(Value::as_str);
    lines.extend(variables.map(|name| format!("  with your variable {}", escape(name))));
    let effect = command["effect"].as_str();
    lines.extend(effect.map(|effect| format!("  with {name} as {}", escape(effect))));
    lines
}

/// What is asked before and after what runs do, and so reads it and decides about it.
fn hooks(path: &str, value: &Value) -> Vec<String> {
    if path == "serve.hook_addresses" {
        return vec![format!("let clients have hooks at: {}", words(value))];
    }
    let hooks = value.as_array().filter(|_| path == "hooks");
    hooks.into_iter().flatten().flat_map(hook).collect()
}

fn hook(hook: &Value) -> Vec<String> {
    let name = escape(hook["name"].as_str().unwrap_or_default());
    let points = hook["points"].as_array().into_iter().flatten();
    let points: Vec<_> = points.filter_map(Value::as_str).map(escape).collect();
    let at = format!("as the hook {name} at {}", points.join(", "));
    let variables = hook["env"].as_array().into_iter().flatten();
    let variables = variables.filter_map(Value::as_str);
    let variables = variables.map(|name| format!("  with your variable {}", escape(name)));
    match (&hook["command"], hook["url"].as_str()) {
        (_, Some(url)) => vec![format!("ask {}, {at}", address(url))],
        (Value::Null, None) => vec![format!("ask a part of Cairn's own process, {at}")],
        (command, None) => {
            let program = format!("run {at}: {}", words(command));
            let rights = "  with all your rights, not confined to the workspace".to_owned();
            [program, rights].into_iter().chain(variables).collect()
        }
    }
}

/// A program that reads what models answer.
fn plan_parser(path: &str, value: &Value) -> Vec<String> {
    if path != "planner.parser" || !value.is_array() {
        return Vec::new();
    }
    vec![
        format!("run for each plan of a model: {}", words(value)),
        "  with all your rights, not confined to the workspace".to_owned(),
    ]
}

fn shell(path: &str, value: &Value) -> Vec<String> {
    match path {
        "tools.shell.read" => vec![format!("let commands read: {}", words(value))],
        "tools.shell.write" => vec![format!("let commands read and change: {}", words(value))],
        "tools.shell.env" => vec![format!(
            "let commands have your variables: {}",
            words(value)
        )],
        "tools.shell.network" => {
            vec![format!(
                "open the network to commands: {}",
                escape(&value.to_string())
            )]
        }
        _ => Vec::new(),
    }
}

/// Where searches go, and with what.
fn searches(search: &Value) -> Vec<String> {
    let Some(search) = search.as_object() else {
        return Vec::new();
    };
    let url = search.get("url").and_then(Value::as_str);
    let place = url.map_or_else(|| "an address of other settings".to_owned(), address);
    let mut lines = vec![format!("send searches to {place}")];
    if let Some(key) = search.get("key") {
        let value = reference(key).unwrap_or_else(|| hidden(key));
        lines.push(format!("  with the key {value}"));
    }
    if let Some(header) = search.get("key_header") {
        let header = header.as_str().unwrap_or_default();
        lines.push(format!("  in the header {}", escape(header)));
    }
    lines
}

/// What steps find that need a capability.
fn capabilities(all: &Value) -> Vec<String> {
    let all = all.as_object().into_iter().flatten();
    let lines = all.map(|(name, value)| {
        let name = escape(name);
        let tools = value.get("tools").unwrap_or(value);
        let level = value.get("level").map(ToString::to_string);
        let level = level.map(|it| format!(" at level {}", escape(&it)));
        // A single text is read as a list, too.
        let shown = tools.as_str().map_or_else(|| words(tools), quoted);
        match tools.as_array().is_some_and(Vec::is_empty) {
            true => format!("remove the capability {name}"),
            false => format!(
                "take these tools for the capability {name}{}: {}",
                level.unwrap_or_default(),
                shown
            ),
        }
    });
    lines.collect()
}

fn rules(path: &str, value: &Value) -> Vec<String> {
    if !path.starts_with("tools.rules[") {
        return Vec::new();
    }
    let line = match serde_json::from_value::<Rule>(value.clone()) {
        Ok(rule) => rule.to_line(),
        Err(_) => value.to_string(),
    };
    vec![format!("answer calls for you: {}", escape(&line))]
}

fn places(path: &str, value: &Value) -> Vec<String> {
    let is_place = PLACES.iter().any(|end| path.ends_with(end));
    if !is_place && !path.starts_with("links.") && path != "client.server" {
        return Vec::new();
    }
    let several = value.as_array().into_iter().flatten();
    let places = value.as_str().into_iter();
    let places = places.chain(several.filter_map(Value::as_str));
    let places = places.flat_map(|place| place.split(','));
    places
        .map(|place| format!("send to {} ({})", address(place.trim()), escape(path)))
        .collect()
}

fn files(path: &str, value: &Value) -> Vec<String> {
    match path {
        "workspace.show" => vec![format!("show files to models: {}", words(value))],
        "workspace.write" => {
            let how = value.as_str().unwrap_or_default();
            vec![format!(
                "let models write files of the workspace: {}",
                quoted(how)
            )]
        }
        "workspace.path" | "workspace.output" | "store.path" => {
            let place = value.as_str().unwrap_or_default();
            vec![format!("use {} as {path}", quoted(place))]
        }
        _ => Vec::new(),
    }
}

/// The items of a list in their order, as words of a shell.
pub(super) fn words(list: &Value) -> String {
    let items = list.as_array().into_iter().flatten();
    let words = items.map(|item| {
        item.as_str()
            .map_or_else(|| escape(&item.to_string()).into_owned(), quoted)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An address without its user and query, which may be secrets.
pub(super) fn address(text: &str) -> String {
    let url = Url::parse(text).ok().filter(Url::has_host);
    let Some(mut url) = url else {
        // Such as a host with its port. A password could stand in one that cannot be read.
        return match text.contains('@') {
            true => "an address that cannot be read".to_owned(),
            false => escape(text).into_owned(),
        };
    };
    // Both fail only for addresses that have no place for them.
    _ = url.set_username("");
    _ = url.set_password(None);
    let has_query = url.query().is_some();
    url.set_query(None);
    url.set_fragment(None);
    let more = if has_query { "?…" } else { "" };
    format!("{}{more}", escape(url.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_effect_is_named_and_no_secret_is() {
        let long = "docs/".repeat(100);
        let rule = json!({"tool": "*", "when": {"path": long}, "answer": "allow"});
        let withheld = [
            ("models.openai.api_key", json!("sk-canary")),
            (
                "models.openai.base_url",
                json!("https://me:canary@h.example/v1"),
            ),
            ("links.tools", json!("https://a.example/@b.example,c:7")),
            (
                "tools.commands",
                json!([{"name": "t\u{1b}[2J", "argv": ["sh", "-c", "x y"], "env": ["HOME"],
                    "confine": "none"}]),
            ),
            (
                "hooks",
                json!([
                    {"name": "guard", "points": ["PreToolCall"], "command": ["python3", "g\u{1b}.py"],
                        "env": ["HOME"]},
                    {"name": "far", "points": ["PreRequest", "OnRunEnd"],
                        "url": "https://me:canary@hooks.example:8443"},
                ]),
            ),
            ("planner.parser", json!(["python3", "p\u{1b}.py"])),
            ("serve.hook_addresses", json!(["https://*.example.org:*"])),
            ("tools.shell.write", json!(["~/x y", "/data"])),
            ("tools.shell.network", json!([80, 443])),
            ("mcp.servers.s.command", json!("npx")),
            ("mcp.servers.s.env.TOKEN", json!("canary")),
            ("tools.rules[1]", rule),
            ("workspace.show", json!([".ssh/"])),
            ("tools.web_search.key", json!("canary")),
            (
                "tools.web_search.url",
                json!("https://me:canary@s.example/search?k=canary"),
            ),
            ("capabilities.gpu.level", json!(5)),
            ("capabilities.gpu.tools", json!(["train"])),
            ("capabilities.web_search", json!([])),
            ("store.redis.url", json!("redis://u:canary@h")),
            ("run.max_turns", json!(100_000)),
        ];
        let withheld = withheld.map(|(path, value)| (path.to_owned(), value));
        let server = json!({"command": "npx", "env": {"TOKEN": "canary"}});
        let search = json!({"url": "https://me:canary@s.example/search?k=canary", "key": "canary",
            "key_header": "x-key"});
        let whole = json!({
            "mcp": {"servers": {"s": server}},
            "tools": {"web_search": search},
            "capabilities": {"gpu": {"tools": ["train"], "level": 5}, "web_search": []},
        });
        let lines = effects(&withheld, &whole);
        let text = lines.join("\n");
        assert!(text.contains(&long) && !text.contains("canary"), "{text}");
        insta::assert_snapshot!("effects", text.replace(&long, "<100 times docs/>"));
    }
}
