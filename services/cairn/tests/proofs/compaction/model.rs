//! The model of a long conversation. It looks for one part of a file in each tool turn, and its summaries have
//! the facts that it is shown, and nothing else.

use super::{Case, Kind};
use crate::support::served::done;
use crate::support::tokenizer::{counted, tokens_of};
use cairn_testkit::ModelServer;
use cairn_testkit::model_server::{Answer, Asked, reply};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The last reply.
pub(crate) const END: &str = "Piles carry the bridge.";
/// The part that has a fact.
const WITH_FACT: usize = 3;
const FACT: &str = "FACT 3: the pier stands on 14 piles";
/// Headings of the built-in prompt for summaries.
const OF_PROMPT: [&str; 2] = ["\n## Asked\n", "\n## Decisions\n"];
/// Lines of a part after its first.
const MORE_LINES: usize = 4;

/// What the model was sent.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) requests: Vec<Request>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) tokens: u64,
    /// The part that the model looks at next.
    pub(crate) part: usize,
    pub(crate) is_for_summary: bool,
    pub(crate) has_fact: bool,
    /// The system prompt and the message after it.
    pub(crate) fixed: Vec<Value>,
    /// Role and text of each message after the system prompt.
    pub(crate) said: Vec<(String, String)>,
    /// The last text, if it asks for a summary.
    pub(crate) prompt: Option<String>,
}

impl Request {
    fn read(asked: &Asked) -> Self {
        let messages = asked.body["messages"].as_array();
        let messages = messages.map(Vec::as_slice).unwrap_or_default();
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let said = messages.iter().skip(1);
        let said: Vec<_> = said
            .map(|it| (text(&it["role"]), text(&it["content"])))
            .collect();
        let is_prompt = |(role, text): &&(String, String)| {
            role == "user" && OF_PROMPT.iter().all(|part| text.contains(part))
        };
        let prompt = said.last().filter(is_prompt).map(|(_, text)| text.clone());
        Self {
            tokens: tokens_of(&asked.body),
            part: next_part(messages),
            is_for_summary: prompt.is_some(),
            has_fact: asked.text.contains(FACT),
            fixed: messages.iter().take(2).cloned().collect(),
            said,
            prompt,
        }
    }

    /// The facts in its messages, each once.
    fn facts(&self) -> Vec<&str> {
        let lines = self.said.iter().flat_map(|(_, text)| text.lines());
        let facts = lines.filter_map(|line| line.find("FACT ").map(|at| &line[at..]));
        let mut facts: Vec<&str> = facts.collect();
        facts.sort_unstable();
        facts.dedup();
        facts
    }
}

/// By the newest call: the newest tool turn is in every request.
fn next_part(messages: &[Value]) -> usize {
    let mut newest_first = messages.iter().rev();
    let newest = newest_first.find_map(|it| it["tool_calls"][0]["id"].as_str());
    let part = newest.and_then(|id| id.strip_prefix("part-")?.split('-').next());
    part.and_then(|part| part.parse::<usize>().ok())
        .map_or(0, |part| part + 1)
}

/// The file that the model looks at.
pub(crate) fn parts(turns: usize) -> String {
    let part = |part: usize| {
        let more = (0..MORE_LINES).map(|line| {
            format!(
                "part {part:03}, line {line}: the bridge carries ten tonnes, and its piers were looked at in \
                 spring.\n"
            )
        });
        first_line(part) + "\n" + &more.collect::<String>()
    };
    (0..turns).map(part).collect()
}

/// The line of a part that a history view shows.
pub(crate) fn first_line(part: usize) -> String {
    match part {
        WITH_FACT => format!("{FACT}, as part {part:03} says."),
        _ => format!("Here begins part {part:03}."),
    }
}

/// What the model says before it looks at a part.
pub(crate) fn looks_at(part: usize) -> String {
    format!("I look at part {part:03}.")
}

/// A model's server for this conversation, and what it was sent.
pub(crate) fn start(case: Case) -> (ModelServer, Arc<Mutex<Played>>) {
    let played = Arc::new(Mutex::new(Played::default()));
    let noted = Arc::clone(&played);
    let server = ModelServer::seeing(move |asked| {
        let request = Request::read(asked);
        let tokens = case.tells_tokens.then_some(request.tokens);
        let answer = counted(answer(&request, case), tokens);
        noted.lock().expect("no panic").requests.push(request);
        answer
    });
    (server, played)
}

fn answer(request: &Request, case: Case) -> Answer {
    let part = request.part;
    if request.is_for_summary {
        let facts = request.facts().join("\n");
        let text = match facts.as_str() {
            "" => "There is no fact.",
            facts => facts,
        };
        return reply("none", text, &[]);
    }
    if part < case.turns {
        let pattern = json!({"path": "parts.txt", "pattern": format!("part {part:03}")});
        let call = ("search_files", pattern);
        return reply(&format!("part-{part:03}"), &looks_at(part), &[call]);
    }
    match case.kind {
        Kind::Step => done(END),
        Kind::Turn => reply("end", END, &[]),
    }
}
