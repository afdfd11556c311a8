use super::*;
use crate::AnthropicConfig;
use crate::server::conversation::kept;
use crate::server::conversation::random::{self, MODEL};
use cairn_engine::message::{self as engine, Opaque, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::LazyLock;

mod media;
mod nothing_lost;

fn model(vision: bool, parallel_tool_calls: Option<bool>) -> Anthropic {
    let mut config = AnthropicConfig::new("http://127.0.0.1:9", MODEL);
    config.server.vision = Some(vision);
    config.server.parallel_tool_calls = parallel_tool_calls;
    Anthropic::new(config).expect("a model")
}

static SEEING: LazyLock<Anthropic> = LazyLock::new(|| model(true, None));

fn encode(messages: &[engine::Message], stable: usize) -> Value {
    encode_for(&SEEING, messages, stable)
}

fn encode_for(model: &Anthropic, messages: &[engine::Message], stable: usize) -> Value {
    let request = random::request(messages, stable);
    let omitted = model.server.omitted();
    let body = body(model, &request, false, omitted).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// All blocks of the messages with their roles and without marks.
fn blocks(body: &Value) -> Vec<(Value, Value)> {
    let messages = body["messages"].as_array().expect("messages").iter();
    let blocks = messages.flat_map(|message| {
        let content = message["content"].as_array().expect("blocks").iter();
        content.map(|block| (message["role"].clone(), without_mark(block)))
    });
    blocks.collect()
}

fn without_mark(block: &Value) -> Value {
    let mut block = block.clone();
    let fields = block.as_object_mut().expect("an object");
    fields.remove("cache_control");
    block
}

/// Checks the server's rules, independently of the encoder.
fn check(body: &Value) {
    let messages = body["messages"].as_array().expect("messages");
    let mut ids = HashSet::new();
    // The calls that the next message has to answer.
    let mut asked: Vec<&Value> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let content = message["content"].as_array().expect("blocks");
        assert!(!content.is_empty(), "an empty message");
        let is_user = at % 2 == 0;
        assert_eq!(message["role"], if is_user { "user" } else { "assistant" });
        let is_result = |block: &&Value| block["type"] == "tool_result";
        let results = content.iter().take_while(is_result).count();
        assert_eq!(
            content.iter().filter(is_result).count(),
            results,
            "results come first"
        );
        let answered = content[..results].iter().map(|block| &block["tool_use_id"]);
        assert_eq!(asked, answered.collect::<Vec<_>>());
        let calls = content.iter().filter(|block| block["type"] == "tool_use");
        asked = calls.map(|block| &block["id"]).collect();
        for id in &asked {
            let text = id.as_str().expect("an id");
            let admitted = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            assert!(!text.is_empty() && text.chars().all(admitted), "{text}");
            assert!(ids.insert(text), "{text} twice");
        }
        content.iter().for_each(|block| check_block(block, is_user));
        let last = &content[content.len() - 1];
        assert_ne!(last["type"], "thinking", "thinking at the end");
    }
    assert_eq!(messages.len() % 2, 1, "the user speaks first and last");
    let marks = body.to_string().matches("cache_control").count();
    assert!((1..=4).contains(&marks), "{marks} marks");
    for block in body["system"].as_array().into_iter().flatten() {
        assert!(!block["text"].as_str().expect("text").trim().is_empty());
    }
}

fn check_block(block: &Value, is_user: bool) {
    match block["type"].as_str().expect("a kind") {
        "text" => assert!(!block["text"].as_str().expect("text").trim().is_empty()),
        "tool_use" => {
            assert!(!is_user && block["input"].is_object());
            random::check_name(&block["name"]);
        }
        "tool_result" => {
            assert!(is_user);
            let Some(parts) = block.get("content").and_then(Value::as_array) else {
                assert_ne!(block.get("content"), Some(&json!("")), "an empty content");
                return;
            };
            assert_eq!(block.get("is_error"), None, "more than text in an error");
            for part in parts {
                assert_ne!(part["type"], "tool_result");
                check_block(part, is_user);
            }
        }
        "image" | "document" => {
            let source = &block["source"];
            assert!(is_user && source["type"] == "base64" && source["data"] != "");
        }
        "thinking" | "server_tool_use" => {
            assert!(!is_user && block.get("cache_control").is_none());
            let own = format!("by anthropic/{MODEL}");
            assert!(block.to_string().contains(&own), "{block}");
        }
        other => panic!("a block of the kind {other}"),
    }
}

/// A call without its result yet gets it later: then the end of the messages changes.
fn is_settled(body: &Value) -> bool {
    let last = body["messages"].as_array().expect("messages").iter().last();
    !last.expect("a message").to_string().contains("\"removed\"")
}

#[test]
fn what_a_turn_kept_is_sent_with_the_result_of_each_call() {
    for (name, messages) in kept::requests() {
        let sent = encode(&messages, 1);
        check(&sent);
        let calls = messages.iter().flat_map(engine::Message::calls).count();
        let sent = sent.to_string();
        assert_eq!(
            sent.matches("\"tool_result\"").count(),
            calls,
            "{name}: {sent}"
        );
        assert!(!sent.contains("\"removed\""), "{name}: {sent}");
        assert!(sent.contains("And now?"), "{name}: {sent}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_messages_is_sent_as_the_server_accepts_it(
        messages in random::messages(),
        stable in 0..15_usize,
    ) {
        let all = encode(&messages, stable);
        check(&all);
        prop_assert_eq!(&all, &encode(&messages, stable));
        let sent = all.to_string();
        for text in random::texts(&messages) {
            prop_assert_eq!(sent.matches(&text).count(), 1, "{} in {}", text, sent);
        }
        prop_assert_eq!(nothing_lost::sent(&all), nothing_lost::expected(&messages));
        for end in 0..messages.len() {
            let part = encode(&messages[..end], stable);
            if !is_settled(&part) {
                continue;
            }
            let mut earlier = blocks(&part);
            if earlier.last().is_some_and(|(_, block)| block["text"] == GO_ON) {
                earlier.pop();
            }
            let later = blocks(&all);
            prop_assert_eq!(&earlier[..], &later[..earlier.len()], "the first {}", end);
        }
    }
}

fn assistant(parts: Vec<engine::Part>) -> engine::Message {
    engine::Message {
        role: engine::Role::Assistant,
        parts,
    }
}

fn call(id: &str) -> engine::Part {
    engine::Part::Call(ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    })
}

fn thinking(model: &str) -> engine::Part {
    engine::Part::Opaque(Opaque {
        provider: "anthropic".to_owned(),
        model: model.to_owned(),
        kind: "thinking".to_owned(),
        json: r#"{"type":"thinking","thinking":"hm","signature":"s"}"#.to_owned(),
    })
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
            let messages = [asked, assistant(vec![call("c")])];
            let request = random::request(&messages, 1);
            body(&SEEING, &request, false, SEEING.server.omitted()).expect("a body")
        };
        assert_eq!(with(notice), with(engine::Part::Text(text)));
    }
}

#[test]
fn thinking_goes_back_to_its_model_and_to_no_other() {
    let with = |model: &str| {
        let parts = vec![
            thinking(model),
            engine::Part::Text("I read.".into()),
            call("c"),
        ];
        let messages = [
            engine::Message::user("Read."),
            assistant(parts),
            engine::Message::tool("c", "x", false),
        ];
        encode(&messages, 0)["messages"][1]["content"].clone()
    };
    let said = json!([{"type": "text", "text": "I read."},
        {"type": "tool_use", "id": "c", "name": "read", "input": {}}]);
    assert_eq!(with("other"), said);
    let mut all = said.as_array().expect("a list").clone();
    all.insert(
        0,
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
    );
    assert_eq!(with(MODEL), Value::Array(all));
}

#[test]
fn lost_calls_and_results_are_named() {
    let messages = [
        engine::Message::user("Read."),
        assistant(vec![call("kept"), call("lost")]),
        engine::Message::system("Hurry."),
        engine::Message::tool("kept", "text", false),
        engine::Message::tool("gone", "no such file", true),
        assistant(vec![thinking(MODEL)]),
    ];
    let text = |text: &str| json!({"type": "text", "text": text});
    let result = |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let expected = json!([
        result("kept", "text"),
        result("lost", "removed"),
        text("Hurry."),
        text("Error of the tool call gone: no such file"),
    ]);
    let last: Vec<Value> = blocks(&encode(&messages, 0))
        .into_iter()
        .skip(3)
        .map(|(_, block)| block)
        .collect();
    assert_eq!(Value::Array(last), expected);
}

#[test]
fn one_call_at_a_time_is_said_where_tools_are_offered() {
    let messages = [engine::Message::user("Read.")];
    let one = json!({"type": "auto", "disable_parallel_tool_use": true});
    for (parallel, expected) in [(Some(false), Some(one)), (Some(true), None), (None, None)] {
        let model = model(true, parallel);
        let body = encode_for(&model, &messages, 0);
        assert_eq!(body.get("tool_choice"), expected.as_ref(), "{parallel:?}");
        let request = ChatRequest::new(messages.to_vec());
        let bare = super::body(&model, &request, false, model.server.omitted()).expect("a body");
        let bare: Value = serde_json::from_slice(&bare).expect("JSON");
        assert_eq!(bare.get("tool_choice"), None, "no tools");
    }
}

/// Where the marks stand: the kinds and texts of the marked blocks.
fn marks(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages").iter();
    let content = messages.flat_map(|message| message["content"].as_array().expect("blocks"));
    let all = body["system"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(content);
    let marked = all.filter(|block| block.get("cache_control").is_some());
    let text = |block: &Value| {
        block["text"]
            .as_str()
            .or(block["content"].as_str())
            .map(str::to_owned)
    };
    marked.filter_map(text).collect()
}

#[test]
fn four_places_are_marked_for_the_cache() {
    let mut messages = vec![
        engine::Message::system("rules"),
        engine::Message::user("goal"),
        engine::Message::user("now"),
    ];
    for round in ["1", "2", "3"] {
        messages.push(assistant(vec![thinking(MODEL), call(round)]));
        messages.push(engine::Message::tool(
            round,
            format!("result {round}"),
            false,
        ));
    }
    messages.push(engine::Message::user("hurry"));
    let marked = |stable| marks(&encode(&messages, stable));
    assert_eq!(marked(0), ["rules", "result 2", "hurry"]);
    assert_eq!(marked(1), ["rules", "result 2", "hurry"]);
    assert_eq!(marked(2), ["rules", "goal", "result 2", "hurry"]);
    assert_eq!(
        marked(4),
        ["rules", "result 2", "hurry"],
        "a call cannot have a text"
    );
    assert_eq!(marked(5), ["rules", "result 1", "result 2", "hurry"]);
    assert_eq!(marked(99), ["rules", "result 2", "hurry"]);
}
