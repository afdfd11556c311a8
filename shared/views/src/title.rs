//! What people call a session.

use cairn_engine::session::Session;
use cairn_engine::text::cut;

/// Longest title that is made of a goal, in characters.
const MOST: usize = 200;

/// The title that the session was given, else the goal of its first run.
pub fn of_session(session: &Session) -> String {
    match session.title.as_str() {
        "" => listed(session),
        title => title.to_owned(),
    }
}

/// What the session is listed under: the title that a fork or a renamed session was given, the goal of
/// its first run, or the title that it began with.
pub fn listed(session: &Session) -> String {
    let goal = session.runs.first().map(|run| run.goal.as_str());
    let goal = goal.filter(|goal| !goal.is_empty() && !session.keeps_title);
    // With the mark for what is left out they are 200 characters, and so at most 800 bytes.
    cut(goal.unwrap_or(&session.title), MOST - 1)
}
