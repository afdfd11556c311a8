//! The model of the work: it looks around, reads the broken file, edits it wrongly, runs the tests, sees them
//! fail, edits again and sees them pass. What it does next follows from its request alone, so a retry gets the
//! same reply.
//!
//! Each command leaves marks in the workspace: a line when it begins, the output of the tests, and their status
//! when they have ended. It also tries to write outside of the workspace, which its confinement refuses.

use super::task::{MARKS, Runner, Task};
use crate::support::served;
use cairn_testkit::model_server::{Answer, reply};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The response of a turn that mended the tests.
pub(crate) const GREEN: &str = "The tests pass.";
/// The file that each command tries to make, beside the workspace.
pub(crate) const ESCAPED: &str = "escaped";
/// Commands of the turn.
pub(crate) const COMMANDS: usize = 2;
/// Edits of the turn.
pub(crate) const EDITS: usize = 2;
/// Seconds that a command may take. Over Redis, a command of unknown outcome waits for them.
const TIMEOUT_SECS: u32 = 30;

/// The reply to a request.
pub(crate) fn plays(task: &Task, body: &Value) -> Answer {
    let turn = served::turn(body);
    let seen = last_result(body);
    if let Some(missing) = missing(task, turn, seen) {
        let text = format!("Reply {turn}: {missing}, but I see: {seen}");
        return reply("lost", &text, &[]);
    }
    let edit = |old: &str, new: &str| json!({"path": task.path, "old": old, "new": new});
    let run = |number: usize| {
        let command = command(task.runner, number);
        json!({"command": command, "timeout": TIMEOUT_SECS})
    };
    match turn {
        0 => reply("a", "I look.", &[("list_files", json!({"path": "."}))]),
        1 => reply("b", "", &[("read_file", json!({"path": task.path}))]),
        2 => reply("c", "", &[("edit_file", edit(&task.broken, &task.wrong))]),
        3 => reply("d", "I try.", &[("shell_exec", run(1))]),
        4 => reply("e", "", &[("edit_file", edit(&task.wrong, &task.right))]),
        5 => reply("f", "", &[("shell_exec", run(2))]),
        _ => reply("g", GREEN, &[]),
    }
}

/// What the model has to see before this reply and does not see.
fn missing(task: &Task, turn: usize, seen: &str) -> Option<&'static str> {
    let first_line = task.broken.trim().lines().next().unwrap_or_default();
    let (is_there, what) = match turn {
        2 => (seen.contains(first_line), "the file is read"),
        4 => (task.runner.is_red(seen), "the tests fail"),
        6 => (task.runner.is_green(seen), "the tests pass"),
        _ => (true, ""),
    };
    (!is_there).then_some(what)
}

/// The newest result of a tool in a request.
fn last_result(body: &Value) -> &str {
    let messages = body["messages"].as_array().expect("messages");
    let result = messages.iter().rfind(|it| it["role"] == "tool");
    let text = result.and_then(|it| it["content"].as_str());
    text.unwrap_or_default()
}

/// The text of a command: the first is number 1.
pub(crate) fn command(runner: Runner, number: usize) -> String {
    let mark = format!("{MARKS}/{number}");
    let tests = runner.command();
    format!(
        "mkdir -p {MARKS}; echo ran >>{mark}.ran; (echo out >../{ESCAPED}) 2>/dev/null; \
         {tests} >{mark}.out 2>&1; status=$?; echo $status >{mark}.status; \
         tail -n 60 {mark}.out; exit $status"
    )
}

/// The number of the command with this text.
///
/// # Panics
/// If it is no command of the model.
pub(crate) fn number_of(runner: Runner, text: &str) -> usize {
    let mut numbers = 1..=COMMANDS;
    let found = numbers.find(|number| command(runner, *number) == text);
    found.unwrap_or_else(|| panic!("no command of the model: {text:?}"))
}

/// What the world shows of a command.
#[derive(Debug)]
pub(crate) struct Mark {
    /// How often it began.
    pub(crate) starts: usize,
    /// What the tests printed, if they came to their end.
    pub(crate) output: Option<String>,
}

impl Mark {
    /// The mark of a command in a workspace.
    pub(crate) fn read(workspace: &Path, number: usize) -> Self {
        let marks = workspace.join(MARKS);
        let read = |kind: &str| fs::read_to_string(marks.join(format!("{number}.{kind}"))).ok();
        // The shell makes the file before it writes the status.
        let status = read("status").filter(|status| status.ends_with('\n'));
        Self {
            starts: read("ran").map_or(0, |lines| lines.lines().count()),
            output: status.and_then(|_| read("out")),
        }
    }
}
