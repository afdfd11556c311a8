//! The Survey step: which files there are.

use super::desk::{Answer, Desk, Outcome, Reply};
use super::notes::{File, MAX_BYTES, Note, Page, Survey};
use super::query::Scope;
use super::results::{Entry, Listing, Total, listing};
use super::text::{Style, brief, counted, plural};

/// Most files that a survey notes.
const MAX_NOTED: usize = 100;

/// Lists the files of `scope`.
pub(super) fn run(desk: &Desk<'_>, scope: &Scope) -> Result<Outcome, Reply> {
    let thought = format!("listing the files {}", Style::Plain.place(scope));
    let answer = desk.ask_one(&thought, desk.list_files(&scope.path))?;
    let (survey, page) = notes(scope, &answer, MAX_BYTES);
    Ok(Outcome {
        summary: summary(&survey, Style::Plain),
        notes: page.text(),
    })
}

/// What is noted of an answer of `list_files`, in at most `bytes` bytes.
pub(super) fn notes(scope: &Scope, answer: &Answer, bytes: usize) -> (Survey, Page) {
    let (listing, error) = match answer {
        Ok(text) => (listing(text), None),
        Err(error) => (Listing::default(), Some(brief(error, 300))),
    };
    let Listing {
        mut entries,
        complete,
        ..
    } = listing;
    let shown = entries.len();
    entries.retain(|entry| scope.admits(&entry.path));
    // The totals are of all files: they say something only where all of them are meant.
    let total = listing
        .total
        .filter(|_| scope.only.is_empty() && shown == entries.len());
    let exact = complete || total.is_some() || error.is_some();
    let total = total.unwrap_or_else(|| count(&entries));
    let survey = Survey {
        scope: scope.clone(),
        files: total.files,
        bytes: total.bytes,
        text: total.text,
        binary: total.binary,
        at_least: !exact,
        partial: !complete && error.is_none(),
        remarks: listing
            .remarks
            .iter()
            .take(5)
            .map(|remark| brief(remark, 200))
            .collect(),
        error,
    };
    let mut page = Page::of(bytes);
    page.add(&Note::Survey(survey.clone()));
    entries.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    for entry in entries.into_iter().take(MAX_NOTED) {
        let noted = page.add(&Note::File(File {
            path: entry.path,
            bytes: entry.bytes,
            lines: entry.lines,
            kind: entry.kind,
        }));
        if !noted {
            break;
        }
    }
    (survey, page)
}

fn count(entries: &[Entry]) -> Total {
    let binary = entries
        .iter()
        .filter(|entry| entry.kind == "binary")
        .count() as u64;
    Total {
        files: entries.len() as u64,
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
        text: entries.len() as u64 - binary,
        binary,
    }
}

/// One line on the files of a folder.
pub(super) fn summary(survey: &Survey, style: Style) -> String {
    let place = style.place(&survey.scope);
    if let Some(error) = &survey.error {
        let error = style.name(error);
        return format!("the files {place} could not be listed: {error}");
    }
    if survey.files == 0 && !survey.at_least {
        return format!("there are no files {place}");
    }
    format!(
        "{} {place}, {}: {} text, {} binary",
        counted(survey.at_least, survey.files, "file"),
        plural(survey.bytes, "byte"),
        survey.text,
        survey.binary
    )
}
