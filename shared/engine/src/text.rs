//! Small pieces of text.

use crate::escape::breaks_line;

/// The mark of the byte order, with which editors on Windows begin a text in UTF-8.
pub const BOM: &str = "\u{feff}";

/// The text of a file without [`BOM`], which parsers of JSON refuse.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// What an output is about, on one line: the first line that says something, cut to `limit`
/// characters, and how many more lines say something.
pub fn headline(output: &str, limit: usize) -> String {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else {
        return "no output".to_owned();
    };
    let words: Vec<_> = first.split_whitespace().collect();
    let first = cut(&words.join(" "), limit);
    match lines.count() {
        0 => first,
        more => format!("{first} (+{})", counted(more, "line")),
    }
}

/// `1 line`, `2 lines`. A number that is no `u64` counts as its greatest.
pub fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// The first line that says something, without white space around it.
pub fn first_line(text: &str) -> Option<&str> {
    let lines = text.split(breaks_line);
    lines.map(str::trim).find(|line| !line.is_empty())
}

/// `text`, with "…" for what is more than `limit` characters.
pub fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_at_the_beginning_is_skipped() {
        for (text, expected) in [
            ("\u{feff}{}", "{}"),
            ("{}", "{}"),
            ("", ""),
            ("\u{feff}", ""),
            ("\u{feff}\u{feff}a", "\u{feff}a"),
            ("a\u{feff}", "a\u{feff}"),
        ] {
            assert_eq!(without_bom(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_headline_says_how_much_it_leaves_out() {
        for (output, expected) in [
            ("", "no output"),
            (" \n\t\n", "no output"),
            ("\n  one\ttwo  \n\n", "one two"),
            ("one\ntwo", "one (+1 line)"),
            ("\none\n\ntwo\n \nthree\n", "one (+2 lines)"),
            ("123456789\nmore", "12345678… (+1 line)"),
            ("äöüäöüäöü", "äöüäöüäö…"),
        ] {
            assert_eq!(headline(output, 8), expected);
        }
    }
}
