//! `read_result`: a piece of a long result.

use super::{Answers, CallRefusal, CallRejection, Question, StateTool, invalid};
use crate::decide::Rejection;
use crate::event::{CallRef, ResultHandle};
use crate::limits::MAX_QUESTION;
use crate::message::ToolCall;
use crate::result::ResultRequest;
use crate::session::{Handles, READ_RESULT, Session};
use crate::text::{counted, cut};
use serde_json::{Map, Value};

/// Handles that an error names.
const MOST_NAMED: usize = 10;

pub(super) const TOOL: StateTool = StateTool {
    name: READ_RESULT,
    description: "Reads on in a result that was too long: its beginning ends with a note that has the handle. Gives a range of its lines, numbered, or with search the lines that contain a text. A very long line counts as several.",
    parameters: r#"{"type":"object","properties":{"handle":{"type":"string","description":"As the note has it, such as 'result-1-9f86'."},"from_line":{"type":"integer","minimum":1,"description":"First line, from 1; 1 by default."},"to_line":{"type":"integer","minimum":1,"description":"Last line, included; the last of the result by default."},"search":{"type":"string","description":"Only lines that contain this text, in upper and lower case as written."}},"required":["handle"],"additionalProperties":false}"#,
    answers: Answers::ByOwner(read),
};

/// The names of the arguments.
const NAMES: [&str; 4] = ["handle", "from_line", "to_line", "search"];
/// What each of the arguments may be.
const HANDLE: &str = "the name of a result, as its note has it";
const LINE: &str = "a whole number from 1";
const SEARCH: &str = "a text";
/// Characters of a value that an error shows.
const MOST_SHOWN: usize = 40;

/// The arguments, taken one by one, so that an error names what is wrong and what is allowed.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn of(call: &ToolCall) -> Result<Self, CallRejection> {
        let text = match call.arguments.trim() {
            "" => "{}",
            text => text,
        };
        let Ok(Value::Object(given)) = serde_json::from_str(text) else {
            let message =
                "wrong arguments; allowed is a JSON object such as {\"handle\": \"result-1\"}";
            return Err(invalid(message));
        };
        if let Some(unknown) = given.keys().find(|name| !NAMES.contains(&name.as_str())) {
            let (unknown, names) = (cut(unknown, MOST_SHOWN), NAMES.join(", "));
            let message = format!("there is no argument '{unknown}'; there are {names}");
            return Err(invalid(message));
        }
        Ok(Self(given))
    }

    /// A value that is null counts as none.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str, allowed: &str) -> Result<Option<String>, CallRejection> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, &other, allowed)),
        }
    }

    fn line(&mut self, name: &str) -> Result<Option<u64>, CallRejection> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(0) => Err(invalid(format!("{name} is 0; lines count from 1"))),
            Some(line) => Ok(Some(line)),
            None => Err(wrong(name, &value, LINE)),
        }
    }
}

fn wrong(name: &str, value: &Value, allowed: &str) -> CallRejection {
    let value = cut(&value.to_string(), MOST_SHOWN);
    invalid(format!("{name} is {value}; allowed is {allowed}"))
}

fn read(session: &Session, _: CallRef, call: &ToolCall) -> Result<Question, CallRejection> {
    let mut asked = Arguments::of(call)?;
    let Some(handle) = asked.text("handle", HANDLE)? else {
        return Err(invalid(format!("handle is missing; allowed is {HANDLE}")));
    };
    let Some(whole) = session.handles.get(&handle) else {
        return Err(unknown(&session.handles, &handle));
    };
    let from = asked.line("from_line")?.unwrap_or(1);
    let to = asked.line("to_line")?.unwrap_or(u64::MAX);
    check_range(whole, from, to)?;
    let search = asked.text("search", SEARCH)?;
    let search = search.filter(|text| !text.is_empty());
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
    if to < from {
        let message = format!("to_line {to} is before from_line {from}");
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
