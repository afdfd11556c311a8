//! A model that looks for something in each turn, and answers. It speaks both protocols.

use super::Dialect;
use super::cache::{Cache, Counted};
use crate::support::tokenizer::tokens;
use cairn_testkit::ModelServer;
use cairn_testkit::model_server::{Answer, anthropic_reply, reply};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Lines of the file for each turn.
const LINES: usize = 14;
/// Words of the built-in prompt for summaries.
const OF_PROMPT: &str = "\n## Decisions\n";
const CALL: &str = "I look for it in the file.";
const TOOL: &str = "search_files";
/// Tokens of a call, about.
const CALL_TOKENS: u64 = 40;

/// What a person asks in a turn.
pub(crate) fn question(turn: usize) -> String {
    format!(
        "Question {turn:03}: what does part {turn:03} say of the bridge? Say it in a few sentences, with the \
         weight that it carries, and with the season in which its piers were looked at."
    )
}

/// What the model answers in each turn.
pub(crate) fn answer() -> String {
    ["The bridge carries ten tonnes. Its piers stand on piles of oak, and were looked at in spring."; 6]
        .join(" ")
}

fn summary() -> String {
    ["The person asks what each part says. So far each says that the bridge carries ten tonnes.";
        12]
        .join(" ")
}

/// The file that the model looks into.
pub(crate) fn parts(turns: usize) -> String {
    let lines = (0..turns).flat_map(|turn| {
        (0..LINES).map(move |line| {
            format!(
                "part {turn:03}, line {line:02}: the bridge carries ten tonnes, and its piers were looked at in \
                 spring\n"
            )
        })
    });
    lines.collect()
}

/// What the model does next.
enum Next {
    /// A person asks this question.
    Look(String),
    Answer,
    Summarise,
}

/// The server, and what it has counted of each request.
pub(crate) fn start(dialect: Dialect) -> (ModelServer, Arc<Mutex<Vec<Counted>>>) {
    let counted: Arc<Mutex<Vec<Counted>>> = Arc::default();
    let noted = Arc::clone(&counted);
    let cache = Mutex::new(Cache::default());
    let server = ModelServer::start(move |body| {
        let mut counted = cache.lock().expect("no panic").count(dialect, body);
        let (text, call) = match next(body) {
            Next::Look(part) => (CALL.to_owned(), Some(part)),
            Next::Answer => (answer(), None),
            Next::Summarise => (summary(), None),
        };
        counted.replied = tokens(&text) + call.as_ref().map_or(0, |_| CALL_TOKENS);
        noted.lock().expect("no panic").push(counted);
        match dialect {
            Dialect::Anthropic => with_blocks(&text, call.as_deref(), counted),
            Dialect::OpenAi => with_choices(&text, call.as_deref(), counted),
        }
    });
    (server, counted)
}

fn arguments(part: &str) -> Value {
    json!({"path": "parts.txt", "pattern": format!("part {part}")})
}

fn with_blocks(text: &str, call: Option<&str>, counted: Counted) -> Answer {
    let mut content = vec![json!({"type": "text", "text": text})];
    content.extend(call.map(|part| {
        let id = format!("toolu_{part}");
        json!({"type": "tool_use", "id": id, "name": TOOL, "input": arguments(part)})
    }));
    let usage = json!({
        "input_tokens": counted.tokens - counted.read - counted.written,
        "cache_read_input_tokens": counted.read,
        "cache_creation_input_tokens": counted.written,
        "output_tokens": counted.replied,
    });
    anthropic_reply(&content, &usage)
}

fn with_choices(text: &str, call: Option<&str>, counted: Counted) -> Answer {
    let answer = match call {
        Some(part) => reply(&format!("call-{part}"), text, &[(TOOL, arguments(part))]),
        None => reply("end", text, &[]),
    };
    let Answer::Whole(status, body) = answer else {
        unreachable!("a reply is whole");
    };
    let mut body: Value = serde_json::from_str(&body).expect("JSON");
    body["usage"] = json!({
        "prompt_tokens": counted.tokens,
        "completion_tokens": counted.replied,
        "prompt_tokens_details": {"cached_tokens": counted.read},
    });
    Answer::Whole(status, body.to_string())
}

/// By the newest message: a question that has no reply yet, the results of calls, or the prompt for a summary.
fn next(body: &Value) -> Next {
    let messages = body["messages"].as_array();
    let messages = messages.map(Vec::as_slice).unwrap_or_default();
    let newest_first = messages.iter().rev();
    let newest = newest_first.take_while(|message| message["role"] != "assistant");
    let texts: Vec<&str> = newest.flat_map(texts).collect();
    if texts.iter().any(|text| text.contains(OF_PROMPT)) {
        return Next::Summarise;
    }
    let asked = texts.iter().find_map(|text| text.strip_prefix("Question "));
    let part = asked.and_then(|text| text.get(..3));
    part.map_or(Next::Answer, |part| Next::Look(part.to_owned()))
}

/// The texts of a message, in either protocol.
fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect()
        }
        content => content.as_str().into_iter().collect(),
    }
}
