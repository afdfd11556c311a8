//! The section that tells the files apart by their terms.

use super::super::compare::Comparison;
use super::super::query::Scope;
use super::super::text::{code, counted, plural, visible};
use super::{MAX_ROWS, flush, place, searched};

pub(super) fn comparison(comparison: &Comparison<'_>, scope: &Scope, blocks: &mut Vec<String>) {
    let terms: Vec<String> = comparison.terms.iter().map(|t| code(&visible(t))).collect();
    let searches: Vec<String> = comparison
        .terms
        .iter()
        .map(|t| searched(scope, t))
        .collect();
    let searches = searches.join(", ");
    blocks.push("## Comparison".into());
    let together = comparison.together(&terms);
    let all = format!("{} with {together}", comparison.together_count());
    group(comparison, &comparison.all(), &all, &searches, blocks);
    if !comparison.certain {
        blocks.push(
            "Not every matching file was noted, so nothing is said here of files that lack a term."
                .into(),
        );
        return;
    }
    for (at, term) in terms.iter().enumerate() {
        let paths = comparison.only(at);
        let count = plural(paths.len() as u64, "file");
        let what = format!("{count} with only {term} of these");
        group(comparison, &paths, &what, &searches, blocks);
    }
}

/// Files that have the same terms, each with the first line of each term.
fn group(
    comparison: &Comparison<'_>,
    paths: &[&str],
    what: &str,
    searches: &str,
    blocks: &mut Vec<String>,
) {
    let end = if paths.is_empty() { '.' } else { ':' };
    blocks.push(format!("{what} ({searches}){end}"));
    let rest = paths.len().saturating_sub(MAX_ROWS);
    let mut list: Vec<String> = Vec::new();
    for path in paths.iter().take(MAX_ROWS) {
        let row = comparison.files.get(*path).into_iter().flatten().flatten();
        let places: Vec<String> = row.map(|matches| place(path, matches.first)).collect();
        list.push(format!(
            "- {} ({})",
            code(&visible(path)),
            places.join(", ")
        ));
    }
    flush(&mut list, blocks);
    if rest > 0 {
        let more = counted(!comparison.certain, rest as u64, "more file");
        blocks.push(format!("… and {more} ({searches})."));
    }
}
