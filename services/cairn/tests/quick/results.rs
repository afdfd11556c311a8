//! A long result over the command line: the log shows its beginning and the command that prints all of it.

use crate::support::CAIRN;
use cairn_testkit::Site;
use serde_json::Value;

const PROGRAM: &str = r#"
[[tools.commands]]
name = "much"
description = "Prints much."
argv = ["cat", "much.txt"]
confine = "none"
effect = "pure"
"#;
const PLAN: &str = r#"{"steps": [{"tool": "much", "arguments": {}}]}"#;

/// More than two parts of 2 MiB, with characters of two bytes and what would colour a terminal. The last line
/// has no end.
fn text() -> String {
    let line = |number: u32| format!("line {number}: \u{1b}[31m{}", "é".repeat(40));
    let lines: Vec<_> = (1..=50_000).map(line).collect();
    lines.join("\n")
}

/// A site with a run in the session `s`, whose only call has this result.
fn site(text: &str) -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", PROGRAM);
    site.write("much.txt", text);
    site.write("plan.json", PLAN);
    let done = site.run(&["run", "--session", "s", "--plan", "plan.json"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    site
}

/// The handle of the result, as the log names it.
fn handle(site: &Site) -> String {
    let log = site.run(&["log", "s", "--json"]).out;
    let entries = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let mut calls = entries.filter(|entry| entry["tool"] == "much");
    let call = calls.next().expect("a call");
    let handle = call["whole"]["handle"].as_str().expect("a handle");
    handle.to_owned()
}

#[test]
fn the_whole_of_a_long_result_is_printed() {
    let text = text();
    let site = site(&text);
    let handle = handle(&site);
    let command = format!("cairn log s --result {handle}");
    let full = site.run(&["log", "s", "--full"]).out;
    assert!(full.contains(&command), "no command");
    assert!(!full.contains("line 50000:"), "all of it");

    for name in [handle.as_str(), "result-1"] {
        let done = site.run(&["log", "s", "--result", name]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(done.out == text, "{} bytes are others", done.out.len());
    }
    let done = site.run(&["log", "s", "--result", &handle, "--json"]);
    let shown: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(shown["whole"]["handle"], handle);
    assert_eq!(shown["whole"]["bytes"], text.len());
    assert!(shown["text"] == text, "another text");

    let done = site.run(&["log", "s", "--result", &handle, "--output", "all.txt"]);
    let expected = format!("wrote all.txt: {} bytes\n", text.len());
    assert_eq!((done.code, done.out), (Some(0), expected));
    assert!(site.read("all.txt") == Some(text), "another file");
}

#[test]
fn a_handle_that_is_unknown_is_refused_with_those_that_are_there() {
    let text = "line\n".repeat(10_000);
    let site = site(&text);
    let handle = handle(&site);
    let done = site.run(&["log", "s", "--result", "result-7"]);
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""));
    assert!(
        done.err.contains("result \"result-7\" does not exist"),
        "{}",
        done.err
    );
    let allowed = format!("--result is unknown, or a hook withheld its result (allowed: {handle})");
    assert!(done.err.contains(&allowed), "{}", done.err);
}
