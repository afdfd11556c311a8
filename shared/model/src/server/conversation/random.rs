//! Random lists of messages, for the tests of the encoders.

use crate::server::extra::{CALL_FIELDS, MESSAGE_FIELDS};
use crate::{ChatRequest, OfferedTool};
use cairn_engine::message::{Media, Message, Notice, Opaque, Part, Role, ToolCall, ToolResult};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// The name of the model that the encoders are tested with.
pub(crate) const MODEL: &str = "m";

/// Names of tools as models may write them, and as they are sent.
const NAMES: [(&str, &str); 5] = [
    ("read", "read"),
    ("functions.read", "functions_read"),
    ("read \u{e9}\n", "read___"),
    ("", "unnamed"),
    (
        "an-overlong-name-of-a-tool-that-nobody-would-ever-offer-to-a-model",
        "an-overlong-name-of-a-tool-that-nobody-would-ever-offer-to-a-mod",
    ),
];

/// Messages of all roles, with parts in any order, ids that come twice, and results that are
/// missing. Each text that is not blank is there once.
pub(crate) fn messages() -> impl Strategy<Value = Vec<Message>> {
    let roles = vec![
        Role::System,
        Role::User,
        Role::Tool,
        Role::Tool,
        Role::Assistant,
        Role::Assistant,
    ];
    let message = (select(roles), prop::collection::vec(part(), 0..4));
    let message = message.prop_map(|(role, parts)| Message { role, parts });
    prop::collection::vec(message, 0..14).prop_map(|mut messages| {
        let parts = messages.iter_mut().flat_map(|message| &mut message.parts);
        for (number, part) in parts.enumerate() {
            if let Part::Text(text)
            | Part::Notice(Notice { text, .. })
            | Part::Result(ToolResult { text, .. }) = part
                && !text.trim().is_empty()
            {
                *text = format!("{text}{number};");
            }
        }
        messages
    })
}

fn part() -> impl Strategy<Value = Part> {
    let id = || select(vec!["", "a", "b", "c", "a b", "a_b", "é"]).prop_map(str::to_owned);
    let text = || select(vec!["", " \n", "said", "\"said\" "]).prop_map(str::to_owned);
    let arguments = select(vec!["", "{}", "{\"a\": 1}", "{\"a\"", "[1]"]);
    let call = (id(), select(NAMES.as_slice()), arguments);
    let call = call.prop_map(|(id, (name, _), arguments)| ToolCall {
        id,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    });
    let result = (id(), text(), any::<bool>());
    let result = result.prop_map(|(call_id, text, is_error)| ToolResult {
        call_id,
        text,
        is_error,
    });
    let mime = select(vec!["image/png", "application/pdf", "application/zip"]);
    let media = (mime, prop::collection::vec(any::<u8>(), 0..3));
    let media = media.prop_map(|(mime, data)| Media {
        mime: mime.to_owned(),
        data,
    });
    let notice = (text(), any::<bool>());
    let notice = notice.prop_map(|(text, is_of_workspace)| Notice {
        text,
        is_of_workspace,
    });
    prop_oneof![
        3 => text().prop_map(Part::Text),
        1 => notice.prop_map(Part::Notice),
        3 => call.prop_map(Part::Call),
        4 => result.prop_map(Part::Result),
        2 => media.prop_map(Part::Media),
        2 => opaque().prop_map(Part::Opaque),
    ]
}

/// Opaque parts of both providers, and parts of neither. Each names its provider and model.
fn opaque() -> impl Strategy<Value = Opaque> {
    let providers = select(vec!["anthropic", "openai"]);
    let models = select(vec![MODEL, "other"]);
    (providers, models, 0..9_usize).prop_map(|(provider, model, kind)| {
        let by = format!("by {provider}/{model}");
        let (kind, json) = match kind {
            0 => ("thinking", json!({"type": "thinking", "thinking": by})),
            1 => (
                "server_tool_use",
                json!({"type": "server_tool_use", "by": by}),
            ),
            2 => ("tool_use", json!({"type": "tool_use", "id": "a", "by": by})),
            3 => ("thinking", json!(by)),
            4 => ("reasoning_content", json!(by)),
            5 => ("reasoning_details", json!([{"text": by}])),
            6 => ("reasoning", json!(3)),
            7 => (CALL_FIELDS, json!({"extra": by})),
            _ => (
                MESSAGE_FIELDS,
                json!({"extra_content": by, "annotations": by}),
            ),
        };
        Opaque {
            provider: provider.to_owned(),
            model: model.to_owned(),
            kind: kind.to_owned(),
            json: json.to_string(),
        }
    })
}

/// A request with these messages and a tool.
pub(crate) fn request(messages: &[Message], stable: usize) -> ChatRequest {
    ChatRequest {
        stable,
        tools: [OfferedTool {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }]
        .into(),
        ..ChatRequest::new(messages.to_vec())
    }
}

/// The name of a tool as it is sent.
pub(crate) fn sent_name(name: &str) -> &'static str {
    let known = NAMES.iter().find(|(written, _)| *written == name);
    known.expect("one of the names").1
}

/// Checks the rule of servers for the name of a tool.
pub(crate) fn check_name(name: &Value) {
    let name = name.as_str().expect("a name");
    let is_admitted = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    assert!(
        (1..=64).contains(&name.len()) && name.chars().all(is_admitted),
        "{name}"
    );
}

/// The texts of messages that have to be sent, whatever becomes of the parts around them.
pub(crate) fn texts(messages: &[Message]) -> impl Iterator<Item = String> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::Text(text)
        | Part::Notice(Notice { text, .. })
        | Part::Result(ToolResult { text, .. }) => Some(text),
        _ => None,
    });
    let texts = texts.filter(|text| !text.trim().is_empty());
    // As it stands within JSON.
    texts.map(|text| text.replace('"', "\\\""))
}
