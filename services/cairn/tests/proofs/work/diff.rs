//! A unified diff, read as a person reads it: what the file becomes if the diff is right.

/// The number of the first line that a hunk replaces, from 1. A header is `@@ -FROM,COUNT +FROM,COUNT @@`.
fn first_line(header: &str) -> Option<usize> {
    let range = header.strip_prefix("@@ -")?.split(' ').next()?;
    range.split(',').next()?.parse().ok()
}

/// The text that a diff makes of `before`, and how many lines it adds and removes.
///
/// # Errors
/// The diff is not one of this text.
pub(crate) fn apply(before: &str, diff: &str) -> Result<(String, u32, u32), String> {
    let mut lines = before.split_inclusive('\n').enumerate().peekable();
    let (mut after, mut added, mut removed) = (String::new(), 0, 0);
    let mut in_hunk = false;
    for line in diff.lines() {
        if line.starts_with("@@ ") {
            in_hunk = true;
            let first = first_line(line).ok_or_else(|| format!("no header: {line:?}"))?;
            while let Some((_, kept)) = lines.next_if(|(at, _)| at + 1 < first) {
                after.push_str(kept);
            }
            continue;
        }
        // The names of the file stand before the first hunk.
        if !in_hunk || line.starts_with('\\') {
            continue;
        }
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        if kind == "+" {
            added += 1;
            after.push_str(text);
            after.push('\n');
            continue;
        }
        let (at, found) = lines.next().ok_or("the diff is longer than the file")?;
        if found.trim_end_matches(['\r', '\n']) != text.trim_end_matches('\r') {
            return Err(format!("line {} is {found:?}, not {text:?}", at + 1));
        }
        match kind {
            "-" => removed += 1,
            " " => after.push_str(found),
            other => return Err(format!("{other:?} begins no line of a diff")),
        }
    }
    after.extend(lines.map(|(_, kept)| kept));
    Ok((after, added, removed))
}

#[test]
fn a_diff_makes_the_text_that_it_shows() {
    let before = "a\nb\nc\nd\ne\nf\n";
    let diff = "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n";
    let after = ("a\nb\nC\nd\ne\nf\n".to_owned(), 1, 1);
    assert_eq!(apply(before, diff), Ok(after));
    let other = diff.replace("-c", "-x");
    assert!(apply(before, &other).is_err());
}
