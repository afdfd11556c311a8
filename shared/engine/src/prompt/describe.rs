//! The one line that says what a call, a result, a text or a goal is about.

use crate::text::{brief, first_sentence, one_line};
use serde_json::Value;

/// Longest description, in characters.
const MOST: usize = 200;
/// Longest value of one argument, in characters.
const MOST_OF_ARGUMENT: usize = 60;
/// Most arguments that are shown.
const MOST_ARGUMENTS: usize = 3;

/// The tool with its first simple arguments: `read_file(notes.md)`, or
/// `search_files(pattern=TODO, path=docs)` if there are several.
pub fn call(tool: &str, arguments: &str) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) else {
        let text = brief(arguments, MOST_OF_ARGUMENT);
        return if text.is_empty() {
            tool.to_owned()
        } else {
            format!("{tool}({text})")
        };
    };
    let simple = arguments.iter().filter_map(|(name, value)| match value {
        Value::String(text) => Some((name, brief(text, MOST_OF_ARGUMENT))),
        // A number may have any number of digits.
        Value::Number(_) | Value::Bool(_) => {
            Some((name, brief(&value.to_string(), MOST_OF_ARGUMENT)))
        }
        _ => None,
    });
    let simple: Vec<_> = simple.take(MOST_ARGUMENTS).collect();
    match &simple[..] {
        [] => tool.to_owned(),
        [(_, only)] => format!("{tool}({only})"),
        several => {
            let pairs = several
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            format!("{tool}({})", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Of a model's text: its first sentence.
pub fn text(text: &str) -> String {
    first_sentence(text, MOST)
}

/// Of a result: its first line that says something, which by custom is its title. `rest` follows the beginning
/// of a long result.
pub fn result(output: &str, rest: &str) -> String {
    let most = MOST.saturating_sub(rest.chars().count());
    let first = brief(output, most);
    match rest {
        "" => first,
        rest => format!("{first} {rest}"),
    }
}

/// Of a goal or an evaluation: the text itself, on one line.
pub fn whole(text: &str) -> String {
    one_line(text, MOST)
}
