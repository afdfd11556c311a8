//! What no rule wrote: a step that a person described, and a turn of a conversation.

use super::answer::answer;
use super::context::StepContext;
use super::desk::{Desk, Outcome, Reply};
use super::notes::{MAX_BYTES, Notes};
use super::query::{Query, Scope};
use super::report::{self, Subject};
use super::text::Style;
use super::{refused, search, survey};

/// What a person is told where nothing can be looked for.
const HELP: &str = "offline is rule-based, no language model: it can list, search and read the \
    files of the workspace. Name the words to look for, best in quotation marks, and a folder, as \
    in: Which files under docs mention \"Redis\"? For a real model set OPENAI_API_KEY or --model.";

/// Does what the rules understand of a person's description.
pub(super) fn step(
    desk: &Desk<'_>,
    context: &StepContext,
    notes: &Notes,
) -> Result<Outcome, Reply> {
    let query = Query::parse(&context.description);
    if let Some(reason) = query.refusal {
        return Ok(refused(reason).into());
    }
    if wants_report(&context.description) && !notes.surveys.is_empty() {
        let (scope, terms) = noted(notes);
        let subject = Subject {
            scope: &scope,
            terms: &terms,
            left_out: &[],
        };
        return report::run(desk, context, &subject, notes);
    }
    let notes = look(desk, &query)?;
    Ok(Outcome {
        summary: said(&query, &notes),
        notes,
    })
}

/// The reply to a turn of a conversation.
pub(super) fn turn(desk: &Desk<'_>, question: &str) -> Result<String, Reply> {
    let query = Query::parse(question);
    if let Some(reason) = query.refusal {
        return Ok(refused(reason));
    }
    if query.terms.is_empty() {
        return Ok(HELP.to_owned());
    }
    let notes = look(desk, &query)?;
    Ok(said(&query, &notes))
}

fn wants_report(description: &str) -> bool {
    let lower = description.to_lowercase();
    lower.contains("report") || lower.contains("报告")
}

/// The newest survey's scope, and the terms that were searched for in it.
fn noted(notes: &Notes) -> (Scope, Vec<String>) {
    let whole = || Scope {
        path: ".".into(),
        only: Vec::new(),
    };
    let newest = notes.surveys.last().map(|notes| notes.survey.scope.clone());
    let scope = newest.unwrap_or_else(whole);
    let searches = notes.searches.iter().map(|notes| &notes.search);
    let terms = searches.filter(|search| search.scope == scope);
    let terms = terms.map(|search| search.term.clone()).collect();
    (scope, terms)
}

/// Lists and searches at once; the notes of it.
fn look(desk: &Desk<'_>, query: &Query) -> Result<String, Reply> {
    let path = &query.scope.path;
    let mut calls = vec![desk.list_files(path)];
    calls.extend(query.terms.iter().map(|term| desk.search_files(term, path)));
    let share = MAX_BYTES / calls.len();
    let mut answers = desk.ask("looking at the files", calls)?.into_iter();
    let mut text = String::new();
    if let Some(listed) = answers.next() {
        text += &survey::notes(&query.scope, &listed, share).1.text();
    }
    for (term, answer) in query.terms.iter().zip(answers) {
        text += &search::notes(desk, &query.scope, term, &answer, share)?
            .1
            .text();
    }
    Ok(text)
}

fn said(query: &Query, notes: &str) -> String {
    let notes = Notes::parse(notes);
    answer(&notes, &query.scope, &query.terms, Style::Plain)
}
