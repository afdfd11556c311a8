//! A history in place of messages: goals, calls with their results in brief, summaries.
//!
//! ```text
//! [done] Where is the limit set?
//!   Note: I look into the settings first.
//!   → search_files(limit): 2 files, 3 lines
//!   → read_file(src/limits.rs): failed: NotFound: no such file
//!   Summary: It is set in src/bounds.rs, line 11.
//! [in progress] Raise it to 32 MiB
//!   → read_file(src/bounds.rs): src/bounds.rs lines 1-40 of 40
//! ```
//!
//! | messages | lines |
//! |---|---|
//! | what a person says in a conversation | a goal, in progress |
//! | the reply that ends the turn | the goal is done; `Summary:` with the reply |
//! | a call of `step` that was not refused | goals that it plans, focuses on, drops or completes |
//! | what a person says to a step with goals | `User:` |
//! | any other call, with its result | `→ tool(arguments): result` |
//! | the text of another reply | `Note:` with its first sentence |
//! | notices of Cairn, and results without their calls | none |
//!
//! Each goal has its lines below it. Goals stand in the order in which work on them began, those to do
//! at the end. What belongs to no goal stands where it came up: the goal of a step is in the message
//! that the step began with, which stays.
//!
//! Each line is one line whatever a text contains, and only the line of a goal begins without spaces.
//! So [`view`] can read the goals of the view before it.
//!
//! Messages are a step's if one of its calls of `step` is among them, or Cairn's request to continue, or if
//! the view before has a goal that is to do or skipped. Without such a sign they are taken for a conversation's.

mod goals;
mod lines;
mod reading;

pub use lines::{GoalState, Lines, Outcome, is_key};

use crate::message::Message;
use crate::tokens;

/// The first line of a view without its oldest lines. No goal looks like it.
const LEFT_OUT: &str = "(older lines are left out)\n";

/// The history of these messages, oldest first, after the view of the messages before them. That one
/// stands in front, byte for byte. A goal of it that has another state now, or more lines, comes again
/// below with its present state.
///
/// ```
/// use cairn_engine::message::Message;
/// use cairn_engine::prompt::history::view;
///
/// let (asked, said) = (Message::user("Which one?"), Message::assistant("The first.", vec![]));
/// let before = view(None, &[&asked]);
/// assert_eq!(before, "[in progress] Which one?");
/// let after = "[in progress] Which one?\n[done] Which one?\n  Summary: The first.";
/// assert_eq!(view(Some(&before), &[&said]), after);
/// ```
pub fn view(before: Option<&str>, messages: &[&Message]) -> String {
    let before = before.unwrap_or_default();
    let more = reading::goals(before, messages).text();
    match (before, more.as_str()) {
        (before, "") => before.to_owned(),
        ("", _) => more,
        (before, more) => format!("{before}\n{more}"),
    }
}

/// A view of at most so many tokens by [`tokens::of_text`]: without its oldest lines, if it has more. Then its first
/// line says that lines are left out, and stays also where there is no room for it. The goal that the
/// oldest remaining line belongs to stays, too.
pub fn shortened(view: &str, most_tokens: u64) -> String {
    if tokens::of_text(view) <= most_tokens {
        return view.to_owned();
    }
    let lines = with_goals(view);
    let (mut first, mut of_rest) = (lines.len(), tokens::of_text(LEFT_OUT));
    for (at, (line, goal)) in lines.iter().enumerate().rev() {
        // Texts together have at most as many tokens as each by itself.
        of_rest += tokens::of_text(line);
        if of_rest + tokens::of_text(goal) > most_tokens {
            break;
        }
        first = at;
    }
    let rest = &lines[first..];
    let goal = rest.first().map_or("", |(_, goal)| *goal);
    let rest: String = rest.iter().map(|(line, _)| *line).collect();
    let mut text = format!("{LEFT_OUT}{goal}{rest}");
    text.truncate(text.trim_end().len());
    text
}

/// The lines of a view with their ends, each with the line of the goal that it belongs to; empty for
/// none, and for the goal itself.
fn with_goals(view: &str) -> Vec<(&str, &str)> {
    let mut goal = "";
    let lines = view.split_inclusive('\n').map(|line| {
        if lines::goal_of(line.trim_end()).is_some() {
            goal = line;
            return (line, "");
        }
        (line, goal)
    });
    lines.collect()
}
