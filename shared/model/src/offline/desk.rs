//! The calls that were made so far, and their results.
//!
//! A step is one straight function that asks the [`Desk`] for what it needs. The function runs again
//! for each reply. Results in the messages are used, and the first question without a result becomes
//! the reply. So nothing is kept between requests.

use crate::OfferedTool;
use cairn_engine::message::{Message, Role, ToolCall};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool and its arguments.
pub(super) type Call = (&'static str, Value);

/// A result, or the text of an error.
pub(super) type Answer = Result<String, String>;

/// A thought, and the calls that go with it.
pub(super) type Reply = (String, Vec<Call>);

/// What was found: sentences for people and later steps, and Markdown with the details.
pub(super) struct Found {
    pub(super) summary: String,
    pub(super) notes: String,
}

pub(super) struct Desk<'a> {
    answered: Vec<(&'a str, Value, Answer)>,
    tools: &'a [OfferedTool],
    /// Replies before this one, for the ids of calls.
    turn: usize,
}

impl<'a> Desk<'a> {
    /// Collects the calls after the message at `start`.
    pub(super) fn new(
        messages: &'a [Arc<Message>],
        start: usize,
        tools: &'a [OfferedTool],
    ) -> Self {
        let since = messages.get(start..).unwrap_or_default();
        let answered = |call: &'a ToolCall| {
            let mut results = since.iter().flat_map(|message| message.results());
            let result = results.find(|result| result.call_id == call.id)?;
            let text = result.text.clone();
            let answer = if result.is_error { Err(text) } else { Ok(text) };
            let arguments = serde_json::from_str(&call.arguments).ok()?;
            Some((call.name.as_str(), arguments, answer))
        };
        let replies = messages.iter().filter(|it| it.role == Role::Assistant);
        let calls = since.iter().flat_map(|message| message.calls());
        Self {
            answered: calls.filter_map(answered).collect(),
            tools,
            turn: replies.count(),
        }
    }

    pub(super) fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// The answers to `calls` in their order, or the reply that makes those without an answer.
    pub(super) fn ask(&self, thought: &str, calls: Vec<Call>) -> Result<Vec<Answer>, Reply> {
        let answers: Vec<_> = calls.iter().map(|call| self.answer_to(call)).collect();
        let missing = calls.into_iter().zip(&answers);
        let missing = missing.filter(|(_, answer)| answer.is_none());
        let missing: Vec<Call> = missing.map(|(call, _)| call).collect();
        match missing.is_empty() {
            true => Ok(answers.into_iter().flatten().collect()),
            false => Err((thought.to_owned(), missing)),
        }
    }

    /// The answer to one call.
    pub(super) fn ask_one(&self, thought: &str, call: Call) -> Result<Answer, Reply> {
        let mut answers = self.ask(thought, vec![call])?;
        Ok(answers.pop().unwrap_or_else(|| Err("no answer".to_owned())))
    }

    fn answer_to(&self, (name, arguments): &Call) -> Option<Answer> {
        if !self.offers(name) {
            return Some(Err(format!("the tool {name} is not offered here")));
        }
        let mut newest = self.answered.iter().rev();
        let found = newest.find(|(other, given, _)| other == name && given == arguments);
        found.map(|(_, _, answer)| answer.clone())
    }

    /// The reply that ends the step. If the end was refused, it is given again.
    pub(super) fn finish(&self, Found { summary, notes }: &Found) -> Reply {
        // A step that is done again begins with new notes.
        let noting = ("scratchpad", json!({"text": notes, "mode": "replace"}));
        let is_noted = notes.is_empty() || self.answer_to(&noting).is_some();
        let mut calls = vec![
            noting,
            ("step", json!({"complete": true, "summary": summary})),
        ];
        calls.drain(..usize::from(is_noted));
        (String::new(), calls)
    }

    /// The message that a reply becomes. The ids of its calls are new in the conversation.
    pub(super) fn message(&self, (thought, calls): Reply) -> Message {
        let calls = calls.into_iter().enumerate();
        let calls = calls.map(|(index, (name, arguments))| ToolCall {
            id: format!("offline_{}_{index}", self.turn),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        });
        Message::assistant(thought, calls.collect())
    }
}
