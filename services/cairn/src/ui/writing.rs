//! What models are writing at this moment, put together from the parts that come.

use super::text::json;
use cairn_proto::event::{CallProgress, TextDelta};
use cairn_rpc::text::escape;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two messages about one call.
const SECOND: Duration = Duration::from_secs(1);

/// Replies on their way, by step.
#[derive(Debug, Clone, Default)]
pub struct Writing(BTreeMap<u32, Reply>);

#[derive(Debug, Clone, Default)]
struct Reply {
    /// Attempt, tool turn and try.
    turn: (u32, u32, u32),
    text: String,
    /// Bytes of the reply before the text, which did not come.
    missed: u64,
    /// Bytes of the text that were given out as lines.
    reported: usize,
}

impl Writing {
    /// Takes the next part, and gives the lines that it made whole, escaped.
    pub fn take(&mut self, delta: &TextDelta) -> Vec<String> {
        if delta.progress.is_some() {
            // Of a call, and no text.
            return Vec::new();
        }
        let at = delta.attempt.unwrap_or_default();
        let turn = (at.attempt, delta.tool_turn, delta.retry);
        let reply = self.0.entry(at.step).or_default();
        let known = reply.missed + reply.text.len() as u64;
        if reply.turn != turn || delta.offset != known {
            // Another reply, the same one from its beginning, or a part after parts that are lost.
            *reply = Reply {
                turn,
                missed: delta.offset,
                ..Reply::default()
            };
        }
        reply.text.push_str(&delta.text);
        reply.new_lines()
    }

    /// The reply of a step is whole, or will never be.
    pub fn end(&mut self, step: u32) {
        self.0.remove(&step);
    }

    /// The line that a step's model is writing, escaped.
    pub fn line(&self, step: u32) -> Option<String> {
        let text = self.0.get(&step)?.text.trim_end();
        let line = text.lines().next_back()?;
        Some(escape(line.trim()).into_owned())
    }
}

impl Reply {
    fn new_lines(&mut self) -> Vec<String> {
        let fresh = &self.text[self.reported..];
        let Some(end) = fresh.rfind('\n') else {
            return Vec::new();
        };
        self.reported += end + 1;
        let lines = fresh[..end].lines().map(|line| escape(line).into_owned());
        lines.collect()
    }
}

/// A line of a reply that a step's model is writing.
pub fn written(step: u32, line: &str) -> String {
    format!("  step {step} ┊ {line}")
}

/// Which messages about the progress of calls are shown: one a second for each call.
#[derive(Debug, Clone, Default)]
pub struct Pace(BTreeMap<(u32, u32, u32, u32, u32), Instant>);

impl Pace {
    /// Whether the message is shown, if it comes now.
    pub fn takes(&mut self, progress: &CallProgress, now: Instant) -> bool {
        let call = progress.call.unwrap_or_default();
        let at = call.attempt.unwrap_or_default();
        let key = (at.run, at.step, at.attempt, call.tool_turn, call.index);
        if self.0.get(&key).is_some_and(|next| now < *next) {
            return false;
        }
        // What is due again says nothing any more.
        self.0.retain(|_, next| now < *next);
        self.0.insert(key, now + SECOND);
        true
    }
}

/// A part as a line of JSON: like an event, but without a number, as it is none.
pub fn delta_json(delta: &TextDelta) -> String {
    let at = delta.attempt.unwrap_or_default();
    if let Some(progress) = &delta.progress {
        let call = progress.call.unwrap_or_default();
        return json(&json!({
            "kind": "call_progress",
            "call": {
                "attempt": {"run": at.run, "step": at.step, "attempt": at.attempt},
                "tool_turn": call.tool_turn,
                "index": call.index,
            },
            "progress": progress.progress,
            "total": (progress.total > 0.0).then_some(progress.total),
            "message": progress.message,
        }));
    }
    json(&json!({
        "kind": "text_delta",
        "attempt": {"run": at.run, "step": at.step, "attempt": at.attempt},
        "tool_turn": delta.tool_turn,
        "retry": delta.retry,
        "offset": delta.offset,
        "text": delta.text,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{AttemptRef, CallRef};

    fn part(step: u32, tool_turn: u32, offset: u64, text: &str) -> TextDelta {
        let attempt = AttemptRef {
            run: 1,
            step,
            attempt: 1,
        };
        TextDelta {
            retry: 0,
            progress: None,
            attempt: Some(attempt),
            tool_turn,
            offset,
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines_are_reported_once_when_they_are_whole() {
        let mut writing = Writing::default();
        assert!(writing.take(&part(1, 0, 0, "one tw")).is_empty());
        assert_eq!(writing.line(1).unwrap(), "one tw");
        assert!(writing.take(&part(2, 0, 0, "other")).is_empty());
        assert_eq!(
            writing.take(&part(1, 0, 6, "o\nthree\nfo")),
            ["one two", "three"]
        );
        assert_eq!(writing.line(1).unwrap(), "fo");
        assert_eq!(
            writing.take(&part(1, 0, 16, "ur\u{1b}[2J\n")),
            [r"four\u{1b}[2J"]
        );
        writing.end(1);
        assert_eq!(writing.line(1), None);
        assert_eq!(writing.line(2).unwrap(), "other");
    }

    #[test]
    fn a_reply_may_begin_anew_and_parts_may_be_lost() {
        let mut writing = Writing::default();
        writing.take(&part(1, 0, 0, "void"));
        writing.take(&part(1, 0, 0, "anew"));
        assert_eq!(writing.line(1).unwrap(), "anew");
        writing.take(&part(1, 0, 10, "after a gap"));
        assert_eq!(writing.line(1).unwrap(), "after a gap");
        writing.take(&part(1, 0, 21, ", on"));
        assert_eq!(writing.line(1).unwrap(), "after a gap, on");
        writing.take(&part(1, 1, 0, "next"));
        assert_eq!(writing.line(1).unwrap(), "next");
    }

    #[test]
    fn progress_is_no_text_and_is_shown_once_a_second() {
        let mut writing = Writing::default();
        writing.take(&part(1, 0, 0, "kept"));
        let of = |index: u32| CallProgress {
            call: Some(CallRef {
                index,
                ..CallRef::default()
            }),
            progress: 3.0,
            total: 10.0,
            message: "half\nway".to_owned(),
        };
        let mut delta = part(1, 0, 0, "");
        delta.progress = Some(of(0));
        assert!(writing.take(&delta).is_empty());
        assert_eq!(writing.line(1).unwrap(), "kept");
        let line: serde_json::Value = serde_json::from_str(&delta_json(&delta)).unwrap();
        assert_eq!(
            (&line["kind"], &line["total"]),
            (&json!("call_progress"), &json!(10.0))
        );

        let mut pace = Pace::default();
        let now = Instant::now();
        assert!(pace.takes(&of(0), now) && pace.takes(&of(1), now));
        assert!(!pace.takes(&of(0), now + SECOND / 2));
        assert!(pace.takes(&of(0), now + SECOND));
    }

    #[test]
    fn json_is_one_harmless_line() {
        let line = delta_json(&part(2, 3, 4, "a\n\u{1b}b"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["text"], &value["offset"]),
            (&json!("a\n\u{1b}b"), &json!(4))
        );
        assert!(!line.contains(['\n', '\u{1b}']), "{line}");
    }
}
