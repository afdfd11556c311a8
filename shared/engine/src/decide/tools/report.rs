//! `report_generator`: the report of the run so far.

use super::{Answers, Question, StateTool, arguments};
use serde::Deserialize;

pub(super) const TOOL: StateTool = StateTool {
    name: "report_generator",
    description: "Gives the report of this run so far, in Markdown: goal, plan with the state of each step, summaries, tool calls with their results, failures, and what was used up. The report shows the run until this call; the step that asks is still in progress in it. It writes no file. A long report is a long result: read_result reads on in it.",
    parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    answers: Answers::ByOwner(|_, at, call| {
        let Arguments {} = arguments(call)?;
        Ok(Question::Report {
            run: at.attempt.run,
        })
    }),
};

/// It has none: the report is that of the run that asks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {}
