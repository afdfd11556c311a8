//! The Search step: which lines hold a term.

use super::desk::{Answer, Desk, Outcome, Reply};
use super::notes::{MAX_BYTES, Matches, Note, Notes, Page, Quote, Search};
use super::query::Scope;
use super::results::{Found, Match, found, is_ambiguous, listing};
use super::text::{Style, brief, counted, quote, visible};
use std::collections::BTreeMap;

/// Bytes that the search itself takes on a page, beside the files.
const HEAD_BYTES: usize = 1_500;

/// Most lines that one search quotes.
const MAX_QUOTES: u64 = 100;

/// Searches for `term`.
pub(super) fn run(desk: &Desk<'_>, scope: &Scope, term: &str) -> Result<Outcome, Reply> {
    let thought = format!(
        "searching for {} {}",
        quote(term),
        Style::Plain.place(scope)
    );
    let answer = desk.ask_one(&thought, desk.search_files(term, &scope.path))?;
    let (search, page) = notes(desk, scope, term, &answer, MAX_BYTES)?;
    let notes = page.text();
    Ok(Outcome {
        summary: summary(&search, &notes),
        notes,
    })
}

/// What is noted of an answer of `search_files`, in at most `bytes` bytes.
pub(super) fn notes(
    desk: &Desk<'_>,
    scope: &Scope,
    term: &str,
    answer: &Answer,
    bytes: usize,
) -> Result<(Search, Page), Reply> {
    let (found, error) = match answer {
        Ok(text) => {
            let known = match is_ambiguous(text) {
                true => {
                    let thought = "some lines look like file names: listing the files to be sure";
                    desk.ask_one(thought, desk.list_files(&scope.path))?.ok()
                }
                false => None,
            };
            (found(text, known.map(|text| listing(&text)).as_ref()), None)
        }
        Err(error) => (Found::default(), Some(brief(error, 300))),
    };
    let known = found.complete || error.is_some();
    let mut search = Search {
        term: term.to_owned(),
        scope: scope.clone(),
        lines: 0,
        files: 0,
        at_least: !known,
        partial: !known,
        remarks: found
            .remarks
            .iter()
            .take(3)
            .map(|remark| brief(remark, 200))
            .collect(),
        more_lines: 0,
        more_files: 0,
        error,
    };
    let page = fill(&mut search, found, bytes);
    Ok((search, page))
}

/// Counts the matches and puts as many as fit on a page: names first, the files with the most
/// matches before others, then the first line of every file, the second of every file, and so on.
fn fill(search: &mut Search, found: Found, bytes: usize) -> Page {
    let shown = found.matches.len();
    let mut by_path: BTreeMap<String, Vec<Match>> = BTreeMap::new();
    for found in found.matches {
        if search.scope.admits(&found.path) {
            by_path.entry(found.path.clone()).or_default().push(found);
        }
    }
    let seen_files = by_path.len() as u64;
    let seen: usize = by_path.values().map(Vec::len).sum();
    (search.lines, search.files) = (seen as u64, seen_files);
    // The totals are of all files: they say something only where all of them are meant.
    if let Some(total) = found
        .total
        .filter(|_| search.scope.only.is_empty() && seen == shown)
    {
        (search.lines, search.files) = total;
        search.at_least = false;
    }
    let mut files: Vec<(String, Vec<Match>)> = by_path.into_iter().collect();
    files.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.len()));
    let room = bytes.saturating_sub(HEAD_BYTES);
    let mut noted = names(search, &files, room / 2);
    quotes(&mut noted, &files, room / 2);
    let quoted: usize = noted.iter().map(|matches| matches.quotes.len()).sum();
    let whole = noted
        .iter()
        .filter(|m| m.quotes.len() as u64 == m.count)
        .count() as u64;
    search.more_lines = search.lines.saturating_sub(quoted as u64);
    search.more_files = search.files.saturating_sub(whole);
    let mut page = Page::of(bytes);
    page.add(&Note::Search(search.clone()));
    for matches in noted {
        page.add(&Note::Matches(matches));
    }
    page
}

/// The files whose names fit.
fn names(search: &Search, files: &[(String, Vec<Match>)], bytes: usize) -> Vec<Matches> {
    let mut left = bytes;
    let mut noted = Vec::new();
    for (path, lines) in files {
        let matches = Matches {
            term: search.term.clone(),
            path: path.clone(),
            count: lines.len() as u64,
            first: lines.first().map_or(0, |first| first.line),
            quotes: Vec::new(),
        };
        let cost = Page::cost(&Note::Matches(matches.clone()));
        if cost > left {
            break;
        }
        left -= cost;
        noted.push(matches);
    }
    noted
}

/// Adds the lines that fit to the files of `noted`, in rounds.
fn quotes(noted: &mut [Matches], files: &[(String, Vec<Match>)], bytes: usize) {
    let longest = files
        .iter()
        .map(|(_, lines)| lines.len())
        .max()
        .unwrap_or_default();
    let (mut left, mut count) = (bytes, 0);
    for round in 0..longest {
        for (matches, (_, lines)) in noted.iter_mut().zip(files) {
            let Some(line) = lines.get(round) else {
                continue;
            };
            let quote = Quote::of_match(line.line, &line.text);
            let cost = Page::cost(&quote);
            if cost > left || count == MAX_QUOTES {
                return;
            }
            left -= cost;
            count += 1;
            matches.quotes.push(quote);
        }
    }
}

/// How much was found.
fn count(search: &Search) -> String {
    format!(
        "{} in {}",
        counted(search.at_least, search.lines, "matching line"),
        counted(search.at_least, search.files, "file")
    )
}

fn summary(search: &Search, page: &str) -> String {
    let place = Style::Plain.place(&search.scope);
    if let Some(error) = &search.error {
        return format!("the files {place} could not be searched: {error}");
    }
    if search.lines == 0 && !search.at_least {
        return format!("no line of the files {place} has {}", quote(&search.term));
    }
    let notes = Notes::parse(page);
    let noted = notes.searches.first().map(|notes| notes.matches.as_slice());
    let names: Vec<String> = noted
        .unwrap_or_default()
        .iter()
        .take(3)
        .map(|matches| format!("{} ({})", visible(&matches.path), matches.count))
        .collect();
    let more = if search.files > names.len() as u64 {
        " …"
    } else {
        ""
    };
    format!("{}: {}{more}", count(search), names.join(", "))
}
