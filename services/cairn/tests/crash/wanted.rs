//! What the runs under kills are asked for.

use super::support::chain;
use cairn_proto::event as wire;

const GOAL: &str = "Which files under docs mention Redis, and what do they say about it?";

/// Every fourth run has a goal, the others plans.
pub(crate) fn wanted(name: &str, number: usize) -> wire::StartRun {
    match number % 4 {
        3 => wire::StartRun {
            goal: GOAL.to_owned(),
            ..wire::StartRun::default()
        },
        _ => planned(name, number.is_multiple_of(2)),
    }
}

/// A plan with tools of every effect, in a chain or side by side.
fn planned(name: &str, is_graph: bool) -> wire::StartRun {
    let step = |tool: &str, arguments: String| wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments,
        }),
        ..wire::PlanStep::default()
    };
    let round = |number| {
        let path = format!("cairn-out/{name}-{number}.md");
        [
            step("record", format!(r#"{{"what":"{name} {number}"}}"#)),
            step("list_files", r#"{"path":"docs"}"#.to_owned()),
            step(
                "write_file",
                format!(r#"{{"content":"note","path":"{path}"}}"#),
            ),
        ]
    };
    let mut run = chain((0..3).flat_map(round).collect());
    if let Some(plan) = run.plan.as_mut().filter(|_| is_graph) {
        plan.order = wire::Order::Graph.into();
    }
    run
}
