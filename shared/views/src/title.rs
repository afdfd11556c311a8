//! What people call a session.

use cairn_engine::session::{RunSummary, Session};
use cairn_engine::text::cut;

/// Longest title of a list, in characters.
const MOST: usize = 200;

/// The title that the session was given, else what its first run is for: its goal, or the first step of
/// its first plan.
pub fn of_session(session: &Session) -> String {
    match session.title.as_str() {
        "" => listed(session),
        title => title.to_owned(),
    }
}

/// The same for lists, cut.
pub fn listed(session: &Session) -> String {
    let title = match session.title.as_str() {
        "" => session.runs.summary(1).map_or("", purpose),
        title => title,
    };
    // With the mark for what is left out they are 200 characters, and so at most 800 bytes.
    cut(title, MOST - 1)
}

/// No turn of a conversation has a plan that says more than its goal.
fn purpose(run: RunSummary<'_>) -> &str {
    let plan = run.plan.filter(|_| run.context.is_none());
    let first = plan.and_then(|plan| plan.steps.first());
    match (run.goal, first) {
        ("", Some(step)) => step.plan.label(),
        (goal, _) => goal,
    }
}
