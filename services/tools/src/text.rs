//! Results are bounded, and say so where they were cut.

use crate::tool::Output;
use cairn_views::file_results::ending;
use std::fmt::Display;

/// Kept free for the lines after the last entry of a [`Listing`].
const TAIL: usize = 512;

/// Cuts `text` to at most `limit` bytes, at a character boundary, with a last line that says so.
pub(crate) fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let notice = format!("\n[cut: the result is longer than {limit} bytes]");
    let keep = text.floor_char_boundary(limit.saturating_sub(notice.len()));
    let mut text = text;
    text.truncate(keep);
    text.push_str(&notice);
    text
}

/// `text` cut to `limit` characters, the last of them `…` if something is missing.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
            short.push('…');
            short
        }
    }
}

/// How many lines `bytes` holds: a last line counts also without its line end.
pub(crate) fn line_count(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    match bytes.last() {
        None | Some(b'\n') => ends,
        Some(_) => ends + 1,
    }
}

/// A result of one line an entry, bounded in entries and in bytes, that counts what it leaves out.
#[derive(Debug)]
pub(crate) struct Listing {
    text: String,
    most_entries: usize,
    most_bytes: usize,
    shown: usize,
    cut: bool,
}

/// A moment of a [`Listing`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    text: usize,
    shown: usize,
    cut: bool,
}

impl Listing {
    /// At most `most_entries` entries, and `most_bytes` bytes with the lines after them.
    pub(crate) fn new(most_entries: usize, most_bytes: usize) -> Self {
        Self {
            text: String::new(),
            most_entries,
            most_bytes: most_bytes.saturating_sub(TAIL),
            shown: 0,
            cut: false,
        }
    }

    /// Takes one more entry; the first that does not fit ends the listing, so that what is shown
    /// is always the first part.
    pub(crate) fn offer<E: Display>(&mut self, entry: impl FnOnce() -> E) {
        if self.cut {
            return;
        }
        if self.shown == self.most_entries {
            self.cut = true;
            return;
        }
        let line = entry().to_string();
        if self.text.len() + line.len() + 1 > self.most_bytes {
            self.cut = true;
            return;
        }
        self.text.push_str(&line);
        self.text.push('\n');
        self.shown += 1;
    }

    /// Where the listing is now, for [`Listing::rewind`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            text: self.text.len(),
            shown: self.shown,
            cut: self.cut,
        }
    }

    /// Takes back the entries since `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.text.truncate(mark.text);
        self.shown = mark.shown;
        self.cut = mark.cut;
    }

    /// The entries, then the totals, then whether something was left out, then `notes`.
    pub(crate) fn finish(mut self, totals: &impl Display, notes: &[String]) -> Output {
        let ending = ending(totals, self.shown, self.cut, notes);
        self.text.push_str(&ending);
        Output::text(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        for unit in ["a", "é", "€", "🦀", "e\u{301}"] {
            for length in 60..140 {
                let text = cut(unit.repeat(100), length);
                assert!(text.len() <= 100 * unit.len());
                if 100 * unit.len() > length {
                    assert!(text.len() <= length, "{unit} {length}: {}", text.len());
                    let (kept, notice) = text.split_once("\n[cut: ").unwrap();
                    assert!(unit.repeat(100).starts_with(kept));
                    assert!(notice.contains(&length.to_string()));
                }
            }
        }
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(cut("é".repeat(50), 100), "é".repeat(50));
    }

    #[test]
    fn lines_are_counted_with_and_without_a_last_line_end() {
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(line_count(text.as_bytes()), lines, "{text:?}");
        }
    }

    #[test]
    fn brief_counts_characters() {
        assert_eq!(brief("🦀🦀🦀", 3), "🦀🦀🦀");
        assert_eq!(brief("🦀🦀🦀🦀", 3), "🦀🦀…");
    }

    #[test]
    fn a_listing_shows_a_first_part() {
        let mut listing = Listing::new(10, TAIL + 8);
        for line in ["abc", "a line that does not fit", "d"] {
            listing.offer(|| line.to_owned());
        }
        let text = listing.finish(&"total: 3", &["note".to_owned()]).text;
        assert_eq!(text, "abc\ntotal: 3\ntruncated: showing the first 1\nnote");
    }
}
