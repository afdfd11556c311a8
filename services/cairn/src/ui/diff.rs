//! The change that a write would make, on the screen.

use super::live::wrap;
use super::style::Style;
use cairn_engine::text::counted;
use cairn_proto::event::CallPreview;
use cairn_rpc::text::escape;
use unicode_width::UnicodeWidthStr as _;

/// Lines of a diff that are shown before a person asks for all of it.
pub const FIRST: usize = 40;
/// Before each line, so that a diff is distinguished from what stands around it.
const INDENT: &str = "    ";
/// Less room than this is broken by the terminal itself.
const NARROWEST: usize = 20;

/// A diff as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its lines, ready for the terminal.
    pub lines: Vec<String>,
    /// Number of lines that are not among them.
    pub left_out: usize,
}

/// The path of a write and the size of its change: `src/main.rs  (+3 -1)`. Not escaped.
pub fn size(preview: &CallPreview) -> String {
    let (added, removed) = (preview.added, preview.removed);
    let size = match (is_new(preview), added, removed) {
        (true, ..) => format!("a new file, {}", counted(added, "line")),
        (false, 0, 0) => "nothing changes".to_owned(),
        (false, ..) => format!("+{added} -{removed}"),
    };
    format!("{}  ({size})", preview.path)
}

/// The first lines of a change, at most `most`, in lines of at most `columns`. The file's name is left out, and of a
/// new file all but its text.
pub fn lines(style: Style, preview: &CallPreview, most: usize, columns: usize) -> Shown {
    let all: Vec<&str> = body(preview).collect();
    let shown = all.iter().copied().take(most);
    let room = columns.saturating_sub(INDENT.len()).max(NARROWEST);
    Shown {
        lines: shown.flat_map(|line| in_lines(style, line, room)).collect(),
        left_out: all.len().saturating_sub(most),
    }
}

/// The first lines of what an edit replaced, without the lines that begin and end both texts.
pub fn replaced(style: Style, old: &str, new: &str, most: usize, columns: usize) -> Shown {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(old, new): &(&&str, &&str)| old == new;
    let begin = old.iter().zip(&new).take_while(same).count();
    let ends = old[begin..].iter().rev().zip(new[begin..].iter().rev());
    let end = ends.take_while(same).count();
    let removed = old[begin..old.len() - end].iter();
    let added = new[begin..new.len() - end].iter();
    let removed = removed.map(|line| format!("-{line}"));
    let all: Vec<String> = removed
        .chain(added.map(|line| format!("+{line}")))
        .collect();
    let room = columns.saturating_sub(INDENT.len()).max(NARROWEST);
    let shown = all.iter().take(most).map(String::as_str);
    Shown {
        lines: shown.flat_map(|line| in_lines(style, line, room)).collect(),
        left_out: all.len().saturating_sub(most),
    }
}

/// A line of a change, ready for the terminal, in lines of so many columns after the indent.
fn in_lines(style: Style, line: &str, room: usize) -> impl Iterator<Item = String> {
    broken(line, room).map(move |piece| format!("{INDENT}{}", painted(style, line, &piece)))
}

/// The lines after the names of the file. Only the first two lines are names: a line that was removed may look like one.
fn body(preview: &CallPreview) -> impl Iterator<Item = &str> {
    let is_new = is_new(preview);
    let lines = preview.diff.lines().enumerate();
    // The first name may say why the file before is not shown.
    let shown = lines.filter(move |&(at, line)| match at {
        0 => line.contains(" (the file before "),
        1 => false,
        2 if is_new => !line.starts_with("@@ "),
        _ => true,
    });
    shown.map(|(_, line)| line)
}

fn is_new(preview: &CallPreview) -> bool {
    preview.before_digest.is_empty()
}

/// Between the sign of a line and what continues it.
const CONTINUES: &str = "↳ ";

/// A line without anything that could drive a terminal, in pieces of so many columns. Each has the sign of the line.
fn broken(line: &str, columns: usize) -> std::vec::IntoIter<String> {
    let cells: Vec<_> = line.split('\t').map(escape).collect();
    let line = cells.join("    ");
    if line.width() <= columns {
        return vec![line].into_iter();
    }
    let Some(sign) = ["+", "-", " "].into_iter().find(|it| line.starts_with(it)) else {
        return wrap(&line, columns).into_iter();
    };
    let room = columns.saturating_sub(sign.len() + CONTINUES.width());
    let pieces = wrap(&line[sign.len()..], room).into_iter().enumerate();
    let pieces = pieces.map(|(at, piece)| match at {
        0 => format!("{sign}{piece}"),
        _ => format!("{sign}{CONTINUES}{piece}"),
    });
    let pieces: Vec<String> = pieces.collect();
    pieces.into_iter()
}

/// A piece of a line in the colour of the line.
fn painted(style: Style, line: &str, piece: &str) -> String {
    match line.as_bytes().first() {
        Some(b'+') => style.good(piece),
        Some(b'-') => style.bad(piece),
        Some(b'@') => style.active(piece),
        // A note about the text, such as a line end that is missing.
        Some(b'\\' | b'[') => style.dim(piece),
        _ => piece.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(diff: &str) -> CallPreview {
        CallPreview {
            path: "src/main.rs".to_owned(),
            before_digest: "a".to_owned(),
            after_digest: "b".to_owned(),
            diff: diff.to_owned(),
            added: 2,
            removed: 1,
            is_protected: false,
        }
    }

    fn plain(diff: &str, most: usize) -> Shown {
        lines(Style::new(false), &preview(diff), most, 80)
    }

    const CHANGE: &str = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,3 +1,4 @@\n fn main() {\n--- old\n+++ new\n+\tmore\u{1b}[2J\n }\n";

    #[test]
    fn a_change_is_shown_without_the_names_of_its_file() {
        let shown = plain(CHANGE, FIRST);
        let expected = [
            "    @@ -1,3 +1,4 @@",
            "     fn main() {",
            "    --- old",
            "    +++ new",
            "    +    more\\u{1b}[2J",
            "     }",
        ];
        assert_eq!(shown.lines, expected);
        assert_eq!(shown.left_out, 0);
        assert_eq!(size(&preview(CHANGE)), "src/main.rs  (+2 -1)");
    }

    #[test]
    fn a_new_file_is_its_added_lines() {
        let diff = "--- /dev/null\n+++ b/src/main.rs\n@@ -0,0 +1,2 @@\n+one\n+@@ two\n";
        let new = CallPreview {
            before_digest: String::new(),
            ..preview(diff)
        };
        let shown = lines(Style::new(false), &new, FIRST, 80);
        assert_eq!(shown.lines, ["    +one", "    +@@ two"]);
        assert_eq!(size(&new), "src/main.rs  (a new file, 2 lines)");
    }

    #[test]
    fn a_file_that_cannot_be_shown_says_why() {
        let diff =
            "--- a/b (the file before has 2 bytes and is not shown)\n+++ b/b\n@@ -0,0 +1 @@\n+x\n";
        let shown = plain(diff, FIRST);
        assert!(shown.lines[0].contains("has 2 bytes"), "{shown:?}");
        assert_eq!(shown.lines.len(), 3);
    }

    #[test]
    fn a_long_change_is_cut_and_counted() {
        let text: String = (0..100).map(|n| format!("+{n}\n")).collect();
        let diff = format!("--- a/b\n+++ b/b\n@@ -1,0 +1,100 @@\n{text}");
        let shown = plain(&diff, FIRST);
        assert_eq!((shown.lines.len(), shown.left_out), (FIRST, 61));
        let whole = plain(&diff, usize::MAX);
        assert_eq!((whole.lines.len(), whole.left_out), (101, 0));
    }

    #[test]
    fn colours_follow_the_kind_of_a_line_on_all_its_pieces() {
        let long = format!(
            "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-{}\n+b\n c\n",
            "word ".repeat(20)
        );
        let shown = lines(Style::new(true), &preview(&long), FIRST, 60);
        let red = shown
            .lines
            .iter()
            .filter(|line| line.contains("\u{1b}[31m"));
        assert_eq!(red.count(), 2, "{shown:?}");
        for line in &shown.lines {
            let begun = line.matches("\u{1b}[").count();
            assert!(begun == 0 || line.ends_with("\u{1b}[0m"), "{line:?}");
        }
        assert!(shown.lines.contains(&"     c".to_owned()), "{shown:?}");
    }

    #[test]
    fn each_piece_of_a_long_line_has_its_sign() {
        let text = "word ".repeat(12);
        let diff = format!("--- a/b\n+++ b/b\n@@ -1 +1 @@\n+{text}\n-{text}\n {text}\n");
        let shown = lines(Style::new(false), &preview(&diff), FIRST, 44);
        assert_eq!(shown.lines.len(), 7, "{shown:?}");
        for (pair, sign) in shown.lines[1..].chunks(2).zip(["+", "-", " "]) {
            assert!(pair[0].starts_with(&format!("    {sign}word")), "{pair:?}");
            assert!(
                pair[1].starts_with(&format!("    {sign}↳ word")),
                "{pair:?}"
            );
        }
        let width = shown.lines.iter().map(|line| line.width()).max();
        assert!(width <= Some(44), "{shown:?}");
    }

    #[test]
    fn an_edit_shows_only_the_lines_that_differ() {
        let shown = |old, new| replaced(Style::new(false), old, new, 12, 80).lines;
        assert_eq!(
            shown("a\nb\nc", "a\nx\ny\nc"),
            ["    -b", "    +x", "    +y"]
        );
        assert_eq!(shown("a\na", "a"), ["    -a"]);
        assert_eq!(shown("a", "a\na"), ["    +a"]);
        assert!(shown("a", "a").is_empty());
    }

    #[test]
    fn a_write_without_a_change_says_so() {
        let same = CallPreview {
            added: 0,
            removed: 0,
            ..preview("")
        };
        assert_eq!(size(&same), "src/main.rs  (nothing changes)");
        assert!(plain("", FIRST).lines.is_empty());
    }
}
