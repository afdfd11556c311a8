//! Servers of tools that hang, cannot be used or cannot be reached, and the commands beside them.

use crate::support::grants::with_digest;
use crate::support::{CAIRN, shown};
use cairn_testkit::{Output, Site};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Neither answers nor ends.
const HANGING: &str = "\n[mcp.servers.slow]\ncommand = \"sleep\"\nargs = [\"60\"]\n";
/// A command waits this long for a server that it needs.
const WAITS: Duration = Duration::from_secs(15);

/// A store that several folders share: its place is named.
const SHARED: &str = "\n[store]\npath = \"data/cairn.db\"\n";

fn with(settings: &str) -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", settings);
    site
}

fn lines(done: &Output) -> Vec<Value> {
    let lines = done.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn commands_do_not_wait_for_servers_that_they_do_not_need() {
    let site = with(HANGING);
    for arguments in [
        &["tools", "rules"][..],
        &["tools", "call", "list_files"],
        &["tools", "call", "nobody__nothing"],
        &["tools", "allow", "read_file"],
    ] {
        let began = Instant::now();
        let done = site.run(arguments);
        assert!(began.elapsed() < WAITS, "{arguments:?}: {done:?}");
    }
    let listed = site.run(&["tools", "--json"]);
    let lines = lines(&listed);
    let slow = lines.iter().find(|line| line["name"] == "slow");
    assert_eq!(slow.expect("a source")["state"], "starting", "{listed:?}");
}

#[test]
fn a_built_in_tool_needs_no_allowance() {
    let site = Site::new(CAIRN);
    let done = site.run(&["tools", "allow", "read_file"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("needs no allowance"), "{done:?}");
}

#[test]
fn a_call_that_needs_approval_waits_for_it() {
    let site = with("");
    let settings = site.read("cairn.toml").expect("settings");
    site.write(
        "cairn.toml",
        &format!("tools.ask = [\"list_files\"]\n{settings}"),
    );
    let done = site.run(&["tools", "call", "list_files"]);
    assert_eq!(done.code, Some(3), "{done:?}");
}

#[test]
fn servers_of_the_workspace_that_cannot_be_used_are_listed() {
    let site = with("");
    let servers = r#"{"mcpServers": {
        "off": {"command": "touch", "args": ["started"], "disabled": true},
        "bad": {"command": "x", "args": "y"}
    }}"#;
    site.write(".mcp.json", servers);
    let settings = site.read("cairn.toml").expect("settings");
    let named = "tools.deny = [\"off__x\", \"bad__*\"]\n";
    site.write("cairn.toml", &format!("{named}{settings}"));
    let listed = site.run(&["tools"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let json = lines(&site.run(&["tools", "--json"]));
    let bad = json.iter().find(|line| line["name"] == "bad");
    assert_eq!(bad.expect("a source")["state"], "left_out");
    let checked = site.run(&["config", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(!site.path().join("started").exists());

    site.write(".mcp.json", "{");
    let broken = site.run(&["tools"]);
    let shown = [
        ("tools", listed),
        ("config check", checked),
        ("tools, of a file that cannot be read", broken),
    ]
    .map(|(name, done)| format!("--- {name}\n{}", done.out));
    shown::settings(&site)
        .bind(|| insta::assert_snapshot!("servers_that_cannot_be_used", shown.concat()));
}

/// Names of other sources, no name, and the name that another server has here.
#[test]
fn no_server_of_the_workspace_vanishes_from_the_list() {
    let site = with("");
    let servers = r#"{"mcpServers": {
        "built-in": {"command": "x"},
        "program": {"command": "x"},
        "": {"command": "x"},
        "_a": {"command": "x"},
        "a": {"command": "y"}
    }}"#;
    site.write(".mcp.json", servers);
    let json = lines(&site.run(&["tools", "--json"]));
    for name in ["built-in", "program", "", "a"] {
        let is_it = |line: &&Value| line["name"] == name && line["state"] == "left_out";
        assert_eq!(json.iter().filter(is_it).count(), 1, "'{name}': {json:?}");
    }
}

const PY: &str = r#"{"mcpServers": {"py": {"command": "x"}}}"#;

/// The last run worked in another folder.
#[test]
fn tools_are_those_of_the_current_folder_whatever_folder_was_worked_in_before() {
    let site = with(SHARED);
    site.write("sub/file", "");
    site.write(".mcp.json", PY);
    let sub = site.path().join("sub").canonicalize().expect("a folder");
    site.write("data/cairn.db.workspace", &sub.display().to_string());
    let json = lines(&site.run(&["tools", "--json"]));
    let py = json.iter().find(|line| line["name"] == "py");
    assert_eq!(py.expect("a source")["state"], "not_allowed", "{json:?}");
    let allowed = site.run(&["tools", "allow", "py", "--yes"]);
    assert!(allowed.err.contains("needs a terminal"), "{allowed:?}");
    let noted = site.read("data/cairn.db.workspace");
    assert_eq!(noted, Some(sub.display().to_string()));
}

#[test]
fn the_folder_of_another_process_is_named_above_its_tools() {
    let site = with(SHARED);
    site.write("sub/.mcp.json", PY);
    let _running = site.start(&["serve", "--listen", "127.0.0.1:0", "--in", "sub"], &[]);
    let listed = site.run(&["tools"]);
    let sub = site.path().join("sub").canonicalize().expect("a folder");
    let line = format!(
        "the tools of the process that holds the store and works in {}\n",
        sub.display()
    );
    assert!(listed.out.starts_with(&line), "{listed:?}");
    assert!(listed.out.contains("py is not allowed"), "{listed:?}");
    let elsewhere = lines(&site.run(&["tools", "--json"]));
    let is_known = |line: &Value| line["kind"] == "source" || line["kind"] == "tool";
    assert!(elsewhere.iter().all(is_known), "{elsewhere:?}");
}

#[test]
fn lists_may_name_tools_of_a_server_of_the_workspace() {
    let site = with("");
    site.write(".mcp.json", r#"{"mcpServers": {"time": {"command": "x"}}}"#);
    let settings = site.read("cairn.toml").expect("settings");
    for list in ["deny", "ask", "allow"] {
        let named = format!("tools.{list} = [\"time__get\", \"list_files\"]\n");
        site.write("cairn.toml", &format!("{named}{settings}"));
        let listed = site.run(&["tools"]);
        assert_eq!(listed.code, Some(0), "{list}: {listed:?}");
    }
}

#[test]
fn what_is_allowed_is_shown_with_all_that_decides_what_runs() {
    let site = with("");
    let servers = r#"{"mcpServers": {"it": {"command": "env", "args": ["x"],
        "env": {"PATH": "./bin", "OTHER": "${HOME}"}, "cwd": "docs"}}}"#;
    site.write(".mcp.json", servers);
    let shown = with_digest(&site, &["tools", "allow", "it"]);
    shown::settings(&site).bind(|| insta::assert_snapshot!("server_to_allow", shown.out));
}

#[test]
fn nothing_of_an_address_that_may_be_secret_reaches_the_log() {
    let address = "http://user:SEKRET@127.0.0.1:1/mcp?api_key=SEKRET";
    let header = "headers = { authorization = \"Bearer SEKRET\" }";
    let site = with(&format!(
        "\n[mcp.servers.it]\nurl = \"{address}\"\n{header}\n"
    ));
    for level in ["warn", "error", "info", "debug", "trace"] {
        let done = site.run(&["tools", "--log", level]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let shown = format!("{}{}", done.out, done.err);
        assert!(!shown.contains("SEKRET"), "{level}: {shown}");
    }
}
