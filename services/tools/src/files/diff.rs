//! What a write changes, for the person who is asked about it.

use cairn_engine::text::counted;
use similar::{DiffTag, TextDiff};
use std::time::Duration;

/// Most bytes of a diff, without the line that says what is left out.
const MOST_BYTES: usize = 64 * 1024;
/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// After this time the diff is no longer the shortest one.
const TIME: Duration = Duration::from_millis(500);
/// Stands for a file that is not there.
const ABSENT: &str = "/dev/null";

/// The file before the write.
#[derive(Debug, Clone, Copy)]
pub(super) enum Before<'a> {
    /// There is none.
    Absent,
    /// Its text.
    Text(&'a str),
    /// It cannot be shown: why, after "the file before".
    Unshown(&'a str),
}

/// A change of a file.
#[derive(Debug)]
pub(super) struct Change {
    /// In the unified form.
    pub(super) diff: String,
    pub(super) added: u32,
    pub(super) removed: u32,
}

impl Change {
    /// From one text to another. `path` is shown.
    pub(super) fn of(path: &str, before: Before<'_>, after: &str) -> Self {
        let (text, from) = match before {
            Before::Absent => ("", ABSENT.to_owned()),
            Before::Text(text) => (text, format!("a/{path}")),
            Before::Unshown(why) => ("", format!("a/{path} (the file before {why})")),
        };
        let diff = TextDiff::configure().timeout(TIME).diff_lines(text, after);
        let (mut added, mut removed) = (0, 0);
        for op in diff.ops() {
            if op.tag() != DiffTag::Equal {
                added += op.new_range().len();
                removed += op.old_range().len();
            }
        }
        let mut unified = diff.unified_diff();
        unified
            .context_radius(CONTEXT)
            .header(&from, &format!("b/{path}"));
        Self {
            diff: cut(unified.to_string()),
            added: u32::try_from(added).unwrap_or(u32::MAX),
            removed: u32::try_from(removed).unwrap_or(u32::MAX),
        }
    }
}

/// Cut after a line, with a last line that counts what is left out.
fn cut(mut diff: String) -> String {
    if diff.len() <= MOST_BYTES {
        return diff;
    }
    let most = diff.floor_char_boundary(MOST_BYTES);
    let keep = diff[..most].rfind('\n').map_or(0, |end| end + 1);
    let left = diff[keep..].lines().count();
    diff.truncate(keep);
    diff.push_str(&format!(
        "[left out: {} of this diff]\n",
        counted(left, "line")
    ));
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(before: Before<'_>, after: &str) -> (String, u32, u32) {
        let Change {
            diff,
            added,
            removed,
        } = Change::of("src/a.rs", before, after);
        (diff, added, removed)
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace('5', "five\nand");
        let expected = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and\n 6\n 7\n 8\n";
        assert_eq!(
            diff(Before::Text(before), &after),
            (expected.to_owned(), 2, 1)
        );
        assert_eq!(
            diff(Before::Text(before), before),
            (String::new(), 0, 0),
            "nothing changes"
        );
    }

    #[test]
    fn a_new_file_has_nothing_before() {
        let expected = "--- /dev/null\n+++ b/src/a.rs\n@@ -0,0 +1,2 @@\n+one\n+two\n";
        assert_eq!(
            diff(Before::Absent, "one\ntwo\n"),
            (expected.to_owned(), 2, 0)
        );
        let (text, _, _) = diff(Before::Unshown("has 9 bytes that are no text"), "one\n");
        let head = "--- a/src/a.rs (the file before has 9 bytes that are no text)\n";
        assert!(text.starts_with(head), "{text}");
    }

    #[test]
    fn a_long_diff_is_cut_after_a_line_and_counts_the_rest() {
        let after: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let (text, added, removed) = diff(Before::Absent, &after);
        assert_eq!((added, removed), (20_000, 0));
        assert!(text.len() <= MOST_BYTES + 64, "{}", text.len());
        let (shown, last) = text.trim_end().rsplit_once('\n').unwrap();
        let shown = shown
            .lines()
            .filter(|line| line.starts_with("+line"))
            .count();
        let left = 20_000 - shown;
        assert_eq!(last, format!("[left out: {left} lines of this diff]"));
    }
}
