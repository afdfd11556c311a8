//! The steps that read files: around matches, or their beginnings. A sub-goal for every file, or
//! for a few of them where there are many, so that a person can watch.

mod groups;

use self::groups::{Job, opened, read_all};
use super::desk::{Answer, Desk, Outcome, Reply};
use super::headings::headings;
use super::notes::{
    File, MAX_BYTES, Note, Notes, Outline, Page, Quote, Read, Section, SurveyNotes,
};
use super::query::Scope;
use super::results::Excerpt;
use super::text::plural;

/// Most files that one step reads around matches.
const MAX_MATCHED: usize = 20;

/// Most files that one step reads the beginnings of.
const MAX_HEADS: usize = 10;

/// Files above this size are not read: one of their lines may be all of it.
pub(super) const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Most lines that are read of a file.
const MAX_LINES: u64 = 400;

/// Most headings that are noted of a file.
const MAX_HEADINGS: usize = 12;

/// Reads around the matches that the notes tell of.
pub(super) fn matches(
    desk: &Desk<'_>,
    scope: &Scope,
    terms: &[String],
    notes: &Notes,
) -> Result<Outcome, Reply> {
    let mut files = matched(scope, terms, notes);
    let found = files.len();
    files.truncate(MAX_MATCHED);
    if found == 0 {
        return Ok("there is nothing to read: no match was noted"
            .to_owned()
            .into());
    }
    let survey = notes.survey(scope);
    let too_large = |file: &Matched| {
        let bytes = survey.and_then(|survey| survey.bytes(&file.path));
        bytes.filter(|bytes| *bytes > MAX_FILE_BYTES)
    };
    let (large, files): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| too_large(file).is_some());
    let jobs: Vec<Job> = files.iter().map(job).collect();
    let answers = read_all(desk, &jobs)?;
    let skipped = large.iter().map(|file| Read {
        too_large: too_large(file),
        ..unread(&file.path)
    });
    let read = files
        .iter()
        .zip(&answers)
        .map(|(file, answer)| learn(file, answer));
    let mut reads: Vec<Read> = skipped.chain(read).collect();
    // Where not everything fits on the page, a heading is missed less than a failure.
    reads.sort_by_key(|read| read.error.is_none() && read.too_large.is_none());
    Ok(outcome(
        &answers,
        found,
        large.len(),
        reads.into_iter().map(Note::Read),
    ))
}

/// Reads the beginnings of the largest text files.
pub(super) fn heads(desk: &Desk<'_>, scope: &Scope, notes: &Notes) -> Result<Outcome, Reply> {
    let survey = notes.survey(scope);
    let mut files: Vec<&File> = survey.map(text_files).unwrap_or_default();
    let found = files.len();
    // A reader begins with the README, and leaves lock files and data to the end.
    files.sort_by_key(|file| (!is_readme(&file.path), is_data(&file.path)));
    let (large, mut files): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| file.bytes > MAX_FILE_BYTES);
    files.truncate(MAX_HEADS);
    if found == 0 {
        return Ok("there is nothing to read: no text file was noted"
            .to_owned()
            .into());
    }
    let jobs: Vec<Job> = files
        .iter()
        .map(|file| Job {
            path: file.path.clone(),
            from: 1,
            to: file.lines.unwrap_or(MAX_LINES).clamp(1, MAX_LINES),
        })
        .collect();
    let answers = read_all(desk, &jobs)?;
    let share = MAX_BYTES / files.len().max(1);
    let outlines = files.iter().zip(&answers);
    let notes =
        outlines.map(|(file, answer)| Note::Outline(fitted(outline(&file.path, answer), share)));
    Ok(outcome(&answers, found, large.len(), notes))
}

/// A file with the numbers and texts of its noted matches, in order.
struct Matched {
    path: String,
    count: u64,
    quotes: Vec<Quote>,
}

fn matched(scope: &Scope, terms: &[String], notes: &Notes) -> Vec<Matched> {
    let mut files: Vec<Matched> = Vec::new();
    let searches = terms.iter().filter_map(|term| notes.search(scope, term));
    for matches in searches.flat_map(|search| &search.matches) {
        let known = files.iter_mut().find(|file| file.path == matches.path);
        if let Some(file) = known {
            file.count += matches.count;
            file.quotes.extend(matches.quotes.iter().cloned());
        } else {
            files.push(Matched {
                path: matches.path.clone(),
                count: matches.count,
                quotes: matches.quotes.clone(),
            });
        }
    }
    files.retain(|file| !file.quotes.is_empty());
    for file in &mut files {
        file.quotes.sort_by_key(|quote| quote.at);
        file.quotes.dedup();
    }
    files.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.path.cmp(&b.path)));
    files
}

/// From the beginning to the last match if that is near, else a stretch that ends at or after as
/// many matches as fit.
fn job(file: &Matched) -> Job {
    let first = file.quotes.first().map_or(1, |quote| quote.at);
    let last = file.quotes.last().map_or(1, |quote| quote.at);
    let from = if last <= MAX_LINES {
        1
    } else {
        first.saturating_sub(100).max(1)
    };
    Job {
        path: file.path.clone(),
        from,
        to: last.min(from + MAX_LINES - 1),
    }
}

fn unread(path: &str) -> Read {
    Read {
        path: path.to_owned(),
        lossy: false,
        sections: Vec::new(),
        too_large: None,
        error: None,
    }
}

/// The heading above each match, where the line that was read is the line that was found.
fn learn(file: &Matched, answer: &Answer) -> Read {
    let read = match opened(answer) {
        Ok(read) => read,
        Err(error) => {
            return Read {
                error: Some(error),
                ..unread(&file.path)
            };
        }
    };
    let headings = headings(&file.path, &read.lines);
    let mut sections: Vec<Section> = Vec::new();
    for quote in &file.quotes {
        let line = read.lines.iter().find(|(number, _)| *number == quote.at);
        let same = line.is_some_and(|(_, line)| Quote::of(quote.at, line).text == quote.text);
        let above = headings
            .iter()
            .rev()
            .find(|(number, _)| *number <= quote.at);
        let Some((number, heading)) = above.filter(|(number, _)| same && *number < quote.at) else {
            continue;
        };
        match sections
            .last_mut()
            .filter(|last| last.heading.at == *number)
        {
            Some(section) => section.lines.push(quote.at),
            None => sections.push(Section {
                heading: Quote::of(*number, heading),
                lines: vec![quote.at],
            }),
        }
    }
    Read {
        lossy: read.lossy,
        sections,
        ..unread(&file.path)
    }
}

fn outline(path: &str, answer: &Answer) -> Outline {
    let nothing = Outline {
        path: path.to_owned(),
        to: 0,
        total: 0,
        lossy: false,
        opening: Vec::new(),
        headings: Vec::new(),
        more: 0,
        error: None,
    };
    let read = match opened(answer) {
        Ok(read) => read,
        Err(error) => {
            return Outline {
                error: Some(error),
                ..nothing
            };
        }
    };
    let filled = read
        .lines
        .iter()
        .filter(|(_, line)| !line.trim().is_empty());
    let opening = filled
        .take(2)
        .map(|(number, line)| Quote::of(*number, line));
    let found = headings(path, &read.lines);
    let quoted = found.iter().take(MAX_HEADINGS);
    Outline {
        to: read.to,
        total: read.total,
        lossy: read.lossy,
        opening: opening.collect(),
        headings: quoted
            .map(|(number, line)| Quote::of(*number, line))
            .collect(),
        more: found.len().saturating_sub(MAX_HEADINGS) as u64,
        ..nothing
    }
}

/// The outline without the last headings, as many as do not fit into `share` bytes.
fn fitted(mut outline: Outline, share: usize) -> Outline {
    while Page::cost(&Note::Outline(outline.clone())) > share {
        if outline.headings.pop().is_some() {
            outline.more += 1;
        } else if outline.opening.pop().is_none() {
            break;
        }
    }
    outline
}

fn text_files(survey: &SurveyNotes) -> Vec<&File> {
    let files = survey.files.iter();
    files
        .filter(|file| file.kind != "binary" && file.bytes > 0)
        .collect()
}

/// Whether the file is one that people read first.
pub(super) fn is_readme(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.to_lowercase().starts_with("readme")
}

fn is_data(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["lock", "json", "csv", "svg", "xml", "log", "map"].contains(&ending.to_lowercase().as_str())
        || path.ends_with("lock.yaml")
}

/// What became of the files that were to be read.
fn outcome(
    answers: &[Answer],
    found: usize,
    large: usize,
    notes: impl Iterator<Item = Note>,
) -> Outcome {
    let read: Vec<Excerpt> = answers
        .iter()
        .filter_map(|answer| opened(answer).ok())
        .collect();
    let lines: usize = read.iter().map(|read| read.lines.len()).sum();
    let mut parts = vec![format!(
        "read {} of {} of {}",
        plural(lines as u64, "line"),
        read.len(),
        plural(found as u64, "file")
    )];
    let failed = (answers.len() - read.len()) as u64;
    if failed > 0 {
        parts.push(format!("{} could not be read", plural(failed, "file")));
    }
    if large > 0 {
        let large = plural(large as u64, "file");
        parts.push(format!(
            "{large} larger than {MAX_FILE_BYTES} bytes left out"
        ));
    }
    let mut page = Page::of(MAX_BYTES);
    for note in notes {
        page.add(&note);
    }
    Outcome {
        summary: parts.join(", "),
        notes: page.text(),
    }
}
