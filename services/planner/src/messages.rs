//! What the model is told when it plans. No I/O.

use cairn_engine::message::Message;
use cairn_engine::plan::{Order, PlanDraft, StepDraft};
use cairn_proto::planner::MakePlanRequest;
use serde_json::{Map, Value, json};

/// The conversation that asks for a plan. The system prompt is `planning` and then the
/// owner's layers (agent, environment, session memory), separated by blank lines; the goal alone
/// is the first message, so that nothing else can be taken for it.
///
/// For another plan, the earlier one follows as the model's answer and the feedback as the next
/// message. What came of the earlier plan is the last layer of the system prompt, so that nothing
/// in it can be taken for what a person wants.
pub(crate) fn ask_for_plan(
    planning: &str,
    request: &MakePlanRequest,
    plan: Option<&PlanDraft>,
) -> Vec<Message> {
    let earlier = request.earlier.as_ref();
    let results = earlier.map(|earlier| &earlier.results);
    let results = results.filter(|results| !results.is_empty());
    let results = results.map(|text| format!("## What came of the plan so far\n\n{text}"));
    let system: Vec<&str> = std::iter::once(planning)
        .chain(request.prompt_layers.iter().map(String::as_str))
        .chain(results.as_deref())
        .map(str::trim_end)
        .filter(|layer| !layer.is_empty())
        .collect();
    let mut messages = vec![
        Message::system(system.join("\n\n")),
        Message::user(request.goal.trim_end()),
    ];
    messages.extend(plan.map(|plan| Message::assistant(written(plan), Vec::new())));
    messages.extend(earlier.map(|earlier| Message::user(earlier.feedback.trim_end())));
    messages
}

/// A plan as a model would have answered it: what is empty is left out, and so are external ids and notes, which are
/// not for models.
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

/// An answer that was no plan, and what is wrong with it, in the words of `request`.
pub(crate) fn ask_for_repair(answer: Message, request: String) -> [Message; 2] {
    [answer, Message::user(request)]
}
