//! Session memory as text for a model.

use crate::escape::{markup, unescape_markup};

const BEGIN: &str = "<session-context>\n";
const END: &str = "\n</session-context>";

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
    let lines = entries.into_iter().map(|(key, value)| {
        let key = markup(key).replace(": ", ":\\u{20}");
        format!("{key}: {}", markup(value))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The entries of the last [`snapshot`] in a text; none without one. A reminder that session memory has
/// become empty counts as a snapshot without entries.
///
/// ```
/// use cairn_engine::prompt::memory::{read, snapshot};
///
/// let (key, value) = ("note".to_owned(), "1 < 2\nyes".to_owned());
/// let text = format!("# Step\n\n{}", snapshot([(&key, &value)]));
/// assert_eq!(read(&text), Some(vec![(key, value)]));
/// assert_eq!(read("# Step"), None);
/// ```
pub fn read(text: &str) -> Option<Vec<(String, String)>> {
    let emptied = text.rfind(super::EMPTIED);
    let at = text.rfind(BEGIN).filter(|at| Some(*at) > emptied);
    let Some(at) = at else {
        return emptied.map(|_| Vec::new());
    };
    let (lines, _) = text[at + BEGIN.len()..].split_once(END)?;
    let entries = lines.lines().filter_map(|line| line.split_once(": "));
    let entries = entries.map(|(key, value)| (unescape_markup(key), unescape_markup(value)));
    Some(entries.collect())
}
