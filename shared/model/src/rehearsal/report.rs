//! The report: what the notes say, every statement with the place that it comes from.

use super::answer::{Style, answer};
use super::compare::{Comparison, compare};
use super::context::StepContext;
use super::desk::{Desk, Outcome, Reply, write_file};
use super::headings;
use super::notes::{File, Matches, Notes, Outline, Quote, SearchNotes, SurveyNotes};
use super::query::Scope;
use super::reading::MAX_FILE_BYTES;
use super::task::REPORT_PATH;
use super::text::{brief, cell, code, counted, plural, quote, visible};

/// Most lines that a report quotes.
const MAX_QUOTES: usize = 200;

/// Most rows of a table, and most items of a list.
const MAX_ROWS: usize = 20;

const FIRST_LINE: &str = "> Written by Cairn's rehearsal model: rule-based, no language model. For \
    a real model set OPENAI_API_KEY or --model.";

const READING: &str = "Quoted lines are word for word, without the white space around them; one \
    that is followed by … goes on, or was cut by the search. A control character is shown as a \
    symbol, a byte that is not valid UTF-8 as \u{fffd}.";

/// What a report is about.
pub(super) struct Subject<'a> {
    pub(super) scope: &'a Scope,
    pub(super) terms: &'a [String],
    pub(super) left_out: &'a [String],
}

/// Writes the report; the step's summary is the run's answer.
pub(super) fn run(
    desk: &Desk<'_>,
    context: &StepContext,
    subject: &Subject<'_>,
    notes: &Notes,
) -> Result<Outcome, Reply> {
    let text = render(&context.requirement, subject, notes);
    let thought = format!("writing {REPORT_PATH}");
    let written = desk.ask_one(&thought, write_file(REPORT_PATH, &text))?;
    let answer = answer(notes, subject.scope, subject.terms, Style::Plain);
    Ok(match written {
        Ok(_) => format!("{answer} Report: {REPORT_PATH}"),
        Err(error) => format!(
            "{answer} The report was not written: {}",
            brief(&error, 200)
        ),
    })
}

/// The report as Markdown.
pub(super) fn render(goal: &str, subject: &Subject<'_>, notes: &Notes) -> String {
    let Subject {
        scope,
        terms,
        left_out,
    } = subject;
    let mut blocks = vec![FIRST_LINE.to_owned(), "# Report".into()];
    let goal = brief(goal, 300);
    if !goal.is_empty() {
        blocks.push(format!("Goal: {}", code(&goal)));
    }
    blocks.push(answer(notes, scope, terms, Style::Markdown));
    if !left_out.is_empty() {
        let terms: Vec<String> = left_out.iter().map(|term| code(&visible(term))).collect();
        blocks.push(format!("Not searched for: {}.", terms.join(", ")));
    }
    let survey = notes.survey(scope);
    if let Some(survey) = survey.filter(|survey| survey.survey.files > 0) {
        files(survey, subject, notes, &mut blocks);
    }
    let share = MAX_QUOTES / terms.len().max(1);
    for term in *terms {
        if let Some(found) = notes.search(scope, term) {
            lines(found, notes, share, &mut blocks);
        }
    }
    if terms.len() > 1 {
        comparison(&compare(scope, terms, notes), scope, &mut blocks);
    }
    if terms.is_empty() {
        notes
            .outlines
            .iter()
            .for_each(|file| outline(file, &mut blocks));
    }
    unread(survey, notes, scope, &mut blocks);
    blocks.push("## How to read this".into());
    blocks.push(READING.into());
    blocks.join("\n\n") + "\n"
}

fn listed(scope: &Scope) -> String {
    code(&visible(&format!("list_files {}", scope.path)))
}

fn searched(scope: &Scope, term: &str) -> String {
    code(&visible(&format!(
        "search_files {} in {}",
        quote(term),
        scope.path
    )))
}

fn place(path: &str, line: u64) -> String {
    code(&visible(&format!("{path}:{line}")))
}

fn files(survey: &SurveyNotes, subject: &Subject<'_>, notes: &Notes, blocks: &mut Vec<String>) {
    let counts = &survey.survey;
    let listed = listed(&counts.scope);
    blocks.push("## Files".into());
    blocks.push(format!(
        "{}, {}: {} text, {} binary ({listed}).",
        counted(counts.at_least, counts.files, "file"),
        plural(counts.bytes, "byte"),
        counts.text,
        counts.binary
    ));
    remarks(&counts.remarks, &listed, blocks);
    let mut shown: Vec<&File> = survey.files.iter().take(MAX_ROWS).collect();
    let rest = counts.files - shown.len() as u64;
    if rest == 0 {
        shown.sort_by(|a, b| a.path.cmp(&b.path));
    }
    let comparison = compare(subject.scope, subject.terms, notes);
    let terms = if comparison.certain {
        subject.terms
    } else {
        &[]
    };
    let mut table = vec![String::from("| file | bytes | lines | kind |")];
    let mut ruler = String::from("| --- | ---: | ---: | --- |");
    for term in terms {
        table[0] += &format!(" lines with {} |", cell(&visible(term)));
        ruler += " ---: |";
    }
    table.push(ruler);
    for file in shown {
        let lines = file.lines.map_or("-".into(), |lines| lines.to_string());
        let (name, bytes) = (cell(&visible(&file.path)), file.bytes);
        let mut row = format!("| {name} | {bytes} | {lines} | {} |", visible(&file.kind));
        for at in 0..terms.len() {
            row += &match comparison
                .files
                .get(file.path.as_str())
                .and_then(|row| row[at])
            {
                Some(matches) => format!(" {} |", matches.count),
                None if file.kind == "binary" => " - |".into(),
                None => " 0 |".into(),
            };
        }
        table.push(row);
    }
    blocks.push(table.join("\n"));
    if rest > 0 {
        let more = counted(counts.at_least, rest, "more file");
        let larger = if counts.partial {
            ""
        } else {
            ", none of them larger"
        };
        blocks.push(format!("… and {more}{larger} ({listed})."));
    }
}

/// What a tool said about its own answer.
fn remarks(remarks: &[String], source: &str, blocks: &mut Vec<String>) {
    for remark in remarks {
        blocks.push(format!(
            "Not everything was seen: {} ({source}).",
            code(remark)
        ));
    }
}

fn lines(found: &SearchNotes, notes: &Notes, share: usize, blocks: &mut Vec<String>) {
    let search = &found.search;
    let searched = searched(&search.scope, &search.term);
    blocks.push(format!("## Lines with {}", code(&visible(&search.term))));
    if let Some(error) = &search.error {
        blocks.push(format!("The search failed: {} ({searched}).", code(error)));
        return;
    }
    let files = counted(search.at_least, search.files, "file");
    let count = counted(search.at_least, search.lines, "matching line");
    blocks.push(format!(
        "{count} in {files}, in upper or lower case ({searched})."
    ));
    let mut left = share;
    let (mut hidden, mut hidden_in) = (search.more_lines, search.more_files);
    for matches in &found.matches {
        let shown = &matches.quotes[..matches.quotes.len().min(left)];
        left -= shown.len();
        let dropped = matches.quotes.len() - shown.len();
        hidden += dropped as u64;
        // A file whose noted lines were all of its lines was not among those with more.
        let was_whole = matches.quotes.len() as u64 == matches.count;
        hidden_in += u64::from(dropped > 0 && was_whole);
        if !shown.is_empty() {
            file_lines(matches, shown, search.partial, notes, blocks);
        }
    }
    if hidden > 0 {
        blocks.push(format!(
            "… and {} in {} ({searched}).",
            counted(search.at_least, hidden, "more matching line"),
            counted(search.partial, hidden_in.max(1), "file")
        ));
    }
}

fn file_lines(
    matches: &Matches,
    shown: &[Quote],
    partial: bool,
    notes: &Notes,
    blocks: &mut Vec<String>,
) {
    let count = counted(partial, matches.count, "matching line");
    let first = place(&matches.path, matches.first);
    let name = code(&visible(&matches.path));
    blocks.push(format!("### {name}: {count}, the first at {first}"));
    let read = notes.read(&matches.path);
    let sections = read
        .map(|read| read.sections.as_slice())
        .unwrap_or_default();
    let mut list: Vec<String> = Vec::new();
    let mut above = None;
    for quote in shown {
        let section = sections
            .iter()
            .find(|section| section.lines.contains(&quote.at));
        let heading = section.map(|section| &section.heading);
        if heading.is_some() && heading != above {
            flush(&mut list, blocks);
            let heading = heading.map(|quote| quoted(&matches.path, quote));
            blocks.push(format!("Below {}:", heading.unwrap_or_default()));
        } else if heading.is_none() && above.is_some() {
            flush(&mut list, blocks);
            blocks.push("Elsewhere:".into());
        }
        above = heading;
        list.push(format!("- {}", quoted(&matches.path, quote)));
    }
    flush(&mut list, blocks);
}

fn flush(list: &mut Vec<String>, blocks: &mut Vec<String>) {
    if !list.is_empty() {
        blocks.push(list.join("\n"));
        list.clear();
    }
}

/// A line of a file, word for word, with its place.
fn quoted(path: &str, quote: &Quote) -> String {
    let mark = if quote.cut { " …" } else { "" };
    let text = match quote.text.as_str() {
        "" => "(white space)".to_owned(),
        text => code(text),
    };
    format!("{text}{mark} ({})", place(path, quote.at))
}

fn comparison(comparison: &Comparison<'_>, scope: &Scope, blocks: &mut Vec<String>) {
    let terms: Vec<String> = comparison.terms.iter().map(|t| code(&visible(t))).collect();
    let searches: Vec<String> = comparison
        .terms
        .iter()
        .map(|t| searched(scope, t))
        .collect();
    let searches = searches.join(", ");
    blocks.push("## Comparison".into());
    let together = comparison.together(&terms);
    group(
        comparison,
        comparison.all(),
        &format!("with {together}"),
        &searches,
        blocks,
    );
    if !comparison.certain {
        blocks.push(
            "Not every matching file was noted, so nothing is said here of files that lack a term."
                .into(),
        );
        return;
    }
    for (at, term) in terms.iter().enumerate() {
        let what = format!("with only {term} of these");
        group(comparison, comparison.only(at), &what, &searches, blocks);
    }
}

/// Files that have the same terms, each with the first line of each term.
fn group(
    comparison: &Comparison<'_>,
    paths: Vec<&str>,
    what: &str,
    searches: &str,
    blocks: &mut Vec<String>,
) {
    let count = counted(!comparison.certain, paths.len() as u64, "file");
    let end = if paths.is_empty() { '.' } else { ':' };
    blocks.push(format!("{count} {what} ({searches}){end}"));
    let rest = paths.len().saturating_sub(MAX_ROWS);
    let mut list: Vec<String> = Vec::new();
    for path in paths.into_iter().take(MAX_ROWS) {
        let row = comparison.files.get(path).into_iter().flatten().flatten();
        let places: Vec<String> = row.map(|matches| place(path, matches.first)).collect();
        list.push(format!(
            "- {} ({})",
            code(&visible(path)),
            places.join(", ")
        ));
    }
    flush(&mut list, blocks);
    if rest > 0 {
        blocks.push(format!(
            "… and {} ({searches}).",
            plural(rest as u64, "more file")
        ));
    }
}

fn outline(file: &Outline, blocks: &mut Vec<String>) {
    if file.error.is_some() {
        return;
    }
    blocks.push(format!("## {}", code(&visible(&file.path))));
    let source = code(&visible(&format!("read_file {}", file.path)));
    let found = plural(
        file.headings.len() as u64 + file.more,
        headings::noun(&file.path),
    );
    blocks.push(format!(
        "{found} in lines 1 to {} of {} ({source}).",
        file.to, file.total
    ));
    if !file.opening.is_empty() {
        blocks.push("It begins:".into());
    }
    let list = |quotes: &[Quote]| {
        let items: Vec<String> = quotes
            .iter()
            .map(|q| format!("- {}", quoted(&file.path, q)))
            .collect();
        items.join("\n")
    };
    if !file.opening.is_empty() {
        blocks.push(list(&file.opening));
    }
    if !file.headings.is_empty() {
        let noun = headings::noun(&file.path);
        blocks.push(format!("Its {noun}s:"));
        blocks.push(list(&file.headings));
    }
    if file.more > 0 {
        blocks.push(format!("… and {} more ({source}).", file.more));
    }
}

/// Files that were not searched or not read, and why.
fn unread(survey: Option<&SurveyNotes>, notes: &Notes, scope: &Scope, blocks: &mut Vec<String>) {
    let listed = listed(scope);
    let mut list: Vec<String> = Vec::new();
    let failed = notes
        .reads
        .iter()
        .map(|read| (&read.path, &read.error))
        .chain(
            notes
                .outlines
                .iter()
                .map(|outline| (&outline.path, &outline.error)),
        );
    for (path, error) in failed {
        let source = code(&visible(&format!("read_file {path}")));
        let name = code(&visible(path));
        if let Some(error) = error {
            list.push(format!(
                "- {name} could not be read: {} ({source}).",
                code(error)
            ));
        }
    }
    for read in &notes.reads {
        let name = code(&visible(&read.path));
        if let Some(bytes) = read.too_large {
            let bytes = plural(bytes, "byte");
            list.push(format!(
                "- {name} was searched, and not read: {bytes}, more than {MAX_FILE_BYTES} ({listed})."
            ));
        }
    }
    let binary = survey
        .map(|survey| survey.files.as_slice())
        .unwrap_or_default();
    let binary: Vec<&File> = binary.iter().filter(|file| file.kind == "binary").collect();
    for file in binary.iter().take(MAX_ROWS) {
        let name = code(&visible(&file.path));
        list.push(format!(
            "- {name} is binary: {} ({listed}).",
            plural(file.bytes, "byte")
        ));
    }
    let all = survey.map_or(0, |survey| survey.survey.binary);
    let rest = all.saturating_sub(binary.len().min(MAX_ROWS) as u64);
    if rest > 0 {
        list.push(format!(
            "- … and {} ({listed}).",
            plural(rest, "more binary file")
        ));
    }
    if !list.is_empty() {
        blocks.push("## Not read".into());
        blocks.push(list.join("\n"));
    }
}
