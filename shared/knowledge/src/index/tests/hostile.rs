//! Texts that could make a search slow or end it.

use super::{Page, query};
use crate::{Index, excerpt};
use std::time::{Duration, Instant};

/// The most that a page may have.
const BYTES: usize = 200 * 1024;

fn long(piece: &str) -> String {
    piece.repeat(BYTES / piece.len())
}

fn texts() -> Vec<String> {
    let pieces = [
        "a",
        "A",
        "aB",
        "_",
        "a_",
        "1.",
        "'",
        "a'",
        "字",
        "的",
        "为什",
        "\u{301}",
        "a\u{301}",
        "\u{3099}",
        "\u{1d165}",
        "👩\u{200d}👩\u{200d}👧",
        "🏳\u{fe0f}",
        "שלום",
        "مرحبا ",
        "\u{202e}abc",
        "ﷺ",
        "\u{0}",
        "\n",
        "字\n",
        " ",
        "ทดสอบ",
        "नमस्ते ",
        "İ",
        "각",
        "\u{1100}\u{1161}",
        "\u{fffd}",
        "\u{10ffff}",
    ];
    let mut texts: Vec<_> = pieces.into_iter().map(long).collect();
    texts.extend(["", " ", "a", "的", "👍", "\u{301}"].map(str::to_owned));
    texts.push((0..BYTES / 6).map(|word| format!("{word:x} ")).collect());
    texts.push(('\u{4e00}'..'\u{9fff}').cycle().take(BYTES / 3).collect());
    texts
}

#[test]
fn every_text_can_be_indexed_searched_and_cut() {
    for text in texts() {
        let start = Instant::now();
        let tag: String = text.chars().take(64).collect();
        let page = Page::new("Title", &text, &[&tag]);
        let mut index = Index::new();
        index.put("page", 1, page.entry());
        for hit in index.search(&query(&text)) {
            assert!(hit.score > 0.0 && hit.score <= 1.0, "{hit:?}");
        }
        for most in [0, 1, 5, 100, 2048] {
            assert!(excerpt(&text, "a 字 1", most).len() <= most);
        }
        assert!(excerpt(&text, &text, 2048).len() <= 2048);
        assert!(index.remove("page"));
        assert_eq!(index.bytes(), 0);
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{tag:?}: {:?}",
            start.elapsed()
        );
    }
}
