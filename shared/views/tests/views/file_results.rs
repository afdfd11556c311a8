//! What the file tools write is read back, and no content of a file can change what is read.

use cairn_views::file_results::{
    Excerpt, FileKind, FileList, FileTotals, ListedFile, MatchTotals, MatchedLine, Matches,
    NotAResult, Written,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A path as the tools show it: no tab, no line break, and not empty.
fn path() -> impl Strategy<Value = String> {
    let tricky = [
        "a:3:",
        "total: 1 file, 2 bytes, 3 text, 4 binary",
        "docs/a lines 1-2 of 3.md",
        "truncated: showing the first 2",
        "wrote x: 1 byte, 2 lines",
    ];
    prop_oneof![
        "[^\t\n\r]{1,20}",
        proptest::sample::select(tricky.to_vec()).prop_map(str::to_owned)
    ]
}

fn text() -> impl Strategy<Value = String> {
    let tricky = ["b.md:7:\tx", "total: 9 files, 1 byte, 1 text, 1 binary"];
    let tricky = proptest::sample::select(tricky.to_vec()).prop_map(str::to_owned);
    prop_oneof!["[^\n]{0,40}", tricky]
}

fn notes() -> impl Strategy<Value = Vec<String>> {
    vec("skipped: [a-z ]{1,20}", 0..3)
}

fn file_list() -> impl Strategy<Value = FileList> {
    let kinds = [FileKind::Text, FileKind::Binary, FileKind::Unreadable];
    let kind = proptest::sample::select(kinds.to_vec());
    let file = (path(), any::<u64>(), option::of(any::<u64>()), kind);
    let file = file.prop_map(|(path, bytes, lines, kind)| ListedFile {
        path,
        bytes,
        lines,
        kind,
    });
    let totals =
        any::<[u64; 5]>().prop_map(|[files, bytes, text, binary, unreadable]| FileTotals {
            files,
            bytes,
            text,
            binary,
            unreadable,
        });
    (vec(file, 0..4), totals, any::<bool>(), notes()).prop_map(
        |(entries, totals, is_cut, notes)| FileList {
            entries,
            totals: Some(totals),
            is_cut,
            notes,
        },
    )
}

fn matches() -> impl Strategy<Value = Matches> {
    let line = (path(), any::<u64>(), text());
    let line = line.prop_map(|(path, line, text)| MatchedLine { path, line, text });
    let some = prop_oneof![Just(0), any::<u64>()];
    let counts = (any::<[u64; 3]>(), some.clone(), some.clone(), some);
    let totals =
        counts.prop_map(
            |([lines, files, searched], binary, large, unreadable)| MatchTotals {
                lines,
                files,
                searched,
                binary,
                large,
                unreadable,
            },
        );
    (vec(line, 0..4), totals, any::<bool>(), notes()).prop_map(
        |(entries, totals, is_cut, notes)| Matches {
            entries,
            totals: Some(totals),
            is_cut,
            notes,
        },
    )
}

fn excerpt() -> impl Strategy<Value = Excerpt> {
    let flags = (any::<bool>(), any::<bool>());
    let lines = vec(text(), 0..5);
    (path(), 0..9_u64, any::<u64>(), flags, lines).prop_map(
        |(path, first, total, (is_lossy, is_cut), lines)| Excerpt {
            path,
            first,
            total,
            is_lossy,
            lines,
            is_cut,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        files in file_list(), found in matches(), excerpt in excerpt(),
        path in path(), bytes: u64, lines: u64,
    ) {
        prop_assert_eq!(FileList::read(&files.to_string()), files);
        prop_assert_eq!(Matches::read(&found.to_string()), found);
        prop_assert_eq!(excerpt.to_string().parse(), Ok(excerpt));
        let written = Written { path, bytes, lines };
        prop_assert_eq!(written.to_string().parse(), Ok(written));
    }

    /// A limit may cut a result anywhere.
    #[test]
    fn a_part_has_no_other_entries(files in file_list(), found in matches(), cut in 0..1000_usize) {
        let part = |text: String| {
            let end = text.floor_char_boundary(text.len() * cut / 1000);
            text[..end].to_owned()
        };
        let read = FileList::read(&part(files.to_string())).entries;
        prop_assert_eq!(&read[..], &files.entries[..read.len()]);
        let read = Matches::read(&part(found.to_string())).entries;
        for (read, whole) in read.iter().zip(&found.entries) {
            prop_assert_eq!((&read.path, read.line), (&whole.path, whole.line));
            prop_assert!(whole.text.starts_with(&read.text));
        }
    }

    #[test]
    fn any_text_can_be_given(text in "(?s).{0,200}") {
        _ = (FileList::read(&text), Matches::read(&text));
        _ = (text.parse::<Excerpt>(), text.parse::<Written>());
    }
}

#[test]
fn a_result_that_lacks_something_is_a_part() {
    let line = "a\t1\t1\ttext";
    let total = "total: 1 file, 1 byte, 1 text, 0 binary";
    for (text, is_partial) in [
        (format!("{line}\n{total}"), false),
        (
            format!("{line}\n{total}\ntruncated: showing the first 1"),
            true,
        ),
        (
            format!("{line}\n{total}\nskipped: 1 folder could not be read"),
            true,
        ),
        (format!("{line}\na\t1\ttext\n{total}"), true),
        (
            format!("{line}\n[cut: the result is longer than 9 bytes]"),
            true,
        ),
        (line.to_owned(), true),
        ("Denied: not now".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(FileList::read(&text).is_partial(), is_partial, "{text}");
    }
}

#[test]
fn an_excerpt_whose_lines_are_missing_is_cut() {
    let read: Excerpt = "a.md lines 2-4 of 9\n2\tx\n3\ty".parse().unwrap();
    assert!(read.is_cut);
    assert_eq!(read.numbered().collect::<Vec<_>>(), [(2, "x"), (3, "y")]);
    assert_eq!("binary file".parse::<Excerpt>(), Err(NotAResult));
    assert_eq!("+1 lines".parse::<Written>(), Err(NotAResult));
}

#[test]
fn one_of_a_kind_is_written_and_read_as_one() {
    let files = FileTotals {
        files: 1,
        bytes: 1,
        text: 1,
        binary: 1,
        unreadable: 1,
    };
    let text = "total: 1 file, 1 byte, 1 text, 1 binary, 1 unreadable";
    assert_eq!(files.to_string(), text);
    assert_eq!(text.parse(), Ok(files));
    let found = MatchTotals {
        lines: 1,
        files: 1,
        searched: 1,
        binary: 1,
        large: 1,
        unreadable: 1,
    };
    let text = "total: 1 matching line in 1 file, 1 file searched, 1 binary file skipped, \
                1 file skipped as too large, 1 file skipped as unreadable";
    assert_eq!(found.to_string(), text);
    assert_eq!(text.parse(), Ok(found));
    let written = Written {
        path: "a".to_owned(),
        bytes: 1,
        lines: 1,
    };
    let text = "wrote a: 1 byte, 1 line";
    assert_eq!(written.to_string(), text);
    assert_eq!(text.parse(), Ok(written));
}
