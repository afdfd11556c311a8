//! What people call a session.

use cairn_engine::session::Session;
use cairn_engine::text::cut;

/// Longest title of a list, in characters.
const MOST: usize = 200;

/// The title that the session was given, else the goal of its first run.
pub fn of_session(session: &Session) -> String {
    match session.title.as_str() {
        "" => listed(session),
        title => title.to_owned(),
    }
}

/// The same for lists, cut.
pub fn listed(session: &Session) -> String {
    let goal = session.runs.summary(1).map_or("", |run| run.goal);
    let title = match session.title.as_str() {
        "" => goal,
        title => title,
    };
    // With the mark for what is left out they are 200 characters, and so at most 800 bytes.
    cut(title, MOST - 1)
}
