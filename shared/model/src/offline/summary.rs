//! A summary of a conversation: what was said, a line each.

use cairn_engine::decide::SUMMARY_REQUEST;
use cairn_engine::message::{Message, Role};
use cairn_engine::text::one_line;
use std::sync::Arc;

/// Most lines, and most characters of a line.
const MAX_LINES: usize = 60;
const MAX_LINE: usize = 400;

/// The summary, if the last message asks for one.
pub(super) fn wanted(messages: &[Arc<Message>]) -> Option<String> {
    let (last, said) = messages.split_last()?;
    (last.role == Role::User && last.text().starts_with(SUMMARY_REQUEST)).then(|| of(said))
}

fn of(said: &[Arc<Message>]) -> String {
    let lines = said.iter().filter_map(|message| {
        let speaker = match message.role {
            Role::User => "The user",
            Role::Assistant => "The model",
            Role::System | Role::Tool => return None,
        };
        let text = one_line(&message.said(), MAX_LINE);
        (!text.is_empty()).then(|| format!("- {speaker}: {text}"))
    });
    let mut lines: Vec<String> = lines.collect();
    let older = lines.len().saturating_sub(MAX_LINES);
    lines.drain(..older);
    let lines = lines.join("\n");
    format!("The offline model copies what was said, the newest last:\n\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::{Notice, Part};

    #[test]
    fn what_was_said_is_copied_without_what_cairn_adds() {
        let mut asked = Message::user("The port is\n4711.");
        asked.parts.push(Part::Notice(Notice {
            text: "<system-reminder>\nx\n</system-reminder>".to_owned(),
            is_of_workspace: false,
        }));
        let messages = [
            Message::system("You talk with a person."),
            asked,
            Message::assistant("Noted.", Vec::new()),
            Message::tool("1", "15 files", false),
            Message::user(format!("{SUMMARY_REQUEST} In one line.")),
        ];
        let mut messages = messages.map(Arc::new).to_vec();
        let expected = "The offline model copies what was said, the newest last:\n\n\
                        - The user: The port is 4711.\n- The model: Noted.";
        assert_eq!(wanted(&messages).as_deref(), Some(expected));
        messages.pop();
        assert_eq!(wanted(&messages), None);
    }
}
