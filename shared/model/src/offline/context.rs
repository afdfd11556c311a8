//! The step context: the user message that an attempt at a step begins with.

use cairn_engine::escape::unescape_lines;
use cairn_engine::message::{Message, Role};
use std::sync::Arc;

/// What the step context says.
#[derive(Debug, Default)]
pub(super) struct StepContext {
    pub(super) goal: String,
    pub(super) description: String,
    /// A line `- Step N: …` for each earlier step.
    pub(super) summaries: String,
    /// The notes of earlier steps.
    pub(super) notes: String,
}

/// The newest step context, and its index. Messages before it belong to a conversation.
pub(super) fn find(messages: &[Arc<Message>]) -> Option<(usize, StepContext)> {
    let newest = messages.iter().enumerate().rev();
    let mut newest = newest.filter(|(_, message)| message.role == Role::User);
    newest.find_map(|(at, message)| Some((at, parse(&message.said())?)))
}

/// The engine escapes texts from outside, so a line that looks like a heading is one.
fn parse(text: &str) -> Option<StepContext> {
    let (mut context, mut is_step) = (StepContext::default(), false);
    for section in text.strip_prefix("## ")?.split("\n## ") {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        let text = unescape_lines(body.trim());
        match heading {
            "Requirement" => context.goal = text,
            "Summaries of finished steps" => context.summaries = text,
            "Scratchpad" => context.notes = text,
            _ if heading.starts_with("Current step (step ") => {
                is_step = true;
                let description = body.split_once("\nDescription:").map_or("", |(_, it)| it);
                context.description = unescape_lines(description.trim());
            }
            _ => {}
        }
    }
    is_step.then_some(context)
}
