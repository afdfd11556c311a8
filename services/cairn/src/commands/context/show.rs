//! `cairn context show`: the messages of a context.

use super::rpc;
use crate::client::Client;
use crate::error::CliError;
use crate::ui::compaction::stands_for;
use crate::ui::flow::{gist, one_line};
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::block;
use cairn_engine::result::TOO_LONG;
use cairn_engine::text::first_line;
use cairn_proto::event::part::Part;
use cairn_proto::event::{Message, Role};
use cairn_proto::json;
use cairn_proto::orchestrator::{IndexedMessage, ListMessagesRequest};

/// Columns of a call and of a result.
const COLUMNS: usize = 200;
/// Columns of the first line of a long result.
const FIRST_COLUMNS: usize = 60;

/// Shows the messages page by page.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: String,
    context: String,
    in_window: bool,
) -> Result<(), CliError> {
    let mut request = ListMessagesRequest {
        session,
        context,
        in_window,
        ..ListMessagesRequest::default()
    };
    loop {
        let page = client.persist_contexts(|mut contexts| {
            let request = request.clone();
            async move { contexts.list_messages(request).await }
        });
        let page = page.await;
        let page = page.map_err(|error| rpc::not_found(client, &request.session, error))?;
        for message in &page.messages {
            tell(client, message)?;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(());
        }
    }
}

fn tell(client: &Client<'_>, message: &IndexedMessage) -> Result<(), CliError> {
    let context = client.context();
    if context.json {
        let name = "cairn.orchestrator.v1.IndexedMessage";
        return out::json(&json::value(name, Some(message)));
    }
    let style = Style::new(context.color);
    let mut lines = lines(style, message).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// A message for people.
fn lines(style: Style, message: &IndexedMessage) -> Vec<String> {
    let content = message.message.clone().unwrap_or_default();
    let role = role(&content);
    let mut heading = format!("{:>4}  {role}", message.index);
    if let Some(what) = stands_for(message.compaction()) {
        heading.push_str(&format!("  ({what})"));
    }
    let mut lines = vec![style.strong(&heading)];
    for part in content.parts.iter().filter_map(|part| part.part.as_ref()) {
        let text = part_text(part);
        lines.extend(
            text.lines()
                .map(|line| format!("      {line}").trim_end().to_owned()),
        );
    }
    lines
}

fn role(message: &Message) -> &'static str {
    match message.role() {
        Role::Unspecified => "unknown",
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text(text) => block(text),
        Part::Call(call) => one_line(&format!("→ {} {}", call.name, call.arguments_json), COLUMNS),
        Part::Result(result) => {
            let mark = if result.is_error { "✗" } else { "✓" };
            format!("{mark} {}", result_text(&result.text))
        }
        Part::Media(media) => one_line(
            &format!("({}, {} bytes)", media.mime, media.data.len()),
            COLUMNS,
        ),
        Part::Opaque(opaque) => one_line(
            &format!("({} of {}/{})", opaque.kind, opaque.provider, opaque.model),
            COLUMNS,
        ),
    }
}

/// The first line of a result, and how many there are. Of a long one the note says how many: the lines
/// before it are only the beginning.
fn result_text(text: &str) -> String {
    let last = text.lines().next_back();
    match last.filter(|last| last.starts_with(TOO_LONG)) {
        Some(note) => {
            let first = one_line(first_line(text).unwrap_or_default(), FIRST_COLUMNS);
            format!("{first} {}", one_line(note, COLUMNS))
        }
        None => gist(text, COLUMNS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{CompactionKind, Part as Wrapped, ToolCall};

    #[test]
    fn a_long_result_is_its_first_line_and_its_note() {
        let note =
            format!("{TOO_LONG}this is its beginning, 14 of 5242880 bytes; it has 80000 lines]");
        let text = format!("line 1\nline 2\n{note}");
        assert_eq!(result_text(&text), format!("line 1 {note}"));
        assert_eq!(result_text("line 1\nline 2\n"), "line 1 (+1 line)");
    }

    #[test]
    fn a_message_is_its_role_and_its_parts() {
        let parts = [
            Part::Text("One.\nTwo\u{1b}.".to_owned()),
            Part::Call(ToolCall {
                id: "c".to_owned(),
                name: "look".to_owned(),
                arguments_json: "{}".to_owned(),
            }),
        ];
        let message = IndexedMessage {
            index: 3,
            message: Some(Message {
                role: Role::Assistant.into(),
                parts: parts.map(Wrapped::from).to_vec(),
            }),
            ..IndexedMessage::default()
        };
        assert_eq!(
            lines(Style::new(false), &message),
            [
                "   3  assistant",
                "      One.",
                "      Two\\u{1b}.",
                "      → look {}",
            ]
        );
    }

    #[test]
    fn a_message_that_stands_for_older_ones_says_so() {
        let message = |compaction: CompactionKind| IndexedMessage {
            message: Some(Message {
                role: Role::User.into(),
                parts: Vec::new(),
            }),
            compaction: compaction.into(),
            ..IndexedMessage::default()
        };
        let heading = |kind| lines(Style::new(false), &message(kind)).concat();
        assert_eq!(heading(CompactionKind::Unspecified), "   0  user");
        let summary = "   0  user  (summary of older messages)";
        assert_eq!(heading(CompactionKind::Summary), summary);
    }
}
