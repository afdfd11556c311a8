//! What the model is told when it plans. No I/O.

use cairn_engine::message::Message;

/// The conversation that asks for a plan: the planning prompt, then the goal with whatever
/// describes the surroundings (workspace, tools) after it, separated by blank lines.
pub(crate) fn ask_for_plan(prompt: &str, goal: &str, layers: &[String]) -> Vec<Message> {
    let layers = layers.iter().map(String::as_str);
    let requirement: Vec<&str> = std::iter::once(goal)
        .chain(layers)
        .map(str::trim_end)
        .filter(|part| !part.is_empty())
        .collect();
    vec![
        Message::system(prompt.trim_end()),
        Message::user(requirement.join("\n\n")),
    ]
}

/// Adds an answer that was no plan, and what is wrong with it, in the words of `request`.
pub(crate) fn ask_for_repair(messages: &mut Vec<Message>, answer: String, request: String) {
    messages.push(Message::assistant(answer, Vec::new()));
    messages.push(Message::user(request));
}
