//! Looking into files: which there are, which lines have a word, and what is around them.

use super::ask::{Ask, quote};
use super::desk::{Answer, Desk, Found, Reply};
use cairn_engine::text::{counted, cut, first_line};
use cairn_views::file_results::{Excerpt, FileKind, FileList, ListedFile, MatchedLine, Matches};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most bytes of notes; the scratchpad of a step takes 16 KiB.
const MAX_NOTES: usize = 15_000;
const MAX_LISTED: usize = 30;
const MAX_READ: usize = 8;
/// Most matching lines of one file that are quoted.
const MAX_QUOTED: usize = 5;
/// Most files that a summary names.
const MAX_NAMED: usize = 8;
/// Most characters of a line in a summary.
const MAX_TELLING: usize = 80;
/// Most characters of a line that are quoted.
const MAX_CHARS: usize = 200;

/// Lines by path and number.
type Lines = BTreeMap<String, BTreeMap<u64, String>>;
/// A summary, the lines to read around, and whether there are more.
type Hits = (String, Lines, bool);

/// Lists the files.
pub(super) fn list(desk: &Desk<'_>, ask: &Ask) -> Result<(Found, Vec<ListedFile>), Reply> {
    let place = ask.place();
    let call = ("list_files", json!({"path": ask.tool_path()}));
    let text = desk.ask_one(&format!("listing the files {place}"), call)?;
    let text = text.unwrap_or_else(|error| error);
    let list = FileList::read(&text);
    let summary = match list.totals {
        Some(all) => format!("Files {place}: {} ({} of text).", all.files, all.text),
        None => format!("Files {place}: {}.", brief(&text)),
    };
    let shown = list.entries.iter().take(MAX_LISTED);
    let items = shown.map(|file| format!("    {}: {}", file.path, counted(file.bytes, "byte")));
    let all = list.totals.map_or(0, |all| all.files);
    let more = all.saturating_sub(list.entries.len().min(MAX_LISTED) as u64);
    let more = (more > 0).then(|| format!("and {more} more"));
    let is_cut = more.is_none() && list.is_partial();
    let notes = notes("## Files\n", items.chain(more), is_cut);
    Ok((Found { summary, notes }, list.entries))
}

/// Finds the lines with the words of the request and reads around them. Without words, it reads how
/// the files begin.
pub(super) fn look(desk: &Desk<'_>, ask: &Ask) -> Result<Found, Reply> {
    let (heading, (summary, mut lines, is_cut)) = match ask.quoted_terms().as_str() {
        "" => ("## How the files begin".to_owned(), first_lines(desk, ask)?),
        terms => (format!("## Lines with {terms}"), search(desk, ask)?),
    };
    let numbers = |lines: &BTreeMap<u64, String>| lines.keys().copied().collect();
    let files = lines
        .iter()
        .map(|(path, lines)| (path.clone(), numbers(lines)));
    let mut files: Vec<(String, Vec<u64>)> = files.collect();
    files.sort_by_key(|(_, hits)| Reverse(hits.len()));
    files.truncate(MAX_READ);
    let mut items = Vec::new();
    for ((path, hits), answer) in files.iter().zip(read(desk, &files)?) {
        let text = answer.unwrap_or_else(|error| error);
        let Ok(read) = text.parse::<Excerpt>() else {
            items.push(format!("\n{path} cannot be read: {}", brief(&text)));
            continue;
        };
        let is_near = |number: u64| hits.iter().any(|hit| hit.abs_diff(number) <= 1);
        let near = read.numbered().filter(|(number, _)| is_near(*number));
        let near = near.map(|(number, text)| (number, text.to_owned()));
        lines.entry(path.clone()).or_default().extend(near);
    }
    for (path, lines) in &lines {
        items.push(format!("\n### {path}\n"));
        let filled = lines.iter().filter(|(_, text)| !text.trim().is_empty());
        items.extend(filled.map(|(at, text)| format!("    {path}:{at}: {}", brief(text))));
    }
    let notes = notes(&heading, items, is_cut);
    Ok(Found { summary, notes })
}

/// The second line of each file, so that the first three are read.
fn first_lines(desk: &Desk<'_>, ask: &Ask) -> Result<Hits, Reply> {
    let (found, mut files) = list(desk, ask)?;
    files.retain(|file| file.kind == FileKind::Text && file.lines != Some(0));
    // A reader begins with what is not deep in folders.
    files.sort_by_key(|file| file.path.matches('/').count());
    let second = |file: &ListedFile| (file.path.clone(), BTreeMap::from([(2, String::new())]));
    let lines = files.iter().take(MAX_READ).map(second).collect();
    Ok((found.summary, lines, files.len() > MAX_READ))
}

fn search(desk: &Desk<'_>, ask: &Ask) -> Result<Hits, Reply> {
    let (place, path) = (ask.place(), ask.tool_path());
    let call = |term| ("search_files", json!({"pattern": term, "path": path}));
    let calls = ask.terms.iter().map(call).collect();
    let answers = desk.ask(&format!("searching for {}", ask.quoted_terms()), calls)?;
    let (mut summary, mut lines, mut is_cut) = (String::new(), Lines::new(), false);
    for (term, answer) in ask.terms.iter().zip(answers) {
        let text = answer.unwrap_or_else(|error| error);
        let matches = Matches::read(&text);
        is_cut |= matches.is_partial();
        let named = named_files(&matches);
        for hit in matches.entries {
            let quoted = lines.entry(hit.path).or_default();
            is_cut |= quoted.len() == MAX_QUOTED;
            if quoted.len() < MAX_QUOTED {
                quoted.insert(hit.line, hit.text);
            }
        }
        let result = match matches.totals {
            Some(all) => format!(
                "{} in {} of {} files{named}",
                all.lines, all.files, all.searched
            ),
            None => brief(&text),
        };
        summary += &format!("Lines with {} {place}: {result}. ", quote(term));
    }
    Ok((summary.trim_end().to_owned(), lines, is_cut))
}

/// The files with a count of their lines, and of each the line that says most:
/// `: a.md:2 (3 lines): Redis is a store; and 2 more files`.
fn named_files(matches: &Matches) -> String {
    let mut files: BTreeMap<&str, Vec<&MatchedLine>> = BTreeMap::new();
    for hit in &matches.entries {
        files.entry(&hit.path).or_default().push(hit);
    }
    let mut files: Vec<Vec<&MatchedLine>> = files.into_values().collect();
    files.sort_by_key(|lines| Reverse(lines.len()));
    files.truncate(MAX_NAMED);
    // Of the file in which the tool stopped there may be more.
    let least = ["", "at least "][usize::from(matches.is_partial())];
    let of_file = |lines: &Vec<&MatchedLine>| {
        // The first of those with most words.
        let best = lines.iter().rev().max_by_key(|hit| words(&hit.text))?;
        let text = cut(&brief(&best.text), MAX_TELLING);
        let text = text.trim_end_matches(['.', ';', ':', ',']);
        let count = count(lines.len() as u64, "line");
        Some(format!(
            "{}:{} ({least}{count}): {text}",
            best.path, best.line
        ))
    };
    let mut named: Vec<String> = files.iter().filter_map(of_file).collect();
    let all = matches.totals.map_or(0, |all| all.files);
    let more = all.saturating_sub(named.len() as u64);
    if named.is_empty() {
        return String::new();
    }
    if more > 0 {
        named.push(format!("and {}", count(more, "more file")));
    }
    format!(": {}", named.join("; "))
}

fn words(text: &str) -> usize {
    let words = text.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphabetic))
        .count()
}

fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Reads around lines of files, under a sub-goal if a step is under way.
fn read(desk: &Desk<'_>, files: &[(String, Vec<u64>)]) -> Result<Vec<Answer>, Reply> {
    let goal = "Read around the lines";
    let opening = ("step", json!({"plan": [goal], "focus": goal}));
    // Without the sub-goal, its completion would end the step.
    let has_goal = desk.offers("step") && !files.is_empty() && desk.ask_one("", opening)?.is_ok();
    let call = |(path, hits): &(String, Vec<u64>)| {
        let first = hits.first().map_or(1, |first| first - 1).max(1);
        let last = hits.last().map_or(1, |last| last + 1);
        let arguments = json!({"path": path, "from_line": first, "to_line": last});
        ("read_file", arguments)
    };
    let answers = desk.ask("reading around the lines", files.iter().map(call).collect())?;
    if has_goal {
        let done = json!({"complete": true, "summary": "The lines are read."});
        _ = desk.ask_one("", ("step", done))?;
    }
    Ok(answers)
}

/// As many items as a scratchpad takes.
fn notes(heading: &str, items: impl IntoIterator<Item = String>, mut is_cut: bool) -> String {
    let mut text = format!("{heading}\n");
    for item in items {
        is_cut |= text.len() + item.len() > MAX_NOTES;
        if text.len() + item.len() <= MAX_NOTES {
            text = text + &item + "\n";
        }
    }
    text + ["", "\nThere is more than is shown here.\n"][usize::from(is_cut)]
}

/// The first line of `text` without invisible characters: a file must not steer a terminal.
pub(super) fn brief(text: &str) -> String {
    let line = cut(first_line(text).unwrap_or_default(), MAX_CHARS);
    line.replace(char::is_control, " ")
}
