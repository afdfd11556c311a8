//! Session memory as the text that a system prompt gets.

use std::fmt::Write as _;

/// Renders entries, sorted by key, as `<session-context>` text; empty without entries.
///
/// Line breaks and angle brackets are escaped, so that no key and no value can end the text early
/// or look like another entry.
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
