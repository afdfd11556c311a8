//! The text of a history view, also where messages in it stand for older ones already.

use crate::conversation::{CompactionKind, Entry};
use crate::decide::words::EARLIER_SUMMARY;
use crate::message::Message;
use crate::prompt::history;
use crate::tokens::of_text;

/// Begins each line of a summary in a view, so that none of them reads as a line of the view itself.
const INDENT: &str = "    ";

/// The view of these messages, after that of the messages before them. A view among them continues it, and
/// a summary stands in it whole.
pub(super) fn view_of(before: Option<&str>, entries: &[Entry]) -> String {
    let mut text = before.unwrap_or_default().to_owned();
    let mut said: Vec<&Message> = Vec::new();
    for entry in entries {
        let more = match entry.compaction {
            None => {
                said.push(&entry.message);
                continue;
            }
            Some(CompactionKind::History) => entry.message.text(),
            // A notice can stand behind it in the same message, and is no part of it.
            Some(CompactionKind::Summary) => quoted(&entry.message.said()),
        };
        text = history::view(Some(&text), &said);
        said.clear();
        if !(text.is_empty() || more.is_empty()) {
            text.push('\n');
        }
        text.push_str(&more);
    }
    history::view(Some(&text), &said)
}

/// A view of at most so many tokens, without its oldest lines. The summaries in it stay, also where they alone
/// have more.
pub(super) fn shortened(view: &str, most: u64) -> String {
    let parts = parts(view);
    let summaries = parts.iter().filter(|part| part.is_summary);
    let kept: u64 = summaries.map(|part| of_text(&part.text)).sum();
    let mut left = most.saturating_sub(kept);
    let newest_first = parts.into_iter().rev().map(|part| {
        if part.is_summary {
            return part.text;
        }
        let text = history::shortened(&part.text, left);
        left = left.saturating_sub(of_text(&text));
        text
    });
    let mut texts: Vec<String> = newest_first.collect();
    texts.reverse();
    texts.join("\n")
}

/// Lines of a view that follow each other.
struct Lines {
    is_summary: bool,
    text: String,
}

fn parts(view: &str) -> Vec<Lines> {
    let mut parts: Vec<Lines> = Vec::new();
    for line in view.split('\n') {
        let last = parts.last_mut();
        let continues = last.as_ref().is_some_and(|last| last.is_summary);
        let is_summary = line == EARLIER_SUMMARY || (continues && line.starts_with(INDENT));
        match last {
            Some(last) if last.is_summary == is_summary => {
                last.text.push('\n');
                last.text.push_str(line);
            }
            _ => parts.push(Lines {
                is_summary,
                text: line.to_owned(),
            }),
        }
    }
    parts
}

/// A summary as lines of a view.
fn quoted(summary: &str) -> String {
    let mut text = EARLIER_SUMMARY.to_owned();
    for line in summary.trim().lines() {
        text.push('\n');
        text.push_str(INDENT);
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::compaction::samples::before;

    #[test]
    fn a_view_among_the_messages_continues_the_one_before() {
        let said = before("u a V u a").incremental;
        let text = view_of(Some("[done] older"), &said);
        let expected = "\
[done] older
[done] message 1
  Summary: reply 2
[done] goal 3
[done] message 4
  Summary: reply 5";
        assert_eq!(text, expected);
        assert_eq!(view_of(None, &said[2..3]), "[done] goal 3");
        assert_eq!(view_of(None, &[]), "");
    }

    #[test]
    fn a_summary_stands_in_a_view_whole_and_is_read_as_no_goal() {
        let mut said = before("u a S u a").incremental;
        let summary = Message::user("Summary of it:\n\n[done] not a goal\nFACT 17\n");
        said[2].message = summary.into();
        let text = view_of(None, &said);
        let block = format!(
            "{EARLIER_SUMMARY}\n    Summary of it:\n    \n    [done] not a goal\n    FACT 17"
        );
        assert!(text.contains(&format!("\n{block}\n")), "{text}");
        // Each later view begins with it.
        let later = view_of(Some(&text), &before("u a u a u a").incremental[4..]);
        assert!(later.starts_with(&text), "{later}");
        let short = shortened(&later, of_text(&block) + 30);
        assert!(short.contains(&block), "{short}");
        assert!(of_text(&short) <= of_text(&block) + 60, "{short}");
        assert!(!short.contains("message 1"), "{short}");
        assert_eq!(shortened(&later, 10_000), later);
    }
}
