//! Session memory as text for a model.

use crate::escape::{markup, unescape_markup};
use std::collections::BTreeMap;

const BEGIN: &str = "<session-context>\n";
const END: &str = "\n</session-context>";
const BEGIN_CHANGES: &str = "<session-context-changes>\n";
const END_CHANGES: &str = "\n</session-context-changes>";
/// Stands for no entries. The line of an entry has a `: `.
const EMPTY: &str = "(empty)";

/// Renders entries: a line `key: value` for each, in the order given (by key, as session memory is
/// read), between `<session-context>` and `</session-context>`; nothing at all without entries.
///
/// Neither a key nor a value can end its line or the text: see [`markup`]. The first `: ` of a line
/// ends the key, because a space after a colon in a key is written `\u{20}`.
///
/// ```
/// use cairn_engine::prompt::memory::snapshot;
///
/// let (key, value) = ("note".to_owned(), "1 < 2\nyes".to_owned());
/// assert_eq!(
///     snapshot([(&key, &value)]),
///     "<session-context>\nnote: 1 &lt; 2\\nyes\n</session-context>"
/// );
/// ```
pub fn snapshot<'a>(entries: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    match list(entries).as_str() {
        "" => String::new(),
        lines => format!("{BEGIN}{lines}{END}"),
    }
}

/// The lines of [`snapshot`] without the tags.
pub fn list<'a>(entries: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let lines = entries.into_iter().map(|(key, value)| entry(key, value));
    lines.collect::<Vec<_>>().join("\n")
}

/// As [`snapshot`]; without entries, it says so between the tags.
pub fn whole<'a>(entries: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let lines = list(entries);
    let shown = if lines.is_empty() {
        EMPTY
    } else {
        lines.as_str()
    };
    format!("{BEGIN}{shown}{END}")
}

/// Renders keys that changed: as in [`snapshot`], and those without a value alone on their lines, between
/// `<session-context-changes>` and `</session-context-changes>`.
///
/// ```
/// use cairn_engine::prompt::memory::changes;
///
/// assert_eq!(
///     changes([("draft", None), ("note", Some("1 < 2"))]),
///     "<session-context-changes>\ndraft\nnote: 1 &lt; 2\n</session-context-changes>"
/// );
/// ```
pub fn changes<'a>(keys: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let lines = keys.into_iter().map(|(key, value)| match value {
        Some(value) => entry(key, value),
        None => name(key),
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("{BEGIN_CHANGES}{lines}{END_CHANGES}")
}

fn entry(key: &str, value: &str) -> String {
    format!("{}: {}", name(key), markup(value))
}

fn name(key: &str) -> String {
    markup(key).replace(": ", ":\\u{20}")
}

/// The entries after all that these texts, oldest first, show of session memory: a [`snapshot`] takes the
/// place of what was before it, and [`changes`] add to it. None without either.
///
/// ```
/// use cairn_engine::prompt::memory::{changes, read, snapshot};
///
/// let (key, value) = ("note".to_owned(), "1 < 2\nyes".to_owned());
/// let text = format!("# Step\n\n{}", snapshot([(&key, &value)]));
/// let changed = changes([("note", None), ("tone", Some("dry"))]);
/// assert_eq!(read([&*text]).unwrap()["note"], value);
/// assert_eq!(read([&*text, &*changed]).unwrap().keys().collect::<Vec<_>>(), ["tone"]);
/// assert_eq!(read(["# Step"]), None);
/// ```
pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<BTreeMap<String, String>> {
    let mut entries = None;
    for mut rest in texts {
        while let Some((is_whole, lines, after)) = next(rest) {
            let shown = entries.get_or_insert_with(BTreeMap::new);
            if is_whole {
                shown.clear();
            }
            for line in lines.lines() {
                match line.split_once(": ") {
                    Some((key, value)) => {
                        shown.insert(unescape_markup(key), unescape_markup(value));
                    }
                    None => _ = shown.remove(&unescape_markup(line)),
                }
            }
            rest = after;
        }
    }
    entries
}

/// The lines of the first snapshot or changes in a text, whether they are a snapshot, and what follows.
fn next(text: &str) -> Option<(bool, &str, &str)> {
    let (whole, changes) = (text.find(BEGIN), text.find(BEGIN_CHANGES));
    let (at, begin, end) = match (whole, changes) {
        (Some(at), changes) if changes.is_none_or(|other| at < other) => (at, BEGIN, END),
        (_, changes) => (changes?, BEGIN_CHANGES, END_CHANGES),
    };
    let (lines, after) = text[at + begin.len()..].split_once(end)?;
    Some((begin == BEGIN, lines, after))
}
