use super::*;
use crate::OpenAiConfig;
use crate::server::conversation::kept;
use crate::server::conversation::random::{self, MODEL};
use cairn_engine::message::{self as engine, Opaque};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::LazyLock;

mod media;
mod nothing_lost;

static SEEING: LazyLock<OpenAi> = LazyLock::new(|| model(true, None));

fn model(vision: bool, parallel_tool_calls: Option<bool>) -> OpenAi {
    let mut config = OpenAiConfig::new("http://127.0.0.1:9", MODEL);
    config.server.vision = Some(vision);
    config.server.parallel_tool_calls = parallel_tool_calls;
    OpenAi::new(config).expect("a model")
}

fn encode(messages: &[engine::Message]) -> Vec<Value> {
    encode_for(&SEEING, messages)
}

fn encode_for(model: &OpenAi, messages: &[engine::Message]) -> Vec<Value> {
    let body = body_of(model, &random::request(messages, 0));
    body["messages"].as_array().expect("messages").clone()
}

fn body_of(model: &OpenAi, request: &ChatRequest) -> Value {
    let body = body(model, request, false, model.server.omitted()).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// Checks a server's rules, independently of the encoder.
fn check(messages: &[Value]) {
    let mut ids = HashSet::new();
    // The calls that the next messages have to answer.
    let mut asked: Vec<&str> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().expect("a role");
        if role == "tool" {
            let id = message["tool_call_id"].as_str().expect("an id");
            assert_eq!(asked.first(), Some(&id), "a result without its call");
            asked.remove(0);
        } else {
            assert!(asked.is_empty(), "{asked:?} have no result");
        }
        let calls = message["tool_calls"].as_array();
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().expect("an id");
            assert!(
                role == "assistant" && !id.is_empty() && ids.insert(id),
                "{id}"
            );
            random::check_name(&call["function"]["name"]);
            let arguments = call["function"]["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            assert!(arguments.is_object());
            asked.push(id);
        }
        check_content(message, role);
        let fields = ["reasoning_content", "reasoning", "reasoning_details"];
        for value in fields.iter().filter_map(|name| message.get(name)) {
            let own = format!("by openai/{MODEL}");
            assert!(role == "assistant" && value.to_string().contains(&own));
        }
    }
    assert!(asked.is_empty(), "{asked:?} have no result");
}

fn check_content(message: &Value, role: &str) {
    match &message["content"] {
        Value::Null => assert!(role == "assistant" && message.get("tool_calls").is_some()),
        Value::String(text) => assert!(!text.trim().is_empty()),
        Value::Array(parts) => {
            assert_eq!(role, "user");
            for part in parts {
                match part["type"].as_str().expect("a kind") {
                    "text" => assert!(!part["text"].as_str().expect("text").trim().is_empty()),
                    "image_url" => {
                        let url = part["image_url"]["url"].as_str().expect("a URL");
                        assert!(url.starts_with("data:image/png;base64,") && !url.ends_with(','));
                    }
                    other => panic!("a part of the kind {other}"),
                }
            }
        }
        other => panic!("content {other}"),
    }
}

#[test]
fn what_a_turn_kept_is_sent_with_the_result_of_each_call() {
    for (name, messages) in kept::requests() {
        let sent = encode(&messages);
        check(&sent);
        let calls = messages.iter().flat_map(engine::Message::calls).count();
        let results = sent.iter().filter(|message| message["role"] == "tool");
        assert_eq!(results.clone().count(), calls, "{name}: {sent:?}");
        let is_removed = |message: &Value| message["content"] == "removed";
        assert!(!results.clone().any(is_removed), "{name}: {sent:?}");
        let last = sent.last().expect("a message");
        assert_eq!(
            (&last["role"], &last["content"]),
            (&json!("user"), &json!("And now?")),
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_messages_is_sent_as_a_server_accepts_it(messages in random::messages()) {
        let all = encode(&messages);
        check(&all);
        prop_assert_eq!(&all, &encode(&messages));
        let sent = Value::from(all.clone()).to_string();
        for text in random::texts(&messages) {
            prop_assert_eq!(sent.matches(&text).count(), 1, "{} in {}", text, sent);
        }
        prop_assert_eq!(&all, &nothing_lost::expected(&messages));
        for end in 0..messages.len() {
            let earlier = encode(&messages[..end]);
            // A call without its result yet gets it later.
            let last = earlier.iter().rposition(|message| message["role"] == "assistant");
            let is_open = |message: &Value| message["content"] == "removed";
            if earlier[last.unwrap_or(0)..].iter().any(is_open) {
                continue;
            }
            prop_assert_eq!(&earlier[..], &all[..earlier.len()], "the first {}", end);
        }
    }
}

#[test]
fn reasoning_goes_back_in_its_field_to_its_model_and_to_no_other() {
    let with = |model: &str| {
        let opaque = engine::Part::Opaque(Opaque {
            provider: "openai".to_owned(),
            model: model.to_owned(),
            kind: "reasoning_content".to_owned(),
            json: "\"hm\"".to_owned(),
        });
        let parts = vec![opaque, engine::Part::Text("Yes.".into())];
        let reply = engine::Message {
            role: Role::Assistant,
            parts,
        };
        encode(&[engine::Message::user("So?"), reply])[1].clone()
    };
    let said = json!({"role": "assistant", "content": "Yes."});
    assert_eq!(with("other"), said);
    let with_reasoning = json!({"role": "assistant", "content": "Yes.", "reasoning_content": "hm"});
    assert_eq!(with(MODEL), with_reasoning);
}

#[test]
fn a_question_without_tools_has_no_call_and_no_result() {
    let call = |id: &str| engine::ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    };
    let messages = [
        engine::Message::user("Read."),
        engine::Message::assistant("I read.", vec![call("a"), call("b")]),
        engine::Message::tool("a", "seen", false),
        engine::Message::tool("b", "no such file", true),
    ];
    let request = random::request(&messages, 0).without_tools();
    let body = body_of(&SEEING, &request);
    let said = "I read.\nTool call a: read {}\n\nTool call b: read {}\n";
    let expected = json!([
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "Result of the tool call a: seen"},
        {"role": "user", "content": "Error of the tool call b: no such file"},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body.get("tools"), None);
}

#[test]
fn several_texts_are_paragraphs() {
    let two = engine::Message {
        role: Role::User,
        parts: vec![
            engine::Part::Text("One.".into()),
            engine::Part::Text("Two.".into()),
        ],
    };
    assert_eq!(encode(&[two])[0]["content"], "One.\n\nTwo.");
}

/// The marks are for people and programs: a model sees the text alone.
#[test]
fn a_notice_is_sent_as_a_text_is() {
    for is_of_workspace in [false, true] {
        let text = "<system-reminder>\nBe brief.\n</system-reminder>".to_owned();
        let notice = engine::Part::Notice(engine::Notice {
            text: text.clone(),
            is_of_workspace,
        });
        let with = |part: engine::Part| {
            let mut asked = engine::Message::user("Read.");
            asked.parts.push(part);
            let messages = [asked, engine::Message::assistant("Yes.", Vec::new())];
            let request = random::request(&messages, 1);
            body(&SEEING, &request, false, SEEING.server.omitted()).expect("a body")
        };
        assert_eq!(with(notice), with(engine::Part::Text(text)));
    }
}

#[test]
fn whether_a_reply_may_have_several_calls_is_said_where_tools_are_offered() {
    let messages = [engine::Message::user("Read.")];
    for parallel in [Some(false), Some(true), None] {
        let model = model(true, parallel);
        let body = body_of(&model, &random::request(&messages, 0));
        let sent = body.get("parallel_tool_calls").and_then(Value::as_bool);
        assert_eq!(sent, parallel);
        let bare = body_of(&model, &ChatRequest::new(messages.to_vec()));
        assert_eq!(bare.get("parallel_tool_calls"), None, "no tools");
    }
}
