use super::*;

fn request(from: u64, to: u64, search: Option<&str>) -> ResultRequest {
    ResultRequest {
        whole: ResultHandle {
            handle: "result-1".to_owned(),
            lines: 1000,
            ..ResultHandle::default()
        },
        from,
        to,
        search: search.map(str::to_owned),
    }
}

fn text() -> String {
    (1..=1000).map(|line| format!("line {line}\n")).collect()
}

/// The answer, from a text in parts of so many bytes.
fn answer(text: &str, asked: ResultRequest, most: usize, part: usize) -> Result<String, String> {
    let mut excerpt = Excerpt::new(asked, most);
    let mut rest = text;
    while !rest.is_empty() && !excerpt.is_done() {
        let (now, after) = rest.split_at(rest.ceil_char_boundary(part.min(rest.len())));
        excerpt.take(now)?;
        rest = after;
    }
    excerpt.finish()
}

#[test]
fn the_head_ends_with_a_line_or_between_characters() {
    let crlf = "abc\r\n".repeat(3);
    for (text, most, expected) in [
        ("", 0, ""),
        ("", 10, ""),
        ("abc", 3, "abc"),
        ("abc", 2, "ab"),
        ("abcdef\nxyz", 8, "abcdef\n"),
        // The line ends in the first half: more of the next one is worth more.
        ("a\nbcdefgh", 8, "a\nbcdefg"),
        ("ééé", 3, "é"),
        ("🦀🦀", 7, "🦀"),
        ("🦀", 3, ""),
        ("abc\r\nxyz", 4, "abc"),
        ("abc\r\nxyz", 5, "abc\r\n"),
        (crlf.as_str(), 9, "abc\r\n"),
        (crlf.as_str(), 10, "abc\r\nabc\r\n"),
        ("abcd\refgh", 5, "abcd\r"),
    ] {
        let head = head(text, most);
        assert_eq!(head, expected, "{text:?} {most}");
        assert!(head.len() <= most || text.len() <= most);
    }
    let giant = "x".repeat(100_000);
    assert_eq!(head(&giant, 1000).len(), 1000);
}

#[test]
fn a_range_says_how_to_read_on() {
    for part in [1, 100, usize::MAX] {
        let few = answer(&text(), request(998, u64::MAX, None), 4096, part).unwrap();
        let expected = "result-1: lines 998 to 1000 of 1000 lines\n998\tline 998\n999\tline 999\n1000\tline 1000";
        assert_eq!(few, expected);
        let some = answer(&text(), request(10, 12, None), 4096, part).unwrap();
        assert!(some.ends_with("12\tline 12"), "{some}");
        let many = answer(&text(), request(1, u64::MAX, None), 1024, part).unwrap();
        assert!(many.len() <= 1024, "{}", many.len());
        let shown = many.lines().count() - 2;
        let next = format!("[read on with from_line {}]", shown + 1);
        assert!(many.ends_with(&next), "{many}");
        assert!(shown > 20, "{many}");
    }
}

#[test]
fn a_line_that_does_not_fit_is_shown_in_part() {
    let giant = "x".repeat(3 * MAX_LINE);
    let asked = |from| ResultRequest {
        whole: ResultHandle {
            lines: 3,
            ..request(1, 1, None).whole
        },
        ..request(from, u64::MAX, None)
    };
    let first = answer(&giant, asked(1), 1024, 100).unwrap();
    assert!(first.len() <= 1024, "{}", first.len());
    assert!(first.ends_with(" …\n[read on with from_line 2]"), "{first}");
    let last = answer(&giant, asked(3), 1024, 100).unwrap();
    assert!(last.ends_with(" …"), "{last}");
    let whole = answer(&giant, asked(1), 32 * 1024, 100).unwrap();
    assert_eq!(whole.matches('x').count(), giant.len());
}

#[test]
fn a_search_counts_all_and_shows_the_first() {
    let found = answer(&text(), request(1, u64::MAX, Some("line 99")), 4096, 7).unwrap();
    assert!(
        found.starts_with("result-1: 11 lines of 1000 lines contain 'line 99'\n99\tline 99\n990\t")
    );
    let many = answer(&text(), request(101, 900, Some("line")), 32 * 1024, 999).unwrap();
    assert!(many.starts_with("result-1: 800 lines of"), "{many}");
    assert!(many.ends_with("[the first 200 lines are shown; search on with from_line 301]"));
    let none = answer(&text(), request(1, u64::MAX, Some("LINE")), 4096, 999).unwrap();
    assert_eq!(none, "result-1: 0 lines of 1000 lines contain 'LINE'");
}

#[test]
fn a_search_says_what_it_is_about() {
    for (from, to, lines) in [
        (1, 1000, "1000 lines"),
        (5, u64::MAX, "lines 5 to 1000"),
        (1, 999, "lines 1 to 999"),
        (7, 7, "lines 7 to 7"),
    ] {
        let none = answer(&text(), request(from, to, Some("LINE")), 4096, 999).unwrap();
        assert_eq!(none, format!("result-1: 0 lines of {lines} contain 'LINE'"));
    }
    for (lost_bytes, is_cut, kept) in [
        (0, true, "its tool gave more, which was not kept"),
        (600, false, "its last 600 bytes were not kept"),
        (600, true, "its last 600 bytes were not kept"),
    ] {
        let mut asked = request(1, u64::MAX, Some("line 1000"));
        (asked.whole.lost_bytes, asked.whole.is_cut) = (lost_bytes, is_cut);
        let found = answer(&text(), asked, 4096, 999).unwrap();
        let expected =
            format!("result-1: 1 line of 1000 lines contain 'line 1000' ({kept})\n1000\tline 1000");
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_binary_or_lost_is_said_in_words() {
    let binary = answer("a\0b", request(1, 1, None), 4096, 10).unwrap_err();
    assert_eq!(binary, "'result-1' is binary; only text can be read");
    let lost = answer("line 1\n", request(500, 510, None), 4096, 10).unwrap_err();
    assert!(
        lost.starts_with("nothing of these lines was kept"),
        "{lost}"
    );
}
