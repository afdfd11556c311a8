//! The sections on how files begin, and on files that were not read.

use super::super::headings;
use super::super::notes::{File, Notes, Outline, Quote, SurveyNotes};
use super::super::query::Scope;
use super::super::reading::MAX_FILE_BYTES;
use super::super::text::{code, plural, visible};
use super::{MAX_ROWS, listed, quoted};

pub(super) fn outline(file: &Outline, blocks: &mut Vec<String>) {
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
pub(super) fn unread(
    survey: Option<&SurveyNotes>,
    notes: &Notes,
    scope: &Scope,
    blocks: &mut Vec<String>,
) {
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
