//! Servers of tools, of which the settings have none by default.

use super::{reported, wrong};

/// A server of tools that is right but for one key, by the key that is named.
const SERVERS: [(&str, &str); 18] = [
    ("command", "command = 17"),
    ("command", "args = [\"canary-4711\"]"),
    ("url", "command = \"x\"\nurl = \"http://h/\""),
    ("url", "url = \"canary-4711 nowhere\""),
    ("args", "command = \"x\"\nargs = \"y\""),
    ("env", "command = \"x\"\nenv = \"y\""),
    ("env.A", "command = \"x\"\nenv = { A = \"env:\" }"),
    ("env.A", "command = \"x\"\nenv = { A = 17 }"),
    (
        "headers",
        "command = \"x\"\nheaders = { a = \"canary-4711\" }",
    ),
    ("effects.t", "command = \"x\"\neffects = { t = \"free\" }"),
    (
        "arguments.a",
        "command = \"x\"\narguments = { a = \"number\" }",
    ),
    ("protocol", "command = \"x\"\nprotocol = \"2020-01-01\""),
    ("time_limit_ms", "command = \"x\"\ntime_limit_ms = 0"),
    ("start_ms", "command = \"x\"\nstart_ms = -1"),
    ("message_bytes", "command = \"x\"\nmessage_bytes = 1"),
    ("stateful", "command = \"x\"\nstateful = \"yes\""),
    ("trust_hints", "command = \"x\"\ntrust_hints = \"yes\""),
    ("comand", "comand = \"x\""),
];

#[test]
fn every_setting_of_a_server_says_what_is_wrong_with_it() {
    let mut bad = Vec::new();
    for (key, lines) in SERVERS {
        let toml = format!("[mcp.servers.it]\n{lines}\n");
        let reported = reported(&toml, &[]);
        let path = format!("mcp.servers.it.{key}");
        // What is missing has no place.
        let place = ["cairn.toml", "default"][usize::from(lines.starts_with("args"))];
        for fault in wrong(&path, place, true, &reported) {
            bad.push(format!("{lines} {fault}: {reported:?}"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
