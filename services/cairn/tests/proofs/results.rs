//! Results of any size: they are kept whole, models read them in pieces, and no process holds more than a few
//! parts of one.
//!
//! The five services run as processes. A program and a server of the Model Context Protocol give a result, and
//! the model reads its last lines. Memory is printed at its peak.
//!
//! A result has up to 60 MiB in the long form, `deploy/prove results`. Tools hold a result whole, a server's a few
//! times while its message is read. Executor and orchestrator hold parts of 2 MiB.

use crate::support::CAIRN;
use cairn_testkit::{Cluster, Output, Site};
use clap::Args;
use serde_json::{Value, json};

/// What the executor and the orchestrator may take more than before the first result, at their peaks.
const MOST_GROWTH_KIB: u64 = 48 * 1024;
const MIB: usize = 1024 * 1024;
/// The processes that a result passes.
const PASSED: [&str; 4] = ["tools", "executor", "orchestrator", "memory"];

/// Answers each request with what the file `long.json` has, which is the result of a call.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
  *'"method":"server/discover"'*)
    answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}' ;;
  *'"method":"tools/list"'*)
    answer '{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[{"name":"long","description":"Says much.","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"tools/call"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; cat long.json; printf '}\n' ;;
  *) [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}\n' "$id" ;;
  esac
done
"#;

/// A program and a server with a tool each, which print what a file has.
pub(crate) const SETTINGS: &str = r#"
[[tools.commands]]
name = "much"
description = "Prints much."
argv = ["cat", "much.txt"]
effect = "pure"

[[tools.rules]]
tool = "ops__*"
answer = "allow"

[mcp.servers.ops]
command = "sh"
args = ["long.sh"]
protocol = "2026-07-28"
message_bytes = 67108864
effects = { long = "pure" }
"#;

/// Which results are given. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Sizes of the results
    #[arg(
        long,
        value_name = "MIB",
        value_delimiter = ',',
        default_value = "1,5,60"
    )]
    pub(crate) sizes: Vec<usize>,
}

/// Numbered lines of about so many bytes.
pub(crate) fn lines(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 128);
    let mut number = 0;
    while text.len() < bytes {
        number += 1;
        text.push_str(&format!("line {number}: {}\n", "x".repeat(80)));
    }
    text
}

/// Lets the tools of [`SETTINGS`] give these texts.
pub(crate) fn give(site: &Site, of_program: &str, of_server: &str) {
    site.write("long.sh", SERVER);
    site.write("much.txt", of_program);
    let content = json!([{"type": "text", "text": of_server}]);
    let result = json!({"resultType": "complete", "content": content});
    site.write("long.json", &result.to_string());
}

#[test]
fn a_long_result_leaves_executor_and_orchestrator_small() {
    let findings = one("much", 20);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Gives results of each size from a program and from a server, and panics if one does not arrive or a process
/// takes too much memory.
pub(crate) fn prove(options: &Options) {
    let mut findings = Vec::new();
    for size in &options.sizes {
        for tool in ["much", "ops__long"] {
            findings.extend(one(tool, *size));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    println!(
        "every result arrived whole, and no process held more than a few parts of it but tools"
    );
}

/// One result in processes of its own, whose peaks are printed. What is wrong is returned.
fn one(tool: &str, size: usize) -> Vec<String> {
    let site = site();
    let text = lines(size * MIB);
    let (of_program, of_server) = match tool {
        "much" => (text.as_str(), "nothing"),
        _ => ("nothing", text.as_str()),
    };
    give(&site, of_program, of_server);
    let last = text.lines().count();
    site.write("played.jsonl", &played(tool, last));
    let cluster = Cluster::start(&site, &[]);
    let processes = PASSED.map(|name| (name, cluster.process_id(name).expect("a process")));
    let before = processes.map(|(_, process)| super::kib(process, "VmHWM"));
    let url = cluster.url();
    let run = [
        "run",
        "--server",
        &url,
        "--model",
        "played",
        "--session",
        "s",
        "Read it all.",
    ];
    let done = site.run(&run);
    let mut findings: Vec<String> = check(&site, &url, &done, &text).into_iter().collect();
    let peaks = processes.map(|(name, process)| (name, super::kib(process, "VmHWM")));
    let shown = peaks.map(|(name, peak)| format!("{name} {} MiB", peak / 1024));
    println!(
        "{size:>3} MiB of {tool:<9} at its peak: {}",
        shown.join(", ")
    );
    for ((name, peak), before) in peaks.into_iter().zip(before) {
        let may_grow = !["executor", "orchestrator"].contains(&name);
        if !may_grow && peak > before + MOST_GROWTH_KIB {
            findings.push(format!(
                "{size} MiB of {tool}: {name} grew to {peak} KiB from {before}"
            ));
        }
    }
    findings
}

fn site() -> Site {
    let site = Site::new(CAIRN);
    let model = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";
    site.append("cairn.toml", &format!("{SETTINGS}{model}"));
    site
}

/// A model that has the tool called, and reads the last lines of what it gave.
fn played(tool: &str, last: usize) -> String {
    let read = json!({"handle": "result-1", "from_line": last - 1});
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let end = json!({"complete": true, "summary": "Read."});
    let plan = json!({"steps": [{"title": "First", "description": "Read."}]}).to_string();
    let lines = [
        json!({"match": {"contains": "Read it all"}, "reply": {"text": plan}}),
        json!({"match": {"step": "First"}, "replies": [
            call(tool, json!({})), call("read_result", read), call("step", end),
        ]}),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}

/// What is wrong with the run and its journal.
fn check(site: &Site, url: &str, done: &Output, text: &str) -> Option<String> {
    if done.code != Some(0) {
        return Some(format!("the run fails: {done:?}"));
    }
    let exported = site.run(&["export", "s", "--server", url]);
    let journal = cairn_testkit::Journal::read(&exported.out);
    let finished = journal.of_kind("call_finished");
    let whole = &finished[0]["whole"];
    let is_whole = whole["bytes"] == text.len() && whole["lost_bytes"] == 0;
    let blobs = finished[0]["blobs"].as_array().map_or(0, Vec::len);
    let is_divided = blobs == text.len().div_ceil(2 * MIB);
    let last = text.lines().next_back().unwrap_or_default();
    let read = finished[1]["output"].as_str().unwrap_or_default();
    let is_read = read.ends_with(last);
    (!is_whole || !is_divided || !is_read).then(|| {
        format!(
            "{whole} in {blobs} blobs of {} bytes; it reads {read}",
            text.len()
        )
    })
}
