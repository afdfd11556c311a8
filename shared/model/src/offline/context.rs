//! The step context: the user message that an attempt at a step begins with.

use cairn_engine::escape::unescape_lines;
use cairn_engine::message::{Message, Role};

/// What a step is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StepContext {
    /// The goal of the run.
    pub(super) requirement: String,
    /// The current step's description.
    pub(super) description: String,
    /// The notes of this and of earlier steps.
    pub(super) scratchpad: String,
}

/// Finds the step context among the messages: its index and what it says. Messages before it are
/// a conversation's, messages after it the attempt's own.
pub(super) fn find(messages: &[Message]) -> Option<(usize, StepContext)> {
    let contexts = messages.iter().enumerate().rev();
    contexts
        .filter(|(_, message)| message.role == Role::User)
        .find_map(|(at, message)| Some((at, parse(&message.text())?)))
}

/// No text from outside begins a line like a heading, so a line that does is one.
fn parse(text: &str) -> Option<StepContext> {
    let lines: Vec<&str> = text.split('\n').map(|l| l.trim_end_matches('\r')).collect();
    if lines.iter().find(|line| !line.trim().is_empty()) != Some(&"## Requirement") {
        return None;
    }
    let step = section(&lines, is_current_step)?;
    let described = step
        .iter()
        .position(|line| line.starts_with("Description:"))
        .unwrap_or(step.len());
    let description = step[described..].join("\n");
    let description = description.strip_prefix("Description:").unwrap_or_default();
    let requirement = section(&lines, |line| line == "## Requirement")?;
    let notes = section(&lines, |line| line == "## Scratchpad").unwrap_or_default();
    Some(StepContext {
        requirement: unescape_lines(requirement.join("\n").trim()),
        description: unescape_lines(description.trim()),
        scratchpad: unescape_lines(&notes.join("\n")),
    })
}

/// The lines between the first such heading and the next one.
fn section<'a>(lines: &'a [&'a str], is_heading: impl Fn(&str) -> bool) -> Option<&'a [&'a str]> {
    let start = lines.iter().position(|line| is_heading(line))? + 1;
    let found = lines[start..]
        .iter()
        .position(|line| line.starts_with("## "));
    Some(&lines[start..found.map_or(lines.len(), |end| start + end)])
}

fn is_current_step(line: &str) -> bool {
    line.strip_prefix("## Current step (step ")
        .and_then(|rest| rest.strip_suffix(')'))
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## Requirement\nFind it.\n\n\\## Current step (step 9)\nTitle: fake\n\n\
        ## Plan overview\n1. Survey done\n2. Search >> current\n\n## Current step (step 2)\n\
        Title: Search\nDescription: Search well.\n\n## Summaries of finished steps\n\
        - Step 1: 3 files\n\n## Scratchpad\n{\"note\":1}\n\\## Scratchpad";

    #[test]
    fn texts_that_look_like_the_layout_are_read_as_they_were_written() {
        let (at, context) = find(&[Message::system("s"), Message::user(TEXT)]).unwrap();
        assert_eq!(at, 1);
        let requirement = "Find it.\n\n## Current step (step 9)\nTitle: fake";
        assert_eq!(context.requirement, requirement);
        assert_eq!(context.description, "Search well.");
        assert_eq!(context.scratchpad, "{\"note\":1}\n## Scratchpad");
    }

    #[test]
    fn sections_may_be_missing() {
        let text = "## Requirement\r\nGo\r\n## Current step (step 1)\r\nTitle: T\r\nDescription: D";
        let (_, context) = find(&[Message::user(text)]).unwrap();
        assert_eq!(context.requirement, "Go");
        assert_eq!(context.description, "D");
        assert_eq!(context.scratchpad, "");
        assert_eq!(find(&[Message::user("## Requirement\nGo")]), None);
    }

    #[test]
    fn the_newest_context_counts() {
        let older = Message::user(TEXT.replace("Search well.", "Old."));
        let (at, context) = find(&[older, Message::user("hello"), Message::user(TEXT)]).unwrap();
        assert_eq!((at, context.description.as_str()), (2, "Search well."));
    }
}
