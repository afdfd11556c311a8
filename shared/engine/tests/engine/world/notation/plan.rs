//! Plans of the notation. Knows nothing but the engine's words, so that others can read them, too.

use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};

pub(crate) fn plan(text: &str) -> PlanDraft {
    let (order, steps) = match text.strip_prefix("g:") {
        Some(steps) => (Order::Graph, steps),
        None => (Order::Chain, text),
    };
    PlanDraft {
        order,
        steps: steps.split_whitespace().map(step).collect(),
    }
}

fn step(text: &str) -> StepDraft {
    let (text, depends_on) = text.split_once('<').unwrap_or((text, ""));
    let (id, text) = text.split_once(':').unwrap_or(("", text));
    let (text, redo) = text.split_once('*').unwrap_or((text, "0"));
    let (text, argument) = text.split_once('=').unwrap_or((text, ""));
    let title = text.trim_end_matches('~');
    let mut step = StepDraft {
        id: if id.is_empty() { title } else { id }.to_owned(),
        title: title.to_owned(),
        redo: redo.parse().unwrap(),
        ..StepDraft::default()
    };
    if argument.is_empty() {
        step.description = format!("Do {title}.");
    } else {
        step.tool = Some(ToolInvocation {
            name: "look".to_owned(),
            arguments: format!("{{\"n\":{argument}}}"),
        });
    }
    if title != text {
        step.description = format!("{} In other words.", step.description);
    }
    let depends_on = depends_on.split(',').filter(|id| !id.is_empty());
    step.depends_on = depends_on.map(str::to_owned).collect();
    step
}
