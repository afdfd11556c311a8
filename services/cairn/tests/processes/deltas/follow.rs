//! Parts as they come, and a program that prints them.

use cairn_proto::event::{AttemptRef, TextDelta};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What was seen of one reply.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// All parts since the reply last began.
    pub(crate) text: String,
    /// How often it began.
    pub(crate) beginnings: u32,
}

impl Followed {
    /// Takes a part, which must follow the one before or begin anew.
    pub(crate) fn take(&mut self, delta: &TextDelta) {
        let first = AttemptRef {
            run: 1,
            step: 1,
            attempt: 1,
        };
        assert_eq!((delta.attempt, delta.tool_turn), (Some(first), 0));
        if delta.offset == 0 {
            self.text.clear();
            self.beginnings += 1;
        }
        assert_eq!(delta.offset, self.text.len() as u64, "{delta:?}");
        assert!(!delta.text.is_empty(), "{delta:?}");
        self.text.push_str(&delta.text);
    }

    /// Panics unless a text begins with what was seen.
    pub(crate) fn check_begins(&self, text: &str) {
        assert!(text.starts_with(&self.text), "{self:?} in {text:?}");
    }

    /// Takes a line of JSON, which must be a part or the beginning of the conversation.
    pub(crate) fn take_line(&mut self, line: &Value) {
        if line["kind"] == "context_changed" {
            // The conversation begins before the reply.
            return;
        }
        assert_eq!(line["kind"], "text_delta", "the reply is not whole");
        assert!(line["seq"].is_null(), "a part has no number: {line}");
        let number = |value: &Value| {
            let number = value.as_u64().expect("a number");
            u32::try_from(number).expect("a small number")
        };
        let at = &line["attempt"];
        self.take(&TextDelta {
            progress: None,
            retry: number(&line["retry"]),
            attempt: Some(AttemptRef {
                run: number(&at["run"]),
                step: number(&at["step"]),
                attempt: number(&at["attempt"]),
            }),
            tool_turn: number(&line["tool_turn"]),
            offset: line["offset"].as_u64().expect("a number"),
            text: line["text"].as_str().expect("a text").to_owned(),
        });
    }
}

/// A program whose lines are read as they come. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Printed {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Printed {
    pub(crate) fn of(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, out }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.out.read_line(&mut line).expect("text");
        (read > 0).then_some(line)
    }

    /// The next line, which must be JSON.
    pub(crate) fn next_line(&mut self) -> Value {
        let line = self.line().expect("a line");
        serde_json::from_str(&line).expect("a line of JSON")
    }

    /// Reads on to the first event of a kind.
    pub(crate) fn wait_for_kind(&mut self, kind: &str) {
        while self.next_line()["kind"] != kind {}
    }

    /// Reads on to the first line with this text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.line().expect("a line").contains(text) {}
    }

    /// The lines to the end of the program, which must be a good one.
    pub(crate) fn read_to_end(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(serde_json::from_str(&line).expect("a line of JSON"));
        }
        self.check_code();
        lines
    }

    /// Reads on to the end of the program, which must be a good one.
    pub(crate) fn check_ended(&mut self) {
        while self.line().is_some() {}
        self.check_code();
    }

    fn check_code(&mut self) {
        assert_eq!(self.child.wait().expect("its end").code(), Some(0));
    }
}

impl Drop for Printed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
