//! `read_progress`: the to-do list.

use super::{Answers, StateTool};
use crate::prompt::progress;

pub(super) const TOOL: StateTool = StateTool {
    name: "read_progress",
    description: "Reads the to-do list: the plan's steps with their sub-goals.",
    parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, _| {
        let run = decision.session.run(name.attempt.run);
        Ok(Some(run.map(progress::of_run).unwrap_or_default()))
    }),
};
