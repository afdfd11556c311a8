//! A conversation as a reader of the exported journal makes it: by the contract, without the code of Cairn.

use cairn_testkit::Journal;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    number: u64,
    pub(crate) role: String,
    pub(crate) text: String,
    /// `history` or `summary` of what stands for older messages; empty for a message as it was said.
    stands_for_older: String,
}

/// A conversation without its system prompt: one context, or one attempt at a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    immutable: Vec<Said>,
    compressed: Vec<Said>,
    before_mark: Vec<Said>,
    behind_mark: Vec<Said>,
    /// Results of the last reply's calls, by the numbers of the calls.
    results: BTreeMap<u64, String>,
    /// Changes that no reply has seen. They follow the results.
    waiting: VecDeque<Value>,
}

impl Conversation {
    /// Role and text of each message, as a model is sent them.
    pub(crate) fn sent(&self) -> Vec<(String, String)> {
        let zones = [
            &self.immutable,
            &self.compressed,
            &self.before_mark,
            &self.behind_mark,
        ];
        let messages = zones.into_iter().flatten();
        let sent = messages.map(|it| (it.role.clone(), it.text.clone()));
        sent.collect()
    }

    /// Puts a message in the place of others, and returns how many those were.
    fn compact(&mut self, messages: &Value, new: Said) -> usize {
        let named = |field: &str| number(&messages[field]);
        if messages["behind_mark"] == true {
            let said = &mut self.behind_mark;
            let first = end_of(said, named("after"));
            let end = end_of(said, named("through"));
            return said.splice(first..end, [new]).count();
        }
        let view = "history";
        let last = self.compressed.last();
        let follows_view = last.is_some_and(|last| last.stands_for_older == view);
        let replaces_view = follows_view && new.stands_for_older == view;
        let kept = match messages["with_compressed"] == true {
            true => 0,
            false => self.compressed.len() - usize::from(replaces_view),
        };
        let of_compressed = self.compressed.drain(kept..).count();
        self.compressed.push(new);
        let end = end_of(&self.before_mark, named("through"));
        of_compressed + self.before_mark.drain(..end).count()
    }
}

/// The fold of the events of a session that has one conversation.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub(crate) conversation: Conversation,
    /// All messages as they were said, also those that gave way.
    pub(crate) said: Vec<Said>,
    /// What the model was sent before each of its replies.
    pub(crate) requests: Vec<Vec<(String, String)>>,
    /// The kinds of the compactions.
    pub(crate) compactions: Vec<String>,
    /// The conversation after each event.
    pub(crate) states: Vec<Conversation>,
    last_number: u64,
    /// Changes of the attempt that its requests have had.
    changes: u64,
    /// Commands by the numbers of their events.
    commands: BTreeMap<u64, Value>,
}

impl Fold {
    pub(crate) fn of(journal: &Journal) -> Self {
        let mut fold = Self::default();
        for event in &journal.0 {
            fold.take(event);
            fold.states.push(fold.conversation.clone());
        }
        fold
    }

    fn take(&mut self, event: &Value) {
        match event["kind"].as_str().expect("a kind") {
            "command_received" => {
                let command = event["command"].clone();
                self.commands.insert(number(&event["seq"]), command);
            }
            "run_started" if event["turn"].is_object() => {
                let message = self.command_of(event)["submit_turn"]["message"].clone();
                self.add_message(&message);
            }
            "step_started" if event["context"] != "" => {
                let context = self.numbered("user", text(&event["context"]));
                self.conversation.immutable.push(context);
            }
            "context_changed" => self.change(event),
            "reply_received" => self.reply(event),
            "call_finished" => {
                let index = number(&event["call"]["index"]);
                let output = text(&event["output"]);
                self.conversation.results.insert(index, output);
            }
            "context_compacted" => self.compact(event),
            "run_completed" | "run_failed" | "run_cancelled" => self.move_mark(event),
            _ => {}
        }
    }

    /// The command that an event answers.
    fn command_of(&self, event: &Value) -> Value {
        self.commands[&number(&event["answers"])].clone()
    }

    fn numbered(&mut self, role: &str, text: String) -> Said {
        self.last_number += 1;
        let said = Said {
            number: self.last_number,
            role: role.to_owned(),
            text,
            stands_for_older: String::new(),
        };
        self.said.push(said.clone());
        said
    }

    /// Adds a message behind the mark.
    fn add(&mut self, role: &str, text: String) {
        let said = self.numbered(role, text);
        self.conversation.behind_mark.push(said);
    }

    fn add_message(&mut self, message: &Value) {
        self.add(message["role"].as_str().expect("a role"), texts(message));
    }

    fn change(&mut self, event: &Value) {
        // The changes that a client asks for stand in its command.
        if event["answers"].is_number() {
            let command = self.command_of(event);
            let ops = command["change_context"]["ops"].as_array();
            for op in ops.expect("changes") {
                let message = &op["append"];
                let role = message["role"].as_str().expect("only messages are added");
                let said = self.numbered(role, texts(message));
                self.conversation.before_mark.push(said);
            }
            return;
        }
        let ops = event["ops"].as_array().expect("changes");
        // Those of a context are layers of its system prompt.
        if event["attempt"].is_object() {
            self.conversation.waiting.extend(ops.iter().cloned());
        }
    }

    /// What the model was sent has the results of its last calls, and the changes that the reply names.
    fn reply(&mut self, event: &Value) {
        for result in std::mem::take(&mut self.conversation.results).into_values() {
            self.add("tool", result);
        }
        while self.changes < number(&event["ops_through"]) {
            let op = self.conversation.waiting.pop_front();
            self.apply(&op.expect("a change"));
            self.changes += 1;
        }
        self.requests.push(self.conversation.sent());
        self.add("assistant", text(&event["text"]));
    }

    fn apply(&mut self, op: &Value) {
        let change = op.as_object().and_then(|op| op.iter().next());
        let (name, value) = change.expect("a change");
        match name.as_str() {
            "set_layer" | "use_layer" => {}
            "append" => self.add_message(value),
            "notice" => self.tell(&text(value)),
            "remind" => self.tell(&text(&value["text"])),
            other => panic!("a change that no test makes: {other}"),
        }
    }

    /// A text that joins the last message if that is the user's.
    fn tell(&mut self, text: &str) {
        match self.conversation.behind_mark.last_mut() {
            Some(last) if last.role == "user" => {
                last.text += "\n\n";
                last.text += text;
            }
            _ => self.add("user", text.to_owned()),
        }
    }

    fn compact(&mut self, event: &Value) {
        let kind = event["compaction"].as_str().expect("a kind").to_owned();
        self.last_number += 1;
        let new = Said {
            number: self.last_number,
            role: match kind.as_str() {
                "history" => "assistant".to_owned(),
                _ => "user".to_owned(),
            },
            text: text(&event["text"]),
            stands_for_older: kind.clone(),
        };
        let gone = self.conversation.compact(&event["messages"], new);
        assert_eq!(number(&event["replaced"]), gone as u64, "{event}");
        self.compactions.push(kind);
    }

    fn move_mark(&mut self, event: &Value) {
        let kept_through = number(&event["kept_through"]);
        let Conversation {
            before_mark,
            behind_mark,
            ..
        } = &mut self.conversation;
        let kept = end_of(behind_mark, kept_through);
        before_mark.extend(behind_mark.drain(..kept));
        behind_mark.clear();
        let mut results = std::mem::take(&mut self.conversation.results);
        if kept > 0 && event["kind"] != "run_completed" {
            for open in event["results"].as_array().into_iter().flatten() {
                results.insert(number(&open["call"]["index"]), text(&open["output"]));
            }
            for result in results.into_values() {
                let said = self.numbered("tool", result);
                self.conversation.before_mark.push(said);
            }
        }
        self.conversation.waiting.clear();
        self.changes = 0;
    }
}

/// The place behind the message of that number; the beginning for 0.
fn end_of(messages: &[Said], number: u64) -> usize {
    match number {
        0 => 0,
        number => {
            let place = messages.iter().position(|it| it.number == number);
            1 + place.unwrap_or_else(|| panic!("no message {number}: {messages:?}"))
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn texts(message: &Value) -> String {
    let parts = message["parts"].as_array().expect("parts");
    let texts: Vec<&str> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    texts.join("\n\n")
}

/// Panics if more than one compaction took effect between two replies, unless a person decided in between.
pub(crate) fn at_most_one_compaction_for_each_tool_turn(journal: &Journal) {
    let mut compactions = 0;
    for event in &journal.0 {
        match event["kind"].as_str().expect("a kind") {
            // Of a context with too many bytes, a request may still have too many tokens.
            "context_compacted" if event["tokens_before"] != 0 => compactions += 1,
            "reply_received" | "decided" | "run_started" => compactions = 0,
            _ => {}
        }
        assert!(compactions <= 1, "one more for the same tool turn: {event}");
    }
}
