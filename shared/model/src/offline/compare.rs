//! The Compare step: which files hold which of the terms.

use super::notes::{Matches, Notes};
use super::query::Scope;
use super::text::{counted, enumerated, plural, quote};
use std::collections::BTreeMap;

/// Which of the terms each noted file has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison<'a> {
    pub(super) terms: &'a [String],
    /// For each file the matches of each term, in the order of the terms.
    pub(super) files: BTreeMap<&'a str, Vec<Option<&'a Matches>>>,
    /// Every matching file of every term is noted, so that a missing match means something.
    pub(super) certain: bool,
    /// One of the terms is nowhere, so no file has all of them.
    pub(super) lacking: bool,
}

/// Puts the searches for `terms` side by side.
pub(super) fn compare<'a>(scope: &Scope, terms: &'a [String], notes: &'a Notes) -> Comparison<'a> {
    let mut files: BTreeMap<&str, Vec<Option<&Matches>>> = BTreeMap::new();
    let (mut certain, mut lacking) = (true, false);
    for (at, term) in terms.iter().enumerate() {
        let search = notes.search(scope, term);
        let whole = search.filter(|search| search.is_whole());
        certain &= whole.is_some();
        lacking |= whole.is_some_and(|search| search.matches.is_empty());
        for matches in search
            .map(|search| search.matches.as_slice())
            .unwrap_or_default()
        {
            let row = files
                .entry(&matches.path)
                .or_insert_with(|| vec![None; terms.len()]);
            row[at] = Some(matches);
        }
    }
    Comparison {
        terms,
        files,
        certain,
        lacking,
    }
}

impl Comparison<'_> {
    /// Files that have every term.
    pub(super) fn all(&self) -> Vec<&str> {
        self.with(|row| row.iter().all(Option::is_some))
    }

    /// Files that have the term at `at` and none of the others.
    pub(super) fn only(&self, at: usize) -> Vec<&str> {
        self.with(|row| {
            row.iter()
                .enumerate()
                .all(|(index, m)| m.is_some() == (index == at))
        })
    }

    fn with(&self, fits: impl Fn(&[Option<&Matches>]) -> bool) -> Vec<&str> {
        let files = self.files.iter();
        files
            .filter(|(_, row)| fits(row))
            .map(|(path, _)| *path)
            .collect()
    }

    /// `2 files`, for those that have every term.
    pub(super) fn together_count(&self) -> String {
        let sure = self.certain || self.lacking;
        counted(!sure, self.all().len() as u64, "file")
    }

    /// `both "a" and "b"`, `all of "a", "b" and "c"`.
    pub(super) fn together(&self, quoted: &[String]) -> String {
        let all = if quoted.len() == 2 { "both" } else { "all of" };
        format!("{all} {}", enumerated(quoted))
    }
}

/// Compares, from the notes alone; the step's summary.
pub(super) fn run(scope: &Scope, terms: &[String], notes: &Notes) -> String {
    let comparison = compare(scope, terms, notes);
    let quoted: Vec<String> = terms.iter().map(|term| quote(term)).collect();
    if comparison.files.is_empty() && comparison.certain {
        return format!("no file has any of {}", enumerated(&quoted));
    }
    let together = format!(
        "{} with {}",
        comparison.together_count(),
        comparison.together(&quoted)
    );
    if !comparison.certain {
        return format!("{together}; not every matching file was noted");
    }
    let only = quoted.iter().enumerate().map(|(at, term)| {
        format!(
            "{} with only {term}",
            plural(comparison.only(at).len() as u64, "file")
        )
    });
    let parts: Vec<String> = [together].into_iter().chain(only).collect();
    parts.join(", ")
}
