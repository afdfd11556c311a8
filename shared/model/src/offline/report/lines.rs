//! The section of a term: its lines, file by file, below the headings that they stand under.

use super::super::notes::{Matches, Notes, Quote, SearchNotes};
use super::super::text::{code, counted, visible};
use super::{flush, place, quoted, remarks, searched};

pub(super) fn lines(found: &SearchNotes, notes: &Notes, share: usize, blocks: &mut Vec<String>) {
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
    remarks(&search.remarks, &searched, blocks);
    let mut left = share;
    let (mut hidden, mut hidden_in) = (search.more_lines, search.more_files);
    let mut single: Vec<String> = Vec::new();
    for matches in &found.matches {
        let shown = &matches.quotes[..matches.quotes.len().min(left)];
        left -= shown.len();
        let dropped = matches.quotes.len() - shown.len();
        hidden += dropped as u64;
        // A file whose noted lines were all of its lines was not among those with more.
        let was_whole = matches.quotes.len() as u64 == matches.count;
        hidden_in += u64::from(dropped > 0 && was_whole);
        match shown {
            [] => {}
            [only] if matches.count == 1 && found.matches.len() > 1 => {
                single.push(single_line(&matches.path, only, notes));
            }
            shown => file_lines(matches, shown, search.partial, notes, blocks),
        }
    }
    if !single.is_empty() {
        let each = if search.partial {
            "One line of each of these files"
        } else {
            "One line each"
        };
        blocks.push(format!("### {each}"));
        flush(&mut single, blocks);
    }
    if hidden > 0 {
        blocks.push(format!(
            "… and {} in {} ({searched}).",
            counted(search.at_least, hidden, "more matching line"),
            counted(search.partial, hidden_in.max(1), "file")
        ));
    }
}

/// The line of a file that has no other, with the heading that it stands under.
fn single_line(path: &str, quote: &Quote, notes: &Notes) -> String {
    let line = quoted(path, quote);
    match heading(path, quote, notes) {
        Some(heading) => format!("- {line}, below {}", quoted(path, heading)),
        None => format!("- {line}"),
    }
}

/// The heading above a line, as far as it was read.
fn heading<'a>(path: &str, quote: &Quote, notes: &'a Notes) -> Option<&'a Quote> {
    let mut sections = notes.read(path)?.sections.iter();
    sections
        .find(|section| section.lines.contains(&quote.at))
        .map(|section| &section.heading)
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
    blocks.push(format!("### {name}: {count} ({first})"));
    let mut list: Vec<String> = Vec::new();
    let mut above = None;
    for quote in shown {
        let heading = heading(&matches.path, quote, notes);
        if heading != above {
            flush(&mut list, blocks);
            blocks.push(match heading {
                Some(heading) => format!("Below {}:", quoted(&matches.path, heading)),
                None => "Elsewhere:".into(),
            });
        }
        above = heading;
        list.push(format!("- {}", quoted(&matches.path, quote)));
    }
    flush(&mut list, blocks);
}
