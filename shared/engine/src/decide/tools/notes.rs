//! `scratchpad`: the model's notes.

use super::{Answers, CallRefusal, CallRejection, StateTool, arguments, invalid};
use crate::decide::words;
use crate::event::ScratchpadWritten;
use crate::limits::MAX_NOTES;
use crate::session::Step;
use crate::text::counted;
use serde::Deserialize;

pub(super) const TOOL: StateTool = StateTool {
    name: "scratchpad",
    description: "Writes notes that stay when older messages of the conversation give way. Later steps of a plan that depend on this one see them. At most 16 KiB.",
    parameters: r#"{"type":"object","properties":{"text":{"type":"string","description":"The notes."},"mode":{"type":"string","enum":["append","replace"],"description":"append (the default) adds a line, replace overwrites all notes."}},"required":["text"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, call| {
        let attempt = name.attempt;
        let Arguments { text, mode } = arguments(call)?;
        let replaces = match mode.as_deref() {
            None | Some("append") => false,
            Some("replace") => true,
            Some(other) => {
                let message = format!("mode '{other}' is unknown; use append or replace");
                return Err(invalid(message));
            }
        };
        let before = decision.session.step(attempt).map(Step::notes);
        let before = before.filter(|notes| !replaces && !notes.is_empty());
        let bytes = before.map_or(0, |notes| notes.len() + 1) + text.len();
        if bytes > MAX_NOTES {
            return Err(too_large(bytes));
        }
        let is_turn = decision.session.turn(attempt).is_some();
        decision.emit(ScratchpadWritten {
            attempt,
            text,
            replaces,
            frame: is_turn.then(words::around_notes),
        })?;
        Ok(Some(format!("notes: {}", counted(bytes, "byte"))))
    }),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    text: String,
    #[serde(default)]
    mode: Option<String>,
}

fn too_large(bytes: usize) -> CallRejection {
    let message = format!(
        "the notes would have {bytes} bytes; at most {MAX_NOTES} are allowed: replace them with shorter ones"
    );
    CallRejection::refused(CallRefusal::TooLarge, message)
}
