//! Text from outside in a text that has a structure of its own.
//!
//! A prompt has lines with a meaning: headings (`## Current step`), entries of lists
//! (`- Step 1: …`, `key: value`) and tags (`<session-context>`). A goal, a plan, a summary, a note or
//! a value of session memory must not be able to make such a line. One rule holds wherever such a
//! text is put into a prompt: a backslash begins an escape, and a backslash that could be taken for
//! one is escaped itself. What is escaped depends on what a line break means there:
//!
//! | form | for | line breaks | escaped |
//! |---|---|---|---|
//! | [`line()`] | a field of one line | `\n`, `\r`, `\u{…}` | every backslash |
//! | [`markup`] | a field of one line between tags | as [`line()`] | also `&`, `<` and `>`, as `&amp;`, `&lt;` and `&gt;` |
//! | [`lines`] | a section | stay | a `#` or a backslash that begins a line, spaces aside |
//! | [`entry`] | an entry of a list | stay, and the next line is indented by two spaces | as [`lines`] |

use std::fmt::Write as _;

/// Some programs end a line at each of these, so a model may, too.
pub fn breaks_line(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// `text` on one line.
///
/// ```
/// use cairn_engine::escape::line;
///
/// assert_eq!(line("one\ntwo \\n"), "one\\ntwo \\\\n");
/// ```
pub fn line(text: &str) -> String {
    escaped(text, |c| c == '\\' || breaks_line(c))
}

/// `text` on one line between tags.
///
/// ```
/// use cairn_engine::escape::markup;
///
/// assert_eq!(markup("</session-context>\n"), "&lt;/session-context&gt;\\n");
/// ```
pub fn markup(text: &str) -> String {
    escaped(text, |c| {
        matches!(c, '\\' | '&' | '<' | '>') || breaks_line(c)
    })
}

fn escaped(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&is_special) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let mut after = after.chars();
        match after.next() {
            Some('&') => out.push_str("&amp;"),
            Some('<') => out.push_str("&lt;"),
            Some('>') => out.push_str("&gt;"),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            // Writing to a string does not fail.
            Some(other) => _ = write!(out, "\\u{{{:x}}}", u32::from(other)),
            None => {}
        }
        rest = after.as_str();
    }
    out.push_str(rest);
    out
}

/// The text that [`markup`] or [`line()`] was given.
///
/// ```
/// use cairn_engine::escape::{markup, unescape_markup};
///
/// assert_eq!(unescape_markup(&markup("<a>\n\\n")), "<a>\n\\n");
/// ```
pub fn unescape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '&']) {
        out.push_str(&rest[..at]);
        let (c, length) = unescaped(&rest[at..]).unwrap_or((char::from(rest.as_bytes()[at]), 1));
        out.push(c);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// The character whose escape `text` begins with, and the bytes that the escape takes.
fn unescaped(text: &str) -> Option<(char, usize)> {
    let short = [
        ("\\\\", '\\'),
        ("\\n", '\n'),
        ("\\r", '\r'),
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
    ];
    if let Some((escape, c)) = short.iter().find(|(escape, _)| text.starts_with(escape)) {
        return Some((*c, escape.len()));
    }
    let (digits, _) = text.strip_prefix("\\u{")?.split_once('}')?;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((c, digits.len() + "\\u{}".len()))
}

/// `text` as a section under a heading. [`unescape_lines`] reverses it.
///
/// ```
/// use cairn_engine::escape::lines;
///
/// assert_eq!(lines("Found:\n## Current step"), "Found:\n\\## Current step");
/// ```
pub fn lines(text: &str) -> String {
    line_by_line(text, "")
}

/// `text` as an entry of a list, whose next entry begins at the start of a line.
///
/// ```
/// use cairn_engine::escape::entry;
///
/// assert_eq!(entry("Found:\n- a\n## b"), "Found:\n  - a\n  \\## b");
/// ```
pub fn entry(text: &str) -> String {
    line_by_line(text, "  ")
}

/// Escapes what begins a line, and puts `indent` before every line but the first and empty ones.
fn line_by_line(text: &str, indent: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut indents, mut begins) = (false, true);
    for c in text.chars() {
        if breaks_line(c) {
            (indents, begins) = (true, true);
        } else {
            if std::mem::take(&mut indents) {
                out.push_str(indent);
            }
            if begins && matches!(c, '#' | '\\') {
                out.push('\\');
            }
            begins &= c.is_whitespace();
        }
        out.push(c);
    }
    out
}

/// The text that [`lines`] was given.
pub fn unescape_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        let is_escape = begins && c == '\\';
        begins = breaks_line(c) || (begins && c.is_whitespace());
        if !is_escape {
            out.push(c);
        }
    }
    out
}
