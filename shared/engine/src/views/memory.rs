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
    let mut text = String::new();
    for (key, value) in entries {
        text.push_str(match text.is_empty() {
            true => "<session-context>\n",
            false => "\n",
        });
        escape(key, &mut text);
        text.push_str(": ");
        escape(value, &mut text);
    }
    if !text.is_empty() {
        text.push_str("\n</session-context>");
    }
    text
}

fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    // Most texts have none, and a look at bytes is much faster than one at characters.
    while rest.bytes().any(begins_special)
        && let Some((at, special)) = rest.char_indices().find(|(_, c)| is_special(*c))
    {
        out.push_str(&rest[..at]);
        rest = &rest[at + special.len_utf8()..];
        match special {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            // Writing to a string does not fail.
            other => _ = write!(out, "\\u{{{:x}}}", u32::from(other)),
        }
    }
    out.push_str(rest);
}

/// Whether it is the first byte of a special character, or of some others.
fn begins_special(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'>' | b'\n'..=b'\r' | 0xc2 | 0xe2)
}

/// A mark of the markup, or an end of a line.
fn is_special(c: char) -> bool {
    matches!(
        c,
        '&' | '<' | '>' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}
