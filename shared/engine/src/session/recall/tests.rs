use super::*;
use crate::conversation::CompactionKind;
use crate::message::{Media, Notice, Opaque, ToolCall};

fn entry(number: u32, message: Message) -> Entry {
    Entry {
        number,
        message: Arc::new(message),
        compaction: None,
    }
}

fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: tool.to_owned(),
        arguments: r#"{"query": "port"}"#.to_owned(),
    }
}

fn texts(entries: &[Entry]) -> Vec<(u32, Role, String)> {
    let said = remembered(entries);
    said.map(|it| (it.number, it.role, it.text.to_string()))
        .collect()
}

#[test]
fn what_was_said_called_and_found_is_remembered() {
    let entries = [
        entry(1, Message::user("Which port?")),
        entry(
            2,
            Message::assistant("I look.", vec![call("a", "read_file")]),
        ),
        entry(3, Message::tool("a", "port = 17", false)),
    ];
    let expected = [
        (1, Role::User, "Which port?"),
        (
            2,
            Role::Assistant,
            "I look.\nread_file {\"query\": \"port\"}",
        ),
        (3, Role::Tool, "port = 17"),
    ];
    let expected = expected.map(|(number, role, text)| (number, role, text.to_owned()));
    assert_eq!(texts(&entries), expected);
}

#[test]
fn searches_and_what_they_found_are_not_remembered() {
    let entries = [
        entry(1, Message::assistant("", vec![call("a", RETRIEVE)])),
        entry(2, Message::tool("a", "[message 9, user] port 17", false)),
        // A provider may give ids anew in each reply.
        entry(3, Message::assistant("", vec![call("a", "read_file")])),
        entry(4, Message::tool("a", "port = 17", false)),
    ];
    let numbers = texts(&entries).into_iter().map(|(number, ..)| number);
    assert_eq!(numbers.collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn media_notices_thoughts_and_stand_ins_are_not_remembered() {
    let notice = Part::Notice(Notice {
        text: "Memory changed.".to_owned(),
        is_of_workspace: false,
    });
    let thought = Part::Opaque(Opaque {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        kind: "thinking".to_owned(),
        json: "{}".to_owned(),
    });
    let picture = Media {
        mime: "image/png".to_owned(),
        data: b"png".to_vec(),
    };
    let mut said = Message::user("Look at it.").with_media([picture]);
    said.parts.extend([notice.clone(), thought]);
    let only_notice = Message {
        role: Role::User,
        parts: vec![notice],
    };
    let view = Entry {
        compaction: Some(CompactionKind::History),
        ..entry(3, Message::assistant("a list", Vec::new()))
    };
    let entries = [entry(1, said), entry(2, only_notice), view];
    assert_eq!(texts(&entries), [(1, Role::User, "Look at it.".to_owned())]);
}

#[test]
fn the_last_stand_in_counts() {
    let replaced_by = HashMap::from([(1, 4), (2, 4), (4, 7)]);
    let found = [1, 2, 3, 4, 7].map(|number| stand_in(&replaced_by, number));
    assert_eq!(found, [7, 7, 3, 7, 7]);
}
