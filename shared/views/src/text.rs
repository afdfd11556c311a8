//! The beginning of a text, on one line.

use cairn_engine::escape::breaks_line;
use cairn_engine::text::cut;

/// The first line of `text`, without white space around it, cut to `limit` characters.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    let line = text.trim().split(breaks_line).next().unwrap_or_default();
    cut(line.trim_end(), limit)
}

/// Abbreviations that a name or a number follows. Those that a sentence may end with, such as
/// `etc.`, are not among them.
const ABBREVIATIONS: [&str; 12] = [
    "al", "approx", "ca", "cf", "dr", "eq", "fig", "incl", "mr", "mrs", "prof", "vs",
];

/// The first sentence of `text`, cut to `limit` characters.
pub(crate) fn first_sentence(text: &str, limit: usize) -> String {
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
