//! The lines of one call: what it asks for, how far it is, and its result. Pure.

use crate::ui::approvals::shell_command;
use crate::ui::diff;
use crate::ui::flow::{gist, gist_of_long, one_line};
use crate::ui::live::wrap;
use crate::ui::style::Style;
use cairn_engine::text::counted;
use cairn_proto::event::ToolCall;
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::escape;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

/// Most lines of a change that is shown below its result.
const CHANGE: usize = 12;
/// Most lines of an error.
const ERROR: usize = 8;
/// Less room than this is left free after the status of a command.
const LEAST: usize = 12;
/// How the result of a command says that it ended, in its last line.
const ENDS: [&str; 3] = ["exit status ", "ended by signal ", "ended without a status"];
const WELL: &str = "exit status 0";

/// A call without a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Called {
    name: String,
    arguments_json: String,
    /// A person may have been shown what it does, in a question.
    pub(super) may_be_known: bool,
}

impl Called {
    pub(super) fn new(call: ToolCall) -> Self {
        Self {
            name: call.name,
            arguments_json: call.arguments_json,
            may_be_known: false,
        }
    }

    /// What the call asks for, not escaped.
    pub(super) fn asked(&self) -> String {
        match shell_command(&self.name, &self.arguments_json) {
            None => format!("{} {}", self.name, self.arguments_json),
            Some((command, folder)) if matches!(folder.as_str(), "" | ".") => {
                format!("{} {command}", self.name)
            }
            Some((command, folder)) => format!("{} in {folder}: {command}", self.name),
        }
    }

    /// How far it is, not escaped: parts of a whole, or the last line that it says. A number alone says nothing.
    pub(super) fn progress(&self, progress: &pb::TurnToolProgress) -> Option<String> {
        let (name, message) = (&self.name, &progress.message);
        if progress.total > 0.0 {
            let far = format!("{} of {}", progress.progress, progress.total);
            return Some(format!("{name}  {far} {message}").trim_end().to_owned());
        }
        let mut lines = message.lines().rev().map(str::trim);
        let last = lines.find(|line| !line.is_empty())?;
        Some(format!("{name}  {last}"))
    }

    /// The lines of its result, on a terminal of so many columns.
    pub(super) fn result(
        &self,
        style: Style,
        result: &pb::TurnToolResult,
        columns: usize,
    ) -> Vec<String> {
        let name = escape(&self.name).into_owned();
        let given = result.result.clone().unwrap_or_default();
        let room = columns.saturating_sub(name.width() + 5);
        if let Some((text, is_good)) = self.ended(&given.text, room) {
            return vec![marked(style, is_good && !given.is_error, &name, &text)];
        }
        let text = match &result.whole {
            Some(whole) => gist_of_long(&given.text, whole.lines, whole.bytes, room),
            None if given.is_error => return error(style, &name, &given.text, columns),
            None => gist(&given.text, room),
        };
        let mut lines = vec![marked(style, !given.is_error, &name, &text)];
        if !given.is_error {
            lines.extend(self.change(style, columns));
        }
        lines
    }

    /// A command in short, how it ended and the last line of its output; and whether it ended well.
    fn ended(&self, text: &str, room: usize) -> Option<(String, bool)> {
        let (command, _) = shell_command(&self.name, &self.arguments_json)?;
        let mut lines = text.lines().rev().map(str::trim);
        let how = lines.find(|line| !line.is_empty())?;
        if !ENDS.iter().any(|it| how.starts_with(it)) {
            return None;
        }
        let last = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let mut shown = format!("{}  {}", one_line(&command, room / 2), one_line(how, room));
        let rest = room.saturating_sub(shown.width() + 3);
        if !last.is_empty() && rest >= LEAST {
            shown.push_str(&format!(" · {}", one_line(last, rest)));
        }
        Some((shown, how == WELL))
    }

    /// What an edit replaced, unless a question has shown it.
    fn change(&self, style: Style, columns: usize) -> Vec<String> {
        if self.may_be_known || self.name != "edit_file" {
            return Vec::new();
        }
        let arguments: Value = serde_json::from_str(&self.arguments_json).unwrap_or_default();
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let (Some(old), Some(new)) = (text("old"), text("new")) else {
            return Vec::new();
        };
        let shown = diff::replaced(style, old, new, CHANGE, columns);
        let mut lines = shown.lines;
        if shown.left_out > 0 {
            let more = counted(shown.left_out, "more line");
            lines.push(style.dim(&format!("    … {more}")));
        }
        lines
    }
}

fn marked(style: Style, is_good: bool, name: &str, text: &str) -> String {
    let (mark, text) = match is_good {
        true => (style.good("✓"), style.dim(text)),
        false => (style.bad("✗"), style.bad(text)),
    };
    format!("{mark} {name}  {text}").trim_end().to_owned()
}

/// The first line of an error, whole: it may have the reason that a person gave, or say what is to be done.
fn error(style: Style, name: &str, text: &str, columns: usize) -> Vec<String> {
    let columns = columns.saturating_sub(3);
    let text = gist(text, columns.saturating_mul(ERROR - 1));
    let pieces = wrap(&format!("{name}  {text}"), columns).into_iter();
    let lines = pieces.enumerate().map(|(at, piece)| {
        let rest = piece.strip_prefix(name).filter(|_| at == 0);
        match rest {
            Some(rest) => marked(style, false, name, rest.trim_start()),
            None => format!("  {}", style.bad(&piece)),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::ToolResult;

    fn called(name: &str, arguments: &Value) -> Called {
        Called::new(ToolCall {
            name: name.to_owned(),
            arguments_json: arguments.to_string(),
            ..ToolCall::default()
        })
    }

    fn shown(called: &Called, text: &str, is_error: bool) -> Vec<String> {
        let result = pb::TurnToolResult {
            result: Some(ToolResult {
                text: text.to_owned(),
                is_error,
                ..ToolResult::default()
            }),
            ..pb::TurnToolResult::default()
        };
        called.result(Style::new(false), &result, 80)
    }

    #[test]
    fn a_command_is_shown_with_its_status_and_its_last_line() {
        let it = called("shell_exec", &serde_json::json!({"command": "cargo test"}));
        assert_eq!(it.asked(), "shell_exec cargo test");
        let good = shown(&it, "a\n\nall is well\nexit status 0", false);
        assert_eq!(
            good,
            ["✓ shell_exec  cargo test  exit status 0 · all is well"]
        );
        let bad = shown(&it, "oh no\nexit status 101", false);
        assert_eq!(bad, ["✗ shell_exec  cargo test  exit status 101 · oh no"]);
        let silent = shown(&it, "exit status 0", false);
        assert_eq!(silent, ["✓ shell_exec  cargo test  exit status 0"]);
        let long = serde_json::json!({"command": "x ".repeat(90), "cwd": "a/b"});
        let long = called("shell_exec", &long);
        assert!(long.asked().starts_with("shell_exec in a/b: x x"));
        let lines = shown(&long, &format!("{}\nexit status 7", "y".repeat(200)), false);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].width() < 80, "{lines:?}");
        assert!(lines[0].contains("exit status 7"), "{lines:?}");
    }

    #[test]
    fn an_error_is_shown_whole_between_words() {
        let it = called("record", &serde_json::json!({}));
        let text = "a person does not allow this call; do not repeat it: ".to_owned()
            + &"not before the end of the month ".repeat(3);
        let lines = shown(&it, &text, true);
        assert!(lines.len() > 1, "{lines:?}");
        assert!(lines.iter().all(|line| line.width() < 80), "{lines:?}");
        let words: Vec<&str> = lines.iter().flat_map(|it| it.split_whitespace()).collect();
        let expected: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[2..], expected);
    }

    #[test]
    fn progress_is_parts_of_a_whole_or_the_last_line() {
        let it = called("shell_exec", &serde_json::json!({}));
        let progress = |total, message: &str| {
            it.progress(&pb::TurnToolProgress {
                progress: 4_096.0,
                total,
                message: message.to_owned(),
                ..pb::TurnToolProgress::default()
            })
        };
        let last = progress(0.0, "one\ntwo\n \n");
        assert_eq!(last.as_deref(), Some("shell_exec  two"));
        assert_eq!(progress(0.0, ""), None);
        let far = progress(8_192.0, "");
        assert_eq!(far.as_deref(), Some("shell_exec  4096 of 8192"));
    }

    #[test]
    fn an_edit_shows_what_it_replaced_unless_a_question_did() {
        let new: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let arguments = serde_json::json!({"path": "a", "old": "old\nlast", "new": new + "last"});
        let mut it = called("edit_file", &arguments);
        let lines = shown(&it, "edited a", false);
        assert_eq!(
            lines[..3],
            ["✓ edit_file  edited a", "    -old", "    +line 0"]
        );
        assert_eq!(lines.last().map(String::as_str), Some("    … 9 more lines"));
        assert_eq!(
            shown(&it, "no such text", true),
            ["✗ edit_file  no such text"]
        );
        it.may_be_known = true;
        assert_eq!(shown(&it, "edited a", false).len(), 1);
    }
}
