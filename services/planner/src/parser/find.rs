//! Finds the plan in a text that may hold prose, code fences and several JSON objects.

use super::PlanParseError;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Returns the last JSON object of the text that has `steps`.
///
/// Objects are tried wherever a brace opens. What a broken object covers up to its fault is not
/// searched again: its parts are not plans, and the search takes time in proportion to the text.
/// Without a plan, the longest thing that was tried says what is wrong.
pub(super) fn find_plan(text: &str) -> Result<Object, PlanParseError> {
    let mut plan = None;
    let mut fault = (0, PlanParseError::NoJson);
    let mut from = 0;
    while let Some(start) = text[from..].find('{').map(|at| from + at) {
        let mut objects = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Object>();
        match objects.next() {
            Some(Ok(object)) => {
                from = start + objects.byte_offset();
                if object.contains_key("steps") {
                    plan = Some(object);
                } else {
                    keep_longest(&mut fault, from - start, || PlanParseError::MissingSteps);
                }
            }
            Some(Err(error)) => {
                from = fault_offset(text, start, &error).max(start + 1);
                keep_longest(&mut fault, from - start, || bad_json(text, start, &error));
            }
            None => break,
        }
    }
    plan.ok_or(fault.1)
}

/// The error of JSON that begins at `start`, with its place in the whole text.
pub(super) fn bad_json(text: &str, start: usize, error: &serde_json::Error) -> PlanParseError {
    let before = &text[..fault_offset(text, start, error)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let message = error.to_string();
    let cause = message.split(" at line ").next().unwrap_or(&message);
    PlanParseError::BadJson {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        cause: cause.to_owned(),
    }
}

fn keep_longest(
    fault: &mut (usize, PlanParseError),
    length: usize,
    error: impl FnOnce() -> PlanParseError,
) {
    if length > fault.0 {
        *fault = (length, error());
    }
}

/// Where in the text the fault lies. serde_json counts lines, and bytes in the line, from `start`.
fn fault_offset(text: &str, start: usize, error: &serde_json::Error) -> usize {
    let mut line_start = start;
    for _ in 1..error.line() {
        let Some(newline) = text[line_start..].find('\n') else {
            break;
        };
        line_start += newline + 1;
    }
    let offset = line_start + error.column().saturating_sub(1);
    text.floor_char_boundary(offset.min(text.len()))
}
