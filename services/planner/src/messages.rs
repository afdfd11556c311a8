//! What the model is told when it plans. No I/O.

use cairn_engine::message::Message;

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

/// Adds an answer that was no plan, and what is wrong with it, in the words of `request`.
pub(crate) fn ask_for_repair(messages: &mut Vec<Message>, answer: String, request: String) {
    messages.push(Message::assistant(answer, Vec::new()));
    messages.push(Message::user(request));
}
