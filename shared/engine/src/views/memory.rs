//! Session memory as the text that a system prompt gets.

use std::fmt::Write as _;

/// Renders entries: a line `key: value` for each, in the order given (by key, as session memory is
/// read), between `<session-context>` and `</session-context>`; nothing at all without entries.
///
/// Neither a key nor a value can end its line or the text: `&`, `<` and `>` are written `&amp;`,
/// `&lt;` and `&gt;`, and every line break as its two-character escape `\n` or `\r` (other
/// characters that some programs take for a line break as `\u{…}`).
///
/// ```
/// use cairn_engine::views::memory::snapshot;
///
/// let (key, value) = ("note".to_owned(), "1 < 2\nyes".to_owned());
/// assert_eq!(
///     snapshot([(&key, &value)]),
///     "<session-context>\nnote: 1 &lt; 2\\nyes\n</session-context>"
/// );
/// ```
pub fn snapshot<'a>(entries: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let lines: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{}: {}", escape(key), escape(value)))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<session-context>\n{}\n</session-context>",
        lines.join("\n")
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            other => out.push(other),
        }
    }
    out
}
