//! The report: what the notes say, every statement with the place that it comes from.

mod beginnings;
mod comparison;
mod lines;

use self::beginnings::{outline, unread};
use self::comparison::comparison;
use self::lines::lines;
use super::answer::answer;
use super::compare::compare;
use super::context::StepContext;
use super::desk::{Desk, Outcome, Reply, write_file};
use super::notes::{File, Notes, Quote, SurveyNotes};
use super::query::Scope;
use super::task::REPORT_PATH;
use super::text::{Style, brief, cell, code, counted, plural, quote, visible};

/// Most lines that a report quotes.
const MAX_QUOTES: usize = 200;

/// Most rows of a table, and most items of a list.
const MAX_ROWS: usize = 20;

const FIRST_LINE: &str = "> Written by Cairn's offline model: rule-based, no language model. For \
    a real model set OPENAI_API_KEY or --model.";

const READING: &str = "Quoted lines are word for word, without the white space around them; one \
    that is followed by … continues, or was cut by the search. A control character is shown as a \
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
    let summary = match written {
        Ok(_) => format!("{answer} Report: {REPORT_PATH}"),
        Err(error) => format!(
            "{answer} The report was not written: {}",
            brief(&error, 200)
        ),
    };
    Ok(summary.into())
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
    let compared = compare(scope, terms, notes);
    if terms.len() > 1 && !compared.files.is_empty() {
        comparison(&compared, scope, &mut blocks);
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

fn quoted(path: &str, quote: &Quote) -> String {
    Style::Markdown.line(path, quote)
}

fn flush(list: &mut Vec<String>, blocks: &mut Vec<String>) {
    if !list.is_empty() {
        blocks.push(list.join("\n"));
        list.clear();
    }
}
