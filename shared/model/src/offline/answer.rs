//! The answer: one or two sentences that the notes bear out.

use super::compare::compare;
use super::notes::{Notes, SearchNotes, Survey, SurveyNotes};
use super::query::Scope;
use super::reading::is_readme;
use super::survey;
use super::text::{Style, counted, plural, sentence};

/// What the notes say about `terms` in `scope`.
pub(super) fn answer(notes: &Notes, scope: &Scope, terms: &[String], style: Style) -> String {
    let place = style.place(scope);
    let Some(survey) = notes.survey(scope) else {
        return format!("Nothing is known of the files {place}: no survey of them was noted.");
    };
    let counts = &survey.survey;
    if counts.error.is_some() || (counts.files == 0 && !counts.at_least) {
        return format!("{}.", sentence(&survey::summary(counts, style)));
    }
    let sentences = match terms {
        [] => overview(survey, notes, style),
        [term] => one(counts, &place, term, notes.search(scope, term), style),
        terms => many(counts, &place, terms, notes, style),
    };
    match counts.binary {
        0 => sentences,
        _ if terms.is_empty() => sentences,
        1 => format!("{sentences} 1 binary file was not searched."),
        more => format!("{sentences} {more} binary files were not searched."),
    }
}

fn overview(survey: &SurveyNotes, notes: &Notes, style: Style) -> String {
    let largest = survey.files.iter().take(3);
    let largest: Vec<String> = largest
        .map(|file| {
            format!(
                "{} ({})",
                style.name(&file.path),
                plural(file.bytes, "byte")
            )
        })
        .collect();
    let largest = match largest.as_slice() {
        [] => String::new(),
        [only] if survey.survey.files == 1 => format!(" It is {only}."),
        several if survey.survey.partial => format!(" Among them: {}.", several.join(", ")),
        several => format!(" The largest: {}.", several.join(", ")),
    };
    let counts = sentence(&survey::summary(&survey.survey, style));
    format!("{}{counts}.{largest}", readme(notes, style))
}

/// How the README begins: where nothing is searched for, that is the best answer in the folder.
fn readme(notes: &Notes, style: Style) -> String {
    let mut outlines = notes.outlines.iter();
    let readme = outlines.find(|file| is_readme(&file.path) && !file.opening.is_empty());
    let Some(file) = readme else {
        return String::new();
    };
    let lines: Vec<String> = file
        .opening
        .iter()
        .map(|quote| style.line(&file.path, quote))
        .collect();
    format!("{} begins: {}. ", style.name(&file.path), lines.join(", "))
}

fn one(
    counts: &Survey,
    place: &str,
    term: &str,
    search: Option<&SearchNotes>,
    style: Style,
) -> String {
    let quoted = style.term(term);
    let all = counted(counts.at_least, counts.files, "file");
    let Some(notes) = search else {
        return format!("Nothing is known of {quoted}: no search for it was noted.");
    };
    let search = &notes.search;
    if let Some(error) = &search.error {
        let error = style.name(error);
        return format!("The files {place} could not be searched for {quoted}: {error}.");
    }
    if search.lines == 0 {
        let uncertain = if search.at_least {
            ", as far as the search went"
        } else {
            ""
        };
        return format!("None of {all} {place} mentions {quoted}{uncertain}.");
    }
    let known = if search.at_least { "At least " } else { "" };
    format!(
        "{known}{} of {all} {place} {} {quoted}, in {}: {}.",
        search.files,
        mention(search.files),
        counted(search.at_least, search.lines, "line"),
        sources(notes, 3, style)
    )
}

fn mention(files: u64) -> &'static str {
    if files == 1 { "mentions" } else { "mention" }
}

/// The first match of the first files.
fn sources(notes: &SearchNotes, limit: usize, style: Style) -> String {
    let shown = notes.matches.iter().take(limit);
    let shown: Vec<String> = shown
        .map(|matches| style.name(&format!("{}:{}", matches.path, matches.first)))
        .collect();
    let more = if notes.search.files > shown.len() as u64 {
        " …"
    } else {
        ""
    };
    format!("{}{more}", shown.join(", "))
}

fn many(counts: &Survey, place: &str, terms: &[String], notes: &Notes, style: Style) -> String {
    let scope = &counts.scope;
    let mut parts: Vec<String> = Vec::new();
    for term in terms {
        let quoted = style.term(term);
        parts.push(match notes.search(scope, term) {
            None => format!("nothing is known of {quoted}"),
            Some(found) if found.search.error.is_some() => {
                format!("the search for {quoted} failed")
            }
            Some(found) if found.search.lines == 0 => format!("none mentions {quoted}"),
            Some(found) => format!(
                "{}{} {} {quoted} ({})",
                if found.search.at_least {
                    "at least "
                } else {
                    ""
                },
                found.search.files,
                mention(found.search.files),
                sources(found, 2, style)
            ),
        });
    }
    let comparison = compare(scope, terms, notes);
    let all = comparison.all().len() as u64;
    let every = if terms.len() == 2 {
        "both"
    } else {
        "all of them"
    };
    parts.push(match all {
        0 if comparison.certain || comparison.lacking => format!("none mentions {every}"),
        0 => format!("none was seen to mention {every}"),
        _ if comparison.certain => format!("{all} {} {every}", mention(all)),
        _ => format!("at least {all} {} {every}", mention(all)),
    });
    let files = counted(counts.at_least, counts.files, "file");
    format!("Of {files} {place}, {}.", parts.join("; "))
}
