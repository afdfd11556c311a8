//! The tools that change the session itself. The owner answers them within the transition.

use super::Decision;
use crate::event::{AttemptRef, CallRef, EventKind};
use crate::limits::{
    MAX_MEMORY_BYTES, MAX_MEMORY_KEY, MAX_MEMORY_KEYS, MAX_MEMORY_VALUE, MAX_NOTES,
};
use crate::message::ToolCall;
use crate::state::Step;
use crate::transitions::IllegalTransition;
use crate::views::{memory, todo};
use serde::Deserialize;

/// A state tool as models see it.
#[derive(Debug, Clone, Copy)]
pub struct StateTool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub parameters: &'static str,
}

/// By which the model manages its step.
pub(super) const STEP: &str = "step";
/// By which the model asks a person something.
pub(super) const ASK_PERSON: &str = "ask_person";

/// All state tools, sorted by name.
pub const STATE_TOOLS: [StateTool; 8] = [
    StateTool {
        name: ASK_PERSON,
        description: "Asks the person for whom this is done. The step waits for the answer, which may take long: ask only what you cannot find out and cannot decide yourself.",
        parameters: r#"{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"},"description":"Answers to choose from, at most 10; the person may give another."}},"required":["question"],"additionalProperties":false}"#,
    },
    StateTool {
        name: "read_progress",
        description: "Reads the to-do list: the plan's steps with their sub-goals.",
        parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    },
    StateTool {
        name: "scratchpad",
        description: "Writes notes that stay when the conversation of this step is gone. Later steps that depend on this one see them. At most 16 KiB.",
        parameters: r#"{"type":"object","properties":{"text":{"type":"string","description":"The notes."},"mode":{"type":"string","enum":["append","replace"],"description":"append (the default) adds a line, replace overwrites all notes of this step."}},"required":["text"],"additionalProperties":false}"#,
    },
    StateTool {
        name: "session_memory_get",
        description: "Reads one key of the session's memory.",
        parameters: r#"{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}"#,
    },
    StateTool {
        name: "session_memory_list",
        description: "Reads all keys and values of the session's memory, each on a line as it stands in the system prompt: \\n is a line break, \\\\ a backslash, &lt; a <. session_memory_get reads a value as it was set.",
        parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    },
    StateTool {
        name: "session_memory_remove",
        description: "Takes one key out of the session's memory.",
        parameters: r#"{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}"#,
    },
    StateTool {
        name: "session_memory_set",
        description: "Remembers a value under a key for the whole session, over steps and runs.",
        parameters: r#"{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"}},"required":["key","value"],"additionalProperties":false}"#,
    },
    StateTool {
        name: STEP,
        description: "Manages this step. plan adds sub-goals, drop gives up open ones, focus turns to one of them by its text, complete ends the sub-goal in focus, or, with none in focus, this step. A text of plan that is there already, open or completed, is not added again. Give a summary with complete: it is all that later steps see of this one.",
        parameters: r#"{"type":"object","properties":{"plan":{"type":"array","items":{"type":"string"},"description":"Sub-goals to add, one line each."},"drop":{"type":"array","items":{"type":"string"},"description":"Texts of open sub-goals that are not needed any more."},"focus":{"type":"string","description":"Text of the sub-goal to turn to."},"complete":{"type":"boolean","description":"The sub-goal in focus, or the step, is done."},"summary":{"type":"string","description":"What was found or done; goes with complete."}},"additionalProperties":false}"#,
    },
];

/// Whether the owner answers this tool itself.
pub(super) fn is_state_tool(name: &str) -> bool {
    STATE_TOOLS.iter().any(|tool| tool.name == name)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScratchpadArguments {
    text: String,
    #[serde(default)]
    mode: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyArguments {
    key: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetArguments {
    key: String,
    value: String,
}

/// Why a call was not done; told to the model.
pub(super) struct Complaint {
    reason: &'static str,
    message: String,
}

/// What the model is told; `None` if that has to wait for the other calls of the reply, or for a
/// person.
pub(super) type Answer = Result<Option<String>, Complaint>;

pub(super) fn complain(message: impl Into<String>) -> Complaint {
    Complaint {
        reason: "InvalidArguments",
        message: message.into(),
    }
}

pub(super) fn arguments<'a, T: Deserialize<'a>>(call: &'a ToolCall) -> Result<T, Complaint> {
    let text = if call.arguments.trim().is_empty() {
        "{}"
    } else {
        &call.arguments
    };
    serde_json::from_str(text)
        .map_err(|error| complain(format!("wrong arguments for '{}': {error}", call.name)))
}

impl Decision<'_> {
    pub(super) fn answer_state_call(
        &mut self,
        name: CallRef,
        call: &ToolCall,
    ) -> Result<(), IllegalTransition> {
        let attempt = name.attempt;
        let answer = match call.name.as_str() {
            STEP => self.manage_step(attempt, call)?,
            "read_progress" => Ok(Some(self.progress(attempt))),
            ASK_PERSON => self.ask_person(name, call)?,
            "scratchpad" => self.write_notes(attempt, call)?,
            "session_memory_set" => self.set_memory(call)?,
            "session_memory_get" => arguments::<KeyArguments>(call).map(|it| {
                let found = self.session.memory.get(&it.key).cloned();
                Some(found.unwrap_or_else(|| format!("'{}' is not set", it.key)))
            }),
            "session_memory_remove" => self.remove_memory(call)?,
            "session_memory_list" => Ok(Some(self.list_memory())),
            unknown => Err(self.unknown_tool(unknown)),
        };
        match answer {
            Ok(Some(output)) => self.answer(name, output, ""),
            // The step may end with it once the other calls of the reply are done; or a person is
            // asked.
            Ok(None) => Ok(()),
            Err(complaint) => self.answer(name, complaint.message, complaint.reason),
        }
    }

    fn unknown_tool(&self, name: &str) -> Complaint {
        let own = STATE_TOOLS.iter().map(|tool| tool.name);
        let mut known: Vec<_> = self
            .facts
            .tools
            .keys()
            .map(String::as_str)
            .chain(own)
            .collect();
        known.sort_unstable();
        Complaint {
            reason: "NotFound",
            message: format!("there is no tool '{name}'; there are: {}", known.join(", ")),
        }
    }

    fn progress(&self, attempt: AttemptRef) -> String {
        self.session
            .run(attempt.run)
            .map(todo::of_run)
            .unwrap_or_default()
    }

    fn write_notes(
        &mut self,
        attempt: AttemptRef,
        call: &ToolCall,
    ) -> Result<Answer, IllegalTransition> {
        let request: ScratchpadArguments = match arguments(call) {
            Ok(request) => request,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let replaces = match request.mode.as_deref() {
            None | Some("append") => false,
            Some("replace") => true,
            Some(other) => {
                let message = format!("mode '{other}' is unknown; use append or replace");
                return Ok(Err(complain(message)));
            }
        };
        let before = self.session.step(attempt).map(Step::notes);
        let before = before.filter(|notes| !replaces && !notes.is_empty());
        let bytes = before.map_or(0, |notes| notes.len() + 1) + request.text.len();
        if bytes > MAX_NOTES {
            let message = format!(
                "the notes would have {bytes} bytes; at most {MAX_NOTES} are allowed: replace them with shorter ones"
            );
            return Ok(Err(Complaint {
                reason: "TooLarge",
                message,
            }));
        }
        self.emit(EventKind::ScratchpadWritten {
            attempt,
            text: request.text,
            replaces,
        })?;
        Ok(Ok(Some(format!("notes: {bytes} bytes"))))
    }

    fn set_memory(&mut self, call: &ToolCall) -> Result<Answer, IllegalTransition> {
        let SetArguments { key, value } = match arguments(call) {
            Ok(request) => request,
            Err(complaint) => return Ok(Err(complaint)),
        };
        if key.is_empty() || key.len() > MAX_MEMORY_KEY || key.chars().any(char::is_control) {
            let message =
                format!("a key has 1 to {MAX_MEMORY_KEY} bytes and no control characters");
            return Ok(Err(complain(message)));
        }
        if value.len() > MAX_MEMORY_VALUE {
            return Ok(Err(complain(format!(
                "a value has at most {MAX_MEMORY_VALUE} bytes"
            ))));
        }
        // Both sums as they would be: the store has room for what is set within these limits,
        // whatever clients have set meanwhile.
        let is_new = !self.session.memory.contains_key(&key);
        if self.session.memory.len() + usize::from(is_new) > MAX_MEMORY_KEYS {
            let message = format!("session memory is full: at most {MAX_MEMORY_KEYS} keys");
            return Ok(Err(complain(message)));
        }
        let others = self
            .session
            .memory
            .iter()
            .filter(|(other, _)| **other != key);
        let others: usize = others.map(|(key, value)| key.len() + value.len()).sum();
        if others + key.len() + value.len() > MAX_MEMORY_BYTES {
            let message = format!("session memory is full: at most {MAX_MEMORY_BYTES} bytes");
            return Ok(Err(complain(message)));
        }
        let told = format!("'{key}' is set");
        self.emit(EventKind::MemorySet { key, value })?;
        Ok(Ok(Some(told)))
    }

    fn remove_memory(&mut self, call: &ToolCall) -> Result<Answer, IllegalTransition> {
        let KeyArguments { key } = match arguments(call) {
            Ok(request) => request,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let told = format!("'{key}' is not set any more");
        self.emit(EventKind::MemoryRemoved { key })?;
        Ok(Ok(Some(told)))
    }

    fn list_memory(&self) -> String {
        if self.session.memory.is_empty() {
            return "session memory is empty".to_owned();
        }
        memory::list(&self.session.memory)
    }
}
