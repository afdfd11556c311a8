//! The conversations that are too long, and their models.

use cairn_proto::event::FullCause;
use cairn_testkit::ModelServer;
use cairn_testkit::model_server::{Answer, reply};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the model says to a short turn.
pub(crate) const FINE: &str = "Fine.";
const END: &str = "It carries ten tonnes.";
/// A prompt that a person gives.
const OWN_PROMPT: &str = "Say it in one line.";
/// Tool turns of a model that calls again and again.
const SOME_TURNS: usize = 4;

/// A conversation, and what becomes of it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Tokens of the window.
    pub(crate) window: u32,
    /// Questions with their answers in the context before.
    pub(crate) older: usize,
    pub(crate) begin: Begin,
    plays: fn(&Asked) -> Answer,
    pub(crate) waits: Waits,
    /// What is decided if it waits.
    pub(crate) decision: Decision,
    pub(crate) least_compactions: usize,
}

/// What works in the conversation.
pub(crate) enum Begin {
    /// With these tools and `read_result`.
    Turn { tools: &'static [&'static str] },
    /// A turn without tools that is not to be compacted.
    RefusingTurn,
    /// A step of a plan.
    Step,
}

/// Whether a person is asked.
pub(crate) enum Waits {
    No,
    For(FullCause),
    Maybe,
}

/// What a person decides.
pub(crate) enum Decision {
    Retry,
    Answer(&'static str),
    Fail,
}

/// What the model is asked.
struct Asked {
    /// How often a summary was asked for before; none if none is asked for now.
    for_summary: Option<usize>,
    /// The last message is a person's own prompt for a summary.
    has_own_prompt: bool,
    /// Replies with a call so far, by the newest one.
    turn: usize,
    /// All texts but the system prompt and the last one.
    texts: String,
}

pub(crate) static ROWS: [Row; 8] = [
    Row {
        name: "a summary is longer than what it replaces",
        window: 4_000,
        older: 30,
        begin: Begin::Turn { tools: &[] },
        plays: |asked| match asked.for_summary {
            Some(0) => reply("long", &"They said so, and so. ".repeat(1_000), &[]),
            _ => reply("end", END, &[]),
        },
        waits: Waits::For(FullCause::DoesNotShrink),
        decision: Decision::Retry,
        least_compactions: 1,
    },
    Row {
        name: "the model writes no summary but to a person's prompt",
        window: 4_000,
        older: 30,
        begin: Begin::Turn { tools: &[] },
        plays: |asked| match asked.for_summary {
            Some(_) if !asked.has_own_prompt => refuses(),
            _ => reply("end", END, &[]),
        },
        waits: Waits::For(FullCause::NoSummary),
        decision: Decision::Answer(OWN_PROMPT),
        least_compactions: 1,
    },
    Row {
        name: "each summary is nearly as long as what it replaces",
        window: 4_000,
        older: 20,
        begin: Begin::Turn {
            tools: &["list_files"],
        },
        plays: |asked| match (asked.for_summary, asked.turn) {
            (Some(_), _) => reply("most", most_of(&asked.texts), &[]),
            (None, turn) if turn < SOME_TURNS => lists(turn, "I look once more."),
            _ => reply("end", END, &[]),
        },
        waits: Waits::Maybe,
        decision: Decision::Fail,
        least_compactions: 1,
    },
    Row {
        name: "a reply is larger than the window",
        window: 4_000,
        older: 0,
        begin: Begin::Turn {
            tools: &["list_files"],
        },
        plays: |asked| match asked.turn {
            0 => lists(0, &"I think of ten tonnes. ".repeat(1_200)),
            _ => reply("end", END, &[]),
        },
        waits: Waits::For(FullCause::NothingToCompact),
        decision: Decision::Fail,
        least_compactions: 0,
    },
    Row {
        name: "a result is larger than the window",
        window: 4_000,
        older: 0,
        begin: Begin::Turn {
            tools: &["read_file"],
        },
        plays: |asked| match asked.turn {
            0 => calls(0, "I read.", "read_file", "docs/large.md"),
            _ => reply("end", END, &[]),
        },
        waits: Waits::No,
        decision: Decision::Fail,
        least_compactions: 0,
    },
    Row {
        name: "a conversation in a window of 2,000 tokens",
        window: 2_000,
        older: 10,
        begin: Begin::Turn { tools: &[] },
        plays: |_| reply("end", END, &[]),
        waits: Waits::No,
        decision: Decision::Fail,
        least_compactions: 1,
    },
    Row {
        name: "a step whose prompt has more than its window of 2,000 tokens",
        window: 2_000,
        older: 0,
        begin: Begin::Step,
        plays: |_| reply("end", END, &[]),
        waits: Waits::For(FullCause::NothingToCompact),
        decision: Decision::Fail,
        least_compactions: 0,
    },
    Row {
        name: "a turn that is not to be compacted",
        window: 4_000,
        older: 34,
        begin: Begin::RefusingTurn,
        plays: |_| reply("end", END, &[]),
        waits: Waits::No,
        decision: Decision::Fail,
        // The turn after it is compacted.
        least_compactions: 1,
    },
];

/// A file that the model gets the beginning of.
pub(crate) fn large_file() -> String {
    "The bridge carries ten tonnes, and its piers were looked at in spring.\n".repeat(400)
}

/// Nearly all of a text.
fn most_of(texts: &str) -> &str {
    let end = texts.len() * 95 / 100;
    let end = (0..=end).rev().find(|end| texts.is_char_boundary(*end));
    &texts[..end.unwrap_or_default()]
}

fn refuses() -> Answer {
    Answer::Whole(400, json!({"error": {"message": "no"}}).to_string())
}

fn lists(turn: usize, text: &str) -> Answer {
    calls(turn, text, "list_files", "docs")
}

fn calls(turn: usize, text: &str, tool: &str, path: &str) -> Answer {
    reply(
        &format!("turn-{turn}"),
        text,
        &[(tool, json!({"path": path}))],
    )
}

/// The server of a row's model.
pub(crate) fn model(row: &'static Row) -> ModelServer {
    let asked_for = AtomicUsize::new(0);
    ModelServer::start(move |body| {
        let messages = body["messages"].as_array();
        let messages = messages.map(Vec::as_slice).unwrap_or_default();
        let mut texts: Vec<&str> = messages.iter().skip(1).map(text).collect();
        let last = texts.pop().unwrap_or_default();
        let has_own_prompt = last == OWN_PROMPT;
        let asks_for_summary = has_own_prompt || last.contains("## Decisions");
        let asked = Asked {
            for_summary: asks_for_summary.then(|| asked_for.fetch_add(1, Ordering::SeqCst)),
            has_own_prompt,
            turn: turn(messages),
            texts: texts.join("\n"),
        };
        let answer = match last.starts_with("Short.") {
            true => reply("fine", FINE, &[]),
            false => (row.plays)(&asked),
        };
        counted(answer, body)
    })
}

/// A token for four bytes of the request.
fn counted(answer: Answer, request: &Value) -> Answer {
    let Answer::Whole(200, body) = &answer else {
        return answer;
    };
    let mut body: Value = serde_json::from_str(body).expect("JSON");
    let tokens = request.to_string().len() / 4;
    body["usage"] = json!({"prompt_tokens": tokens, "completion_tokens": 20});
    Answer::Whole(200, body.to_string())
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

fn turn(messages: &[Value]) -> usize {
    let mut newest_first = messages.iter().rev();
    let call = newest_first.find_map(|it| it["tool_calls"][0]["id"].as_str());
    let turn = call.and_then(|id| id.strip_prefix("turn-")?.split('-').next()?.parse().ok());
    turn.map_or(0, |turn: usize| turn + 1)
}
