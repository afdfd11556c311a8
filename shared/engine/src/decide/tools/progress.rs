//! `read_progress`: the to-do list.

use super::StateTool;
use crate::prompt::progress;

pub(super) const TOOL: StateTool = StateTool {
    name: "read_progress",
    description: "Reads the to-do list: the plan's steps with their sub-goals.",
    parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    call: |decision, name, _| {
        let run = decision.session.run(name.attempt.run);
        Ok(Some(run.map(progress::of_run).unwrap_or_default()))
    },
};
