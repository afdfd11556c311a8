//! What a step has asked for so far, and what came back.
//!
//! A step is written as one straight function that [`Desk::ask`]s for what it needs. The function
//! runs anew for every reply: what has been answered already is taken from the messages, and the
//! first question without an answer is the reply. So nothing is kept between calls, and an attempt
//! that is continued from any point continues to the same end.

use crate::OfferedTool;
use cairn_engine::message::{Message, Role, ToolCall, ToolResult};
use serde_json::{Value, json};

/// A tool call that a step needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) arguments: Value,
}

/// A tool's result, or the text of its error.
pub(super) type Answer = Result<String, String>;

/// A reply to be sent: a thought, and the calls that go with it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// How a step ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What later steps and people see of it.
    pub(super) summary: String,
    /// What later steps need in detail; may be empty.
    pub(super) notes: String,
}

impl From<String> for Outcome {
    fn from(summary: String) -> Self {
        Self {
            summary,
            notes: String::new(),
        }
    }
}

/// The answers that the messages hold.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    answered: Vec<(&'a str, Value, Answer)>,
    tools: &'a [OfferedTool],
    turn: usize,
}

impl<'a> Desk<'a> {
    /// Gathers the calls in `messages`, those after the step context, with their results.
    pub(super) fn new(messages: &'a [Message], tools: &'a [OfferedTool]) -> Self {
        let mut answered = Vec::new();
        let mut turn = 0;
        for (at, message) in messages.iter().enumerate() {
            if message.role != Role::Assistant {
                continue;
            }
            turn += 1;
            for call in message.calls() {
                let result = messages[at + 1..]
                    .iter()
                    .take_while(|m| m.role != Role::Assistant)
                    .flat_map(Message::results)
                    .find(|result| result.call_id == call.id);
                let arguments = serde_json::from_str(&call.arguments);
                if let (Some(result), Ok(arguments)) = (result, arguments) {
                    answered.push((call.name.as_str(), arguments, answer(result)));
                }
            }
        }
        Self {
            answered,
            tools,
            turn,
        }
    }

    /// The answers to `calls`, in their order; or the reply that asks for those not answered yet.
    pub(super) fn ask(&self, thought: &str, calls: Vec<Call>) -> Result<Vec<Answer>, Reply> {
        let answers: Vec<Option<Answer>> = calls.iter().map(|call| self.answer_to(call)).collect();
        let missing = calls.into_iter().zip(&answers);
        let missing: Vec<Call> = missing
            .filter(|(_, answer)| answer.is_none())
            .map(|(call, _)| call)
            .collect();
        if missing.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        Err(Reply {
            text: thought.to_owned(),
            calls: missing,
        })
    }

    /// The answer to one call.
    pub(super) fn ask_one(&self, thought: &str, call: Call) -> Result<Answer, Reply> {
        let mut answers = self.ask(thought, vec![call])?;
        Ok(answers.pop().unwrap_or_else(|| Err("no answer".into())))
    }

    fn answer_to(&self, call: &Call) -> Option<Answer> {
        if !self.offers(call.name) {
            return Some(Err(format!("the tool {} is not offered here", call.name)));
        }
        let mut answers = self.answered.iter().rev();
        answers
            .find(|(name, arguments, _)| *name == call.name && *arguments == call.arguments)
            .map(|(_, _, answer)| answer.clone())
    }

    fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// `wanted`, or less where the tool's schema allows less.
    fn limit(&self, tool: &str, wanted: u64) -> u64 {
        let offered = self.tools.iter().find(|offered| offered.name == tool);
        let maximum = offered
            .and_then(|offered| offered.parameters.pointer("/properties/max/maximum"))
            .and_then(Value::as_u64);
        maximum.map_or(wanted, |maximum| maximum.min(wanted))
    }

    /// Lists the files below `path`.
    pub(super) fn list_files(&self, path: &str) -> Call {
        Call {
            name: "list_files",
            arguments: json!({"path": path, "max": self.limit("list_files", 5_000)}),
        }
    }

    /// Searches the files below `path` for `term`, as it is written, in any case.
    pub(super) fn search_files(&self, term: &str, path: &str) -> Call {
        let max = self.limit("search_files", 1_000);
        Call {
            name: "search_files",
            arguments: json!({
                "pattern": term, "path": path, "regex": false, "ignore_case": true, "max": max
            }),
        }
    }

    /// The reply that ends the step. It is given as often as it is asked for: whoever asks again
    /// has not taken the end yet.
    pub(super) fn finish(&self, outcome: &Outcome) -> Reply {
        let mut calls = vec![step(json!({"complete": true, "summary": outcome.summary}))];
        let notes = scratchpad(&outcome.notes);
        if !outcome.notes.is_empty() && self.answer_to(&notes).is_none() {
            calls.insert(0, notes);
        }
        let text = if calls.len() > 1 {
            "noting what was found"
        } else {
            ""
        };
        Reply {
            text: text.to_owned(),
            calls,
        }
    }

    /// The message that a reply becomes; its call ids are new in this attempt.
    pub(super) fn message(&self, reply: Reply) -> Message {
        let calls = reply.calls.into_iter().enumerate();
        let calls = calls.map(|(index, call)| ToolCall {
            id: format!("offline_{}_{index}", self.turn),
            name: call.name.to_owned(),
            arguments: call.arguments.to_string(),
        });
        Message::assistant(reply.text, calls.collect())
    }
}

/// Reads lines `from` to `to` of a file, both included.
pub(super) fn read_file(path: &str, from: u64, to: u64) -> Call {
    Call {
        name: "read_file",
        arguments: json!({"path": path, "from_line": from, "to_line": to}),
    }
}

/// Writes a file below `cairn-out/`.
pub(super) fn write_file(path: &str, content: &str) -> Call {
    Call {
        name: "write_file",
        arguments: json!({"path": path, "content": content}),
    }
}

/// Keeps notes for later steps, in place of what an earlier attempt at this step may have noted.
fn scratchpad(text: &str) -> Call {
    Call {
        name: "scratchpad",
        arguments: json!({"text": text, "mode": "replace"}),
    }
}

/// Calls the `step` tool.
pub(super) fn step(arguments: Value) -> Call {
    Call {
        name: "step",
        arguments,
    }
}

fn answer(result: &ToolResult) -> Answer {
    if result.is_error {
        Err(result.text.clone())
    } else {
        Ok(result.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<OfferedTool> {
        vec![OfferedTool {
            name: "list_files".into(),
            description: String::new(),
            parameters: json!({"properties": {"max": {"maximum": 100}}}),
        }]
    }

    fn id_of(message: &Message) -> String {
        message.calls().next().expect("a call").id.clone()
    }

    #[test]
    fn only_what_is_unanswered_is_asked() {
        let tools = tools();
        let empty = Desk::new(&[], &tools);
        let calls = vec![empty.list_files("a"), empty.list_files("b")];
        let first = empty.ask("both", calls.clone()).unwrap_err();
        assert_eq!(first.calls, calls);
        let mut messages = vec![empty.message(first)];
        let id = id_of(&messages[0]);
        messages.push(Message::tool(id, "no such folder", true));
        let second = Desk::new(&messages, &tools)
            .ask("both", calls.clone())
            .unwrap_err();
        assert_eq!(second.calls, calls[1..]);
        messages.push(Desk::new(&messages, &tools).message(second));
        let id = id_of(&messages[2]);
        assert_ne!(id, id_of(&messages[0]));
        messages.push(Message::tool(id, "fine", false));
        let answers = Desk::new(&messages, &tools).ask("both", calls).unwrap();
        assert_eq!(answers, [Err("no such folder".into()), Ok("fine".into())]);
    }

    #[test]
    fn a_tool_that_is_not_offered_is_never_called() {
        let answer = Desk::new(&[], &tools())
            .ask_one("", scratchpad("x"))
            .unwrap();
        assert_eq!(
            answer,
            Err("the tool scratchpad is not offered here".into())
        );
    }

    #[test]
    fn a_limit_follows_the_schema() {
        let tools = tools();
        assert_eq!(Desk::new(&[], &tools).list_files(".").arguments["max"], 100);
    }
}
