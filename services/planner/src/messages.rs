//! What the model is told when it plans. No I/O.

use cairn_engine::message::Message;
use cairn_engine::plan::{Order, PlanDraft, StepDraft};
use serde_json::{Map, Value, json};

/// The conversation that asks for a plan. The system prompt is the planner's own and then the
/// owner's layers (agent, environment, session memory), separated by blank lines; the goal alone
/// is the first message, so that nothing else can be taken for it.
pub(crate) fn ask_for_plan(prompt: &str, goal: &str, layers: &[String]) -> Vec<Message> {
    let layers = layers.iter().map(String::as_str);
    let system: Vec<&str> = std::iter::once(prompt)
        .chain(layers)
        .map(str::trim_end)
        .filter(|layer| !layer.is_empty())
        .collect();
    vec![
        Message::system(system.join("\n\n")),
        Message::user(goal.trim_end()),
    ]
}

/// The conversation that asks for another plan: that of the first one, with the plan in force as its
/// answer and the feedback as the next message. What came of the plan so far is the last layer of
/// the system prompt, so that nothing in it can be taken for what somebody wants.
pub(crate) fn ask_for_revision(
    prompt: &str,
    goal: &str,
    layers: &[String],
    plan: Option<&PlanDraft>,
    results: &str,
    feedback: &str,
) -> Vec<Message> {
    let mut layers = layers.to_vec();
    if !results.is_empty() {
        layers.push(format!("## What came of the plan so far\n\n{results}"));
    }
    let mut messages = ask_for_plan(prompt, goal, &layers);
    messages.extend(plan.map(|plan| Message::assistant(written(plan), Vec::new())));
    messages.push(Message::user(feedback.trim_end()));
    messages
}

/// A plan as a model would have answered it: what is empty is left out.
fn written(plan: &PlanDraft) -> String {
    let order = match plan.order {
        Order::Chain => "chain",
        Order::Graph => "graph",
    };
    let steps: Vec<Value> = plan.steps.iter().map(written_step).collect();
    format!("{:#}", json!({"order": order, "steps": steps}))
}

fn written_step(step: &StepDraft) -> Value {
    let mut fields = Map::new();
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            fields.insert(name.to_owned(), json!(value));
        }
    };
    text("id", &step.id);
    text("title", &step.title);
    text("description", &step.description);
    if let Some(tool) = &step.tool {
        text("tool", &tool.name);
        // They were checked when the plan was.
        let arguments = serde_json::from_str(&tool.arguments).unwrap_or(Value::Null);
        fields.insert("arguments".to_owned(), arguments);
    }
    for (name, list) in [
        ("depends_on", &step.depends_on),
        ("capabilities", &step.capabilities),
    ] {
        if !list.is_empty() {
            fields.insert(name.to_owned(), json!(list));
        }
    }
    Value::Object(fields)
}

/// Adds an answer that was no plan, and what is wrong with it, in the words of `request`.
pub(crate) fn ask_for_repair(messages: &mut Vec<Message>, answer: String, request: String) {
    messages.push(Message::assistant(answer, Vec::new()));
    messages.push(Message::user(request));
}
