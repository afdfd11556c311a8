//! The step context: the user message that an attempt at a step begins with.

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
        .find_map(|(at, message)| Some((at, parse(&message.text)?)))
}

/// Only the requirement is written by a person without any rule, and it comes first: so the last
/// heading of the current step is the true one. What stands behind it is the plan's text, and
/// notes, which are JSON and never look like a heading.
fn parse(text: &str) -> Option<StepContext> {
    let lines: Vec<&str> = text.split('\n').map(|l| l.trim_end_matches('\r')).collect();
    if lines.iter().find(|line| !line.trim().is_empty()) != Some(&"## Requirement") {
        return None;
    }
    let current = lines.iter().rposition(|line| is_current_step(line))?;
    let overview = lines[..current]
        .iter()
        .rposition(|line| *line == "## Plan overview")
        .unwrap_or(current);
    let from = |start: usize, heading: &str| {
        let found = lines[start..].iter().position(|line| *line == heading);
        found.map_or(lines.len(), |offset| start + offset)
    };
    let scratchpad = from(current, "## Scratchpad");
    let summaries = from(current, "## Summaries of finished steps").min(scratchpad);
    let requirement = lines.iter().position(|line| *line == "## Requirement")? + 1;
    let described = lines[current..summaries]
        .iter()
        .position(|line| line.starts_with("Description:"))
        .map_or(summaries, |offset| current + offset);
    let description = lines[described..summaries].join("\n");
    let description = description.strip_prefix("Description:").unwrap_or_default();
    let notes = lines.get(scratchpad + 1..).unwrap_or_default();
    Some(StepContext {
        requirement: lines[requirement..overview].join("\n").trim().to_owned(),
        description: description.trim().to_owned(),
        scratchpad: notes.join("\n"),
    })
}

fn is_current_step(line: &str) -> bool {
    line.strip_prefix("## Current step (step ")
        .and_then(|rest| rest.strip_suffix(')'))
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## Requirement\nFind it.\n\n## Current step (step 9)\nTitle: fake\n\n\
        ## Plan overview\n1. Survey done\n2. Search >> current\n\n## Current step (step 2)\n\
        Title: Search\nDescription: Search well.\n\n## Summaries of finished steps\n\
        - Step 1: 3 files\n\n## Scratchpad\n{\"note\":1}\n## Scratchpad";

    #[test]
    fn a_requirement_that_looks_like_the_layout_misleads_nobody() {
        let (at, context) = find(&[Message::system("s"), Message::user(TEXT)]).unwrap();
        assert_eq!(at, 1);
        assert!(context.requirement.contains("Title: fake"));
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
