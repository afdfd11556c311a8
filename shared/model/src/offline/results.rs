//! What the file tools answer, read strictly: whatever does not fit makes the answer incomplete,
//! and an incomplete answer is only ever quoted with "at least".

/// A file as `list_files` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// None for a file that is not text.
    pub(super) lines: Option<u64>,
    pub(super) kind: String,
}

/// An answer of `list_files`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    /// Counts of all files; present only if nothing puts them in doubt.
    pub(super) total: Option<Total>,
    /// Every file is among the entries.
    pub(super) complete: bool,
    /// What the tool says besides: folders that it could not enter, and the like.
    pub(super) remarks: Vec<String>,
}

/// Counts of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) text: u64,
    pub(super) binary: u64,
}

/// A matching line as `search_files` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) path: String,
    pub(super) line: u64,
    /// As the tool gave it: not trimmed, and cut at its limit.
    pub(super) text: String,
}

/// An answer of `search_files`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) matches: Vec<Match>,
    /// Counts of all matching lines and of the files that they are in; present only if nothing
    /// puts them in doubt.
    pub(super) total: Option<(u64, u64)>,
    /// Every matching line is among the matches.
    pub(super) complete: bool,
    /// What the tool says besides: files that it did not search, and the like.
    pub(super) remarks: Vec<String>,
}

/// An answer of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Lines that the whole file has.
    pub(super) total: u64,
    /// Some bytes were no valid UTF-8 and are shown as replacement characters.
    pub(super) lossy: bool,
    pub(super) lines: Vec<(u64, String)>,
}

/// Reads an answer of `list_files`.
pub(super) fn listing(text: &str) -> Listing {
    let body = body(text, total_of_list);
    let entries: Vec<Entry> = body.lines.iter().filter_map(|line| entry(line)).collect();
    let shown = entries.len() as u64;
    let understood = shown == body.lines.len() as u64;
    let total = body.total.as_ref().map(|(total, _)| *total);
    let complete = understood && body.is_whole() && total.is_some_and(|t| t.files == shown);
    // A total of more than is shown counts everything; any other may count only what is shown.
    let all = total.filter(|t| body.remarks.is_empty() && (complete || t.files > shown));
    Listing {
        entries,
        total: all,
        complete,
        remarks: body.remarks,
    }
}

fn total_of_list(line: &str) -> Option<(Total, Vec<String>)> {
    let mut counts = line.strip_prefix("total: ")?.split(", ");
    let mut next = |noun: &str| {
        let (count, found) = counts.next()?.split_once(' ')?;
        (found == noun).then(|| count.parse::<u64>().ok())?
    };
    let total = Total {
        files: next("files")?,
        bytes: next("bytes")?,
        text: next("text")?,
        binary: next("binary")?,
    };
    Some((total, Vec::new()))
}

fn entry(line: &str) -> Option<Entry> {
    // A path may hold tabs, so the columns are counted from the right.
    let mut columns = line.rsplitn(4, '\t');
    let (kind, lines, bytes) = (columns.next()?, columns.next()?, columns.next()?);
    let path = columns.next()?;
    Some(Entry {
        path: path.to_owned(),
        bytes: bytes.parse().ok()?,
        lines: match lines {
            "-" => None,
            lines => Some(lines.parse().ok()?),
        },
        kind: kind.to_owned(),
    })
}

/// Reads an answer of `search_files`. A path or a line may look like the end of a path: where that
/// is so, `known` tells the paths that exist.
pub(super) fn found(text: &str, known: Option<&Listing>) -> Found {
    let body = body(text, total_of_search);
    let exists = |found: &Match| match known {
        Some(listing) => listing.entries.iter().any(|entry| entry.path == found.path),
        None => true,
    };
    let matches: Vec<Match> = body
        .lines
        .iter()
        .filter_map(|line| {
            let mut splits = splits(line);
            let position = splits.iter().position(exists).unwrap_or(0);
            (position < splits.len()).then(|| splits.swap_remove(position))
        })
        .collect();
    let shown = matches.len() as u64;
    let understood = shown == body.lines.len() as u64;
    let total = body.total.as_ref().map(|(total, _)| *total);
    let complete = understood && body.is_whole() && total.is_some_and(|(lines, _)| lines == shown);
    let skipped = body.total.iter().flat_map(|(_, skipped)| skipped.clone());
    let remarks: Vec<String> = skipped.chain(body.remarks).collect();
    let all = total.filter(|(lines, _)| remarks.is_empty() && (complete || *lines > shown));
    Found {
        matches,
        total: all,
        complete: complete && remarks.is_empty(),
        remarks,
    }
}

/// Whether the paths in an answer of `search_files` are sure only beside the list of files.
pub(super) fn is_ambiguous(text: &str) -> bool {
    let body = body(text, total_of_search);
    body.lines.iter().any(|line| splits(line).len() > 1)
}

/// The counts of lines and files, and which files were not searched though they may hold text.
fn total_of_search(line: &str) -> Option<((u64, u64), Vec<String>)> {
    let mut parts = line.strip_prefix("total: ")?.split(',').map(str::trim);
    let (lines, files) = parts.next()?.split_once(" matching lines in ")?;
    let files = files.strip_suffix(" files")?;
    parts
        .next()?
        .strip_suffix(" files searched")?
        .parse::<u64>()
        .ok()?;
    let skipped: Vec<String> = parts.map(str::to_owned).collect();
    let is_count = |part: &String| part.starts_with(|c: char| c.is_ascii_digit());
    if !skipped.iter().all(is_count) {
        return None;
    }
    let skipped = skipped.into_iter().filter(|part| !part.contains("binary"));
    Some((
        (lines.parse().ok()?, files.parse().ok()?),
        skipped.collect(),
    ))
}

/// Every way to read `<path>:<line>:\t<text>`.
fn splits(line: &str) -> Vec<Match> {
    let ends = line.match_indices(":\t");
    ends.filter_map(|(end, _)| {
        let (path, number) = line[..end].rsplit_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        (is_number && !path.is_empty()).then(|| Match {
            path: path.to_owned(),
            line: number.parse().unwrap_or_default(),
            text: line[end + 2..].to_owned(),
        })
    })
    .collect()
}

/// An answer in its parts: lines, a total, and remarks behind it.
struct Body<'a, T> {
    lines: Vec<&'a str>,
    /// The total, and remarks that stand beside it.
    total: Option<(T, Vec<String>)>,
    /// Only a first part of the lines is shown.
    cut: bool,
    remarks: Vec<String>,
}

impl<T> Body<'_, T> {
    fn is_whole(&self) -> bool {
        self.total.is_some() && !self.cut && self.remarks.is_empty()
    }
}

/// Splits an answer at its last line that `total` reads.
fn body<T>(text: &str, total: impl Fn(&str) -> Option<(T, Vec<String>)>) -> Body<'_, T> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    while lines.last() == Some(&"") {
        lines.pop();
    }
    let Some(at) = lines.iter().rposition(|line| total(line).is_some()) else {
        return Body {
            lines,
            total: None,
            cut: true,
            remarks: Vec::new(),
        };
    };
    let is_cut = |line: &&str| line.starts_with("truncated: showing the first ");
    let (shown, remarks): (Vec<&str>, Vec<&str>) = lines[at + 1..]
        .iter()
        .copied()
        .partition(|line| is_cut(line));
    let found = total(lines[at]);
    lines.truncate(at);
    Body {
        lines,
        total: found,
        cut: !shown.is_empty(),
        remarks: remarks.into_iter().map(str::to_owned).collect(),
    }
}

/// Reads an answer of `read_file`; none if it is none.
pub(super) fn excerpt(text: &str) -> Option<Excerpt> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (head, lossy) = match head.split_once(" (not valid UTF-8") {
        Some((head, _)) => (head, true),
        None => (head, false),
    };
    let (head, total) = head.rsplit_once(" of ")?;
    let (_, range) = head.rsplit_once(" lines ")?;
    let (from, to) = range.split_once('-')?;
    let numbered = rest.split('\n').filter_map(|line| {
        let (number, text) = line.split_once('\t')?;
        Some((number.trim().parse().ok()?, text.to_owned()))
    });
    Some(Excerpt {
        from: from.parse().ok()?,
        to: to.parse().ok()?,
        total: total.trim().parse().ok()?,
        lossy,
        lines: numbered.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_from_the_right() {
        let listing = listing(
            "a\tb: c.md\t10\t2\ttext\nx.bin\t3\t-\tbinary\n\
             total: 2 files, 13 bytes, 1 text, 1 binary",
        );
        assert!(listing.complete);
        assert_eq!(listing.entries[0].path, "a\tb: c.md");
        assert_eq!(listing.entries[0].lines, Some(2));
        assert_eq!(listing.entries[1].lines, None);
    }

    #[test]
    fn an_answer_that_was_cut_is_incomplete() {
        let line = "a\t1\t1\ttext";
        let one = "total: 1 files, 1 bytes, 1 text, 0 binary";
        let nine = "total: 9 files, 90 bytes, 8 text, 1 binary";
        let cut = "truncated: showing the first 1";
        let skipped = "skipped: 1 folders could not be read";
        for (text, complete, files) in [
            (format!("{line}\n{one}\n"), true, Some(1)),
            (format!("{line}\n{nine}\n{cut}"), false, Some(9)),
            (format!("{line}\n{one}\n{cut}"), false, None),
            (format!("{line}\n{nine}"), false, Some(9)),
            (format!("{line}\n{one}\n{skipped}"), false, None),
            (line.to_owned(), false, None),
            (format!("{line}\nnonsense\n{one}"), false, None),
            (String::new(), false, None),
        ] {
            let listing = listing(&text);
            assert_eq!(listing.complete, complete, "{text}");
            assert_eq!(listing.total.map(|total| total.files), files, "{text}");
            assert_eq!(
                listing.remarks.is_empty(),
                !text.contains(skipped),
                "{text}"
            );
        }
    }

    #[test]
    fn a_search_that_left_files_out_is_incomplete() {
        let total = "total: 2 matching lines in 1 files, 3 files searched";
        for (end, complete, all) in [
            ("", true, Some((2, 1))),
            (" , 1 binary files skipped", true, Some((2, 1))),
            (", 1 binary files skipped", true, Some((2, 1))),
            (", 1 files skipped as too large", false, None),
            ("\ntruncated: showing the first 2", false, None),
        ] {
            let found = found(&format!("a:1:\tx\na:2:\ttotal: 9\n{total}{end}"), None);
            assert_eq!((found.complete, found.total), (complete, all), "{end}");
            assert_eq!(found.matches.len(), 2);
        }
        let cut = found(
            &format!("a:1:\tx\n{total}\ntruncated: showing the first 1"),
            None,
        );
        assert_eq!((cut.complete, cut.total), (false, Some((2, 1))));
        assert!(!found("a:1:\tx", None).complete);
    }

    #[test]
    fn a_path_that_looks_like_a_match_needs_the_list() {
        let text = "a:1:\tb.md:7:\tsee x:2:\ty\n\
            total: 1 matching lines in 1 files, 1 files searched";
        assert!(is_ambiguous(text));
        let known = listing("a:1:\tb.md\t1\t1\ttext\ntotal: 1 files, 1 bytes, 1 text, 0 binary");
        let found = found(text, Some(&known));
        assert_eq!(found.matches[0].path, "a:1:\tb.md");
        assert_eq!(found.matches[0].text, "see x:2:\ty");
        assert!(!is_ambiguous("a b: c.md:7:\ttotal: 3:4"));
    }

    #[test]
    fn an_excerpt_keeps_numbers_and_text_apart() {
        let text = "my lines 1-2 of 3.md lines 4-5 of 9 (not valid UTF-8: shown with replacement \
            characters)\n4\tone\ttwo\n5\t";
        let read = excerpt(text).unwrap();
        assert_eq!(
            (read.from, read.to, read.total, read.lossy),
            (4, 5, 9, true)
        );
        assert_eq!(read.lines, [(4, "one\ttwo".into()), (5, String::new())]);
        assert_eq!(excerpt("binary file"), None);
    }
}
