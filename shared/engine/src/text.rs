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
    let first = one_line(first, limit);
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

/// `512 bytes`, `31.2 KiB`, `5.0 MiB`.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    let tenths = |unit: u64| {
        let tenths = bytes.saturating_mul(10) / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..KIB => counted(bytes, "byte"),
        KIB..0x10_0000 => format!("{} KiB", tenths(KIB)),
        _ => format!("{} MiB", tenths(KIB * KIB)),
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

/// `text` on one line, with one space between words, cut to `limit` characters.
pub fn one_line(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(&words.join(" "), limit)
}

/// The first line of `text`, without white space around it, cut to `limit` characters.
pub fn brief(text: &str, limit: usize) -> String {
    let line = text.trim().split(breaks_line).next().unwrap_or_default();
    cut(line.trim_end(), limit)
}

/// Abbreviations that a name or a number follows. Those that a sentence may end with, such as
/// `etc.`, are not among them.
const ABBREVIATIONS: [&str; 12] = [
    "al", "approx", "ca", "cf", "dr", "eq", "fig", "incl", "mr", "mrs", "prof", "vs",
];

/// The first sentence of `text`, cut to `limit` characters.
pub fn first_sentence(text: &str, limit: usize) -> String {
    let line = brief(text, usize::MAX);
    let end = line
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .find(|&end| ends_sentence(&line[..end], &line[end..]));
    cut(&line[..end.unwrap_or(line.len())], limit)
}

/// Whether a sentence ends between these two parts of a line.
fn ends_sentence(before: &str, after: &str) -> bool {
    let is_apart = after.is_empty() || after.starts_with(char::is_whitespace);
    match before.chars().next_back() {
        Some('。' | '！' | '？') => true,
        Some('!' | '?') => is_apart,
        Some('.') => is_apart && !is_within_sentence(&before[..before.len() - 1], after),
        _ => false,
    }
}

/// Whether the dot between these two is not the end of a sentence: it belongs to an abbreviation or
/// to the number of a list, or the next word is in lower case.
fn is_within_sentence(before: &str, after: &str) -> bool {
    if after.trim_start().starts_with(char::is_lowercase) {
        return true;
    }
    let mut words = before.rsplit(|c: char| !c.is_alphanumeric() && c != '.');
    let word = words.next().unwrap_or_default();
    let is_number_of_list = word == before && word.chars().all(|c| c.is_ascii_digit());
    let letters = || word.split('.').all(|part| part.chars().count() == 1);
    let is_known = || ABBREVIATIONS.contains(&word.to_lowercase().as_str());
    let has_more = !after.trim().is_empty();
    has_more && (is_number_of_list || (word.contains('.') && letters()) || is_known())
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

    #[test]
    fn a_sentence_does_not_end_within_an_abbreviation() {
        for (text, expected) in [
            ("Read it. Then go on.", "Read it."),
            (
                "Look at stores, e.g. Redis. Then write.",
                "Look at stores, e.g. Redis.",
            ),
            ("The U.S. Senate met. It rose.", "The U.S. Senate met."),
            ("Compare, cf. Fig. 3. Done.", "Compare, cf. Fig. 3."),
            ("Two files, incl. tests. Done.", "Two files, incl. tests."),
            ("Files, logs etc. Then more.", "Files, logs etc."),
            ("1. Read the file. 2. Write.", "1. Read the file."),
            ("See README.md. It says why.", "See README.md."),
            ("Really? Yes.", "Really?"),
            ("v1.2 is out", "v1.2 is out"),
            ("完成。然后", "完成。"),
            ("It ends with e.g.", "It ends with e.g."),
            ("one line\rtwo", "one line"),
        ] {
            assert_eq!(first_sentence(text, 100), expected);
        }
        assert_eq!(first_sentence("Much too long.", 8), "Much too…");
    }
}
