//! `read_result`: a piece of a long result.

use super::{Answers, CallRefusal, CallRejection, Question, StateTool, arguments, invalid};
use crate::decide::Rejection;
use crate::event::ResultHandle;
use crate::limits::MAX_QUESTION;
use crate::message::ToolCall;
use crate::result::ResultRequest;
use crate::session::{Handles, READ_RESULT, Session};
use crate::text::counted;
use serde::Deserialize;

/// Handles that an error names.
const MOST_NAMED: usize = 10;

pub(super) const TOOL: StateTool = StateTool {
    name: READ_RESULT,
    description: "Reads on in a result that was too long: its beginning ends with a note that has the handle. Gives a range of its lines, numbered, or with search the lines that contain a text. A very long line counts as several.",
    parameters: r#"{"type":"object","properties":{"handle":{"type":"string","description":"As the note has it: 'result-1'."},"from_line":{"type":"integer","minimum":1,"description":"First line, from 1; 1 by default."},"to_line":{"type":"integer","minimum":1,"description":"Last line, included; the last of the result by default."},"search":{"type":"string","description":"Only lines that contain this text, in upper and lower case as written."}},"required":["handle"],"additionalProperties":false}"#,
    answers: Answers::ByOwner(read),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    handle: String,
    #[serde(default)]
    from_line: Option<u64>,
    #[serde(default)]
    to_line: Option<u64>,
    #[serde(default)]
    search: Option<String>,
}

fn read(session: &Session, call: &ToolCall) -> Result<Question, CallRejection> {
    let asked: Arguments = arguments(call)?;
    let Some(whole) = session.handles.get(&asked.handle) else {
        return Err(unknown(&session.handles, &asked.handle));
    };
    let from = asked.from_line.unwrap_or(1);
    let to = asked.to_line.unwrap_or(u64::MAX);
    check_range(whole, from, to)?;
    let search = asked.search.filter(|text| !text.is_empty());
    if search
        .as_ref()
        .is_some_and(|text| text.len() > MAX_QUESTION || text.contains('\n'))
    {
        let message = format!("search is one line of at most {MAX_QUESTION} bytes");
        return Err(invalid(message));
    }
    Ok(Question::ReadResult(ResultRequest {
        whole: whole.clone(),
        from,
        to,
        search,
    }))
}

fn check_range(whole: &ResultHandle, from: u64, to: u64) -> Result<(), CallRejection> {
    if from == 0 || to < from {
        let message = format!("from_line {from} to to_line {to} is no range; lines count from 1");
        return Err(invalid(message));
    }
    if whole.blobs.is_empty() {
        let message = format!("nothing of '{}' was kept: the store was full", whole.handle);
        return Err(Rejection::refused(CallRefusal::NotFound, message));
    }
    if from > whole.lines {
        let lines = counted(whole.lines, "line");
        let message = format!(
            "from_line {from} is beyond the end: '{}' has {lines}",
            whole.handle
        );
        return Err(invalid(message));
    }
    Ok(())
}

fn unknown(handles: &Handles, handle: &str) -> CallRejection {
    let newest: Vec<&str> = handles.names().rev().take(MOST_NAMED).collect();
    let message = match newest.as_slice() {
        [] => format!("there is no result '{handle}': no result was too long so far"),
        newest => format!(
            "there is no result '{handle}'; the newest are: {}",
            newest.join(", ")
        ),
    };
    Rejection::refused(CallRefusal::NotFound, message)
}
