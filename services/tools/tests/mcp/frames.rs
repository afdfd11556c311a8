//! Frames and lists that servers send, as two tables: `frames.json` and `lists.json`.
//!
//! An entry of `frames.json` has what comes back for one call, and what the call must come to. Its fields:
//!
//! - `source`: a public page that shows or describes it; empty where no page was found;
//! - `via`: over a pipe (`stdio`), as a JSON body (`json`) or as server-sent events (`sse`); all three by
//!   default;
//! - `frames`: lines, or the one body, or the data of events; `result` is short for one frame with that
//!   result. `<ID>` stands for the id of the call, `<GOOD>` for an answer with the text `good`, `<x0a>` for a
//!   byte, and `<200*[>` for a text 200 times;
//! - `status` and `content_type` of an HTTP answer; no header if `content_type` is empty;
//! - `expect`: the exact `text`, or a part of the error: `failed`, `invalid`, `unsent` (nothing was done),
//!   `unknown` (nobody knows), `unreadable` (carried out, without a readable result).
//!
//! An entry of `lists.json` has the `pages` of a list: each is a result, or a whole frame after `frame:`. A
//! cursor that is a number leads to that page, and any other one to the last. `expect` has the names of the
//! `tools` that are listed, and a part of each line about what is `left_out`.

use crate::fixture::{Mcp, config, folder};
use crate::http::{Process, of};
use cairn_tools::mcp::{Server, ServerConfig};
use cairn_tools::{Output, SourceState, ToolError};
use serde::Deserialize;
use serde_json::json;

/// Entries of `frames.json` that come over a pipe, as a JSON body and as events.
const FRAMES: [(&str, usize); 3] = [("stdio", 72), ("json", 90), ("sse", 69)];
/// Entries of `lists.json`.
const LISTS: usize = 33;
/// A call that takes longer has not ended at once.
const TIME_LIMIT_MS: u64 = 3_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Frames {
    pub(crate) name: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(default = "everywhere")]
    via: Vec<String>,
    #[serde(default)]
    frames: Vec<String>,
    result: Option<String>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    expect: Expected,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Text(String),
    Failed(String),
    Invalid(String),
    Unsent(String),
    Unknown(String),
    Unreadable(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    pages: Vec<String>,
    expect: ExpectedList,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedList {
    tools: Vec<String>,
    left_out: Vec<String>,
}

fn everywhere() -> Vec<String> {
    ["stdio", "json", "sse"].map(str::to_owned).to_vec()
}

fn ok() -> u16 {
    200
}

fn frames() -> Vec<Frames> {
    serde_json::from_str(include_str!("frames.json")).expect("a table of frames")
}

fn lists() -> Vec<List> {
    serde_json::from_str(include_str!("lists.json")).expect("a table of lists")
}

/// What the server sends for the call of an entry.
pub(crate) fn answer(name: &str, id: &str) -> Option<(Frames, Vec<Vec<u8>>)> {
    let entry = frames().into_iter().find(|entry| entry.name == name)?;
    let result = entry.result.as_ref().map(|result| response(result));
    let sent = result.iter().chain(&entry.frames);
    let sent = sent.map(|frame| expanded(frame, id)).collect();
    Some((entry, sent))
}

/// The page of a list that a cursor leads to.
pub(crate) fn page(name: &str, cursor: Option<&str>, id: &str) -> Option<Vec<u8>> {
    let list = lists().into_iter().find(|list| list.name == name)?;
    let at = match cursor.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(page)) => page,
        Some(Err(_)) => list.pages.len() - 1,
    };
    let page = list.pages.get(at).or(list.pages.last())?;
    let frame = match page.strip_prefix("frame:") {
        Some(frame) => frame.to_owned(),
        None => response(page),
    };
    Some(expanded(&frame, id))
}

fn response(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":<ID>,"result":{result}}}"#)
}

fn expanded(frame: &str, id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = frame;
    while let Some((before, after)) = rest.split_once('<') {
        bytes.extend_from_slice(before.as_bytes());
        let (word, after) = after.split_once('>').expect("a closed word");
        match word.split_once('*') {
            Some((times, text)) => {
                bytes.extend_from_slice(text.repeat(times.parse().unwrap()).as_bytes());
            }
            None if word == "ID" => bytes.extend_from_slice(id.as_bytes()),
            None if word == "GOOD" => {
                let good = response(r#"{"content":[{"type":"text","text":"good"}]}"#);
                bytes.extend(expanded(&good, id));
            }
            None => bytes.push(u8::from_str_radix(&word[1..], 16).unwrap()),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

impl Expected {
    fn holds(&self, result: &Result<Output, ToolError>) -> bool {
        match (self, result) {
            (Self::Text(text), Ok(output)) => output.text == *text,
            (Self::Failed(part), Err(ToolError::ExecutionFailed(message))) => {
                message.contains(part) && !message.contains("was carried out")
            }
            (Self::Unreadable(part), Err(ToolError::ExecutionFailed(message))) => {
                message.contains(part) && message.contains("was carried out")
            }
            (Self::Invalid(part), Err(ToolError::InvalidArguments(message)))
            | (Self::Unsent(part), Err(ToolError::Unreachable(message)))
            | (Self::Unknown(part), Err(ToolError::Unknown(message))) => message.contains(part),
            _ => false,
        }
    }
}

/// Calls each entry of the table that comes this way.
async fn differences(mcp: &Mcp, via: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let mut called = 0;
    for entry in frames() {
        if !entry.via.iter().any(|it| it == via) {
            continue;
        }
        called += 1;
        let outcome = mcp.call("frame", json!({"entry": entry.name})).await;
        if !entry.expect.holds(&outcome.result) {
            differences.push(format!(
                "{}: expected {:?}, got {:?}",
                entry.name, entry.expect, outcome.result
            ));
        }
    }
    assert!(FRAMES.contains(&(via, called)), "{via}: {called} entries");
    differences
}

fn limited(config: ServerConfig) -> Server {
    Server::of_operator(ServerConfig {
        time_limit_ms: TIME_LIMIT_MS,
        ..config
    })
}

#[tokio::test]
async fn each_frame_over_a_pipe_ends_its_call_at_once() {
    let folder = folder();
    let mcp = Mcp::with(&folder, limited(config(&folder, "legacy,frames")), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let differences = differences(&mcp, "stdio").await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(mcp.count("start"), 1, "the connection lives");
}

#[tokio::test]
async fn each_frame_over_http_ends_its_call_at_once() {
    for (via, modes) in [("json", "legacy,frames"), ("sse", "legacy,frames,sse")] {
        let folder = folder();
        let process = Process::start(&folder, modes, None);
        let mcp = Mcp::with(&folder, limited(of(&process.1)), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        let differences = differences(&mcp, via).await;
        assert!(differences.is_empty(), "{via}: {}", differences.join("\n"));
    }
}

/// The names of the tools that are listed, and the lines about what is left out.
async fn listed(mcp: &Mcp) -> (Vec<String>, Vec<String>) {
    let listing = mcp.until(|it| it.state != SourceState::Starting).await;
    let names = listing.tools.iter().map(|it| it.tool.spec().name.clone());
    let names = names.map(|name| name.trim_start_matches("t__").to_owned());
    (names.collect(), listing.left_out.clone())
}

impl List {
    fn difference(&self, (tools, left_out): &(Vec<String>, Vec<String>)) -> Option<String> {
        let expected = &self.expect;
        let lines = left_out.iter().zip(&expected.left_out);
        let is_same = expected.tools == *tools
            && expected.left_out.len() == left_out.len()
            && lines.into_iter().all(|(line, part)| line.contains(part));
        (!is_same).then(|| {
            format!(
                "{}: expected {expected:?}, got {tools:?} {left_out:?}",
                self.name
            )
        })
    }
}

#[tokio::test]
async fn of_each_list_the_readable_part_is_kept() {
    let mut differences = Vec::new();
    let lists = lists();
    assert_eq!(lists.len(), LISTS);
    for list in lists {
        let folder = folder();
        let mode = format!("legacy,list:{}", list.name);
        let piped = Mcp::with(&folder, limited(config(&folder, &mode)), None);
        differences.extend(list.difference(&listed(&piped).await));
        let process = Process::start(&folder, &mode, None);
        let remote = Mcp::with(&folder, limited(of(&process.1)), None);
        differences.extend(list.difference(&listed(&remote).await));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
