//! Text that should stand in quotes and does not.
//!
//! Descriptions of agents are often written on one line with `: ` in it, or over several lines that are not
//! indented, with examples of conversations. Other programs read them, though they are no YAML. Only fields
//! that hold prose are read so: no right depends on them.

use super::{Entry, Value};
use crate::names::{key_of, nearest};

/// Fields of prose, as they are compared.
const PROSE: [&str; 5] = [
    "description",
    "argumenthint",
    "compatibility",
    "license",
    "whentouse",
];

/// Fields of prose that were taken out of front matter.
#[derive(Debug)]
pub(super) struct Taken {
    /// With their lines in the front matter, from 1.
    pub(super) entries: Vec<Entry>,
    /// The front matter with empty lines in their place, so that the other lines keep their numbers.
    pub(super) rest: String,
}

/// Takes fields of prose out of front matter. None if it has none without quotes.
pub(super) fn take(source: &str, known: &[&str]) -> Option<Taken> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest = String::with_capacity(source.len());
    // The text of the field that is taken now.
    let mut open: Option<String> = None;
    for (line, number) in source.split('\n').zip(1..) {
        if number > 1 {
            rest.push('\n');
        }
        let field = field_of(line).filter(|(name, _)| is_meant(name, known));
        if let (None, Some(text)) = (field, &mut open) {
            text.push('\n');
            text.push_str(line);
            continue;
        }
        close(&mut open, &mut entries);
        match field {
            Some((name, text)) if is_prose(name) && is_plain(text) => {
                open = Some(text.to_owned());
                entries.push(Entry {
                    line: number,
                    name: name.to_owned(),
                    value: Value::Nothing,
                });
            }
            _ => rest.push_str(line),
        }
    }
    close(&mut open, &mut entries);
    (!entries.is_empty()).then_some(Taken { entries, rest })
}

/// Gives the last entry the text that was gathered for it.
fn close(open: &mut Option<String>, entries: &mut [Entry]) {
    if let (Some(text), Some(entry)) = (open.take(), entries.last_mut()) {
        entry.value = Value::Text(text.trim().to_owned());
    }
}

/// Name and value, if the line may begin a field.
fn field_of(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part);
    let is_field = is_name && (value.is_empty() || value.starts_with([' ', '\t']));
    is_field.then_some((name, value))
}

/// Whether the name is one of a field, also a misspelled one: it must not vanish in a text.
fn is_meant(name: &str, known: &[&str]) -> bool {
    nearest(name, known).is_some()
}

fn is_prose(name: &str) -> bool {
    PROSE.contains(&key_of(name).as_str())
}

/// Whether the text has neither quotes around it nor the mark of a block.
fn is_plain(text: &str) -> bool {
    !matches!(
        text.trim_start().chars().next(),
        None | Some('"' | '\'' | '|' | '>' | '#')
    )
}
