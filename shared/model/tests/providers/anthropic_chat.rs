//! Whole replies of Anthropic's Messages API.

use crate::support::{CANARY, anthropic, ask, call, calls_in, opaque};
use cairn_engine::message::{Message, Part, Usage};
use cairn_http::test_server::Reply;
use cairn_model::{
    Anthropic, AnthropicConfig, ChatOptions, ChatRequest, FinishReason, Model, ModelError,
    OfferedTool, OptionalField,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn answer(content: &Value, stop_reason: &str) -> Reply {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1-2026",
        "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 100}
    });
    Reply::json(200, body.to_string())
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// What the server is sent for this request.
async fn sent(request: &ChatRequest, change: impl FnOnce(&mut AnthropicConfig)) -> Value {
    let (server, model) = anthropic(vec![answer(&text("ok"), "end_turn")], change).await;
    model.chat(request).await.expect("a reply");
    serde_json::from_str(&server.requests()[0].body).expect("JSON")
}

fn tool(name: &str) -> OfferedTool {
    OfferedTool {
        name: name.to_owned(),
        description: "Reads.".to_owned(),
        parameters: json!({"type": "object"}),
    }
}

#[tokio::test]
async fn a_reply_comes_with_usage_and_cost() {
    let (server, model) = anthropic(vec![answer(&text("Grüße."), "end_turn")], |_| {}).await;

    let reply = model.chat(&ask("Hello?")).await.expect("a reply");

    assert_eq!(reply.message, Message::assistant("Grüße.", vec![]));
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(reply.model, "claude-1-2026");
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cost_nano_usd: 3_500_000,
        model_calls: 1,
        ..Usage::default()
    };
    assert_eq!(reply.usage, usage);
    let seen = &server.requests()[0];
    assert_eq!(seen.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(seen.header("x-api-key"), Some(CANARY));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("authorization"), None);
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let expected = json!({
        "model": "claude-1", "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
    });
    assert_eq!(body, expected);
}

/// Hotter than the protocol allows.
fn hot() -> ChatOptions {
    ChatOptions {
        max_output_tokens: Some(50),
        temperature: Some(1.5),
        ..ChatOptions::default()
    }
}

#[tokio::test]
async fn a_conversation_with_tools_is_sent_as_the_protocol_wants_it() {
    let calls = vec![
        call("c1", "read", "{\"a\":1}"),
        call("c 2", "read", ""),
        call("c3", "read", "{\"a\""),
        call("c4", "read", "[1]"),
    ];
    let messages = [
        Message::system("Be brief."),
        Message::system("  \n"),
        Message::system("Be kind."),
        Message::user("Read."),
        Message::user("All of it."),
        Message::assistant(" ", calls),
        Message::tool("c1", "text", false),
        Message::tool("c 2", "no such file", true),
        Message::tool("c3", "", true),
        Message::tool("c4", "list", false),
        Message::user("And now?"),
    ];
    let request = ChatRequest {
        stable: 5,
        tools: Arc::new([tool("read"), tool("list")]),
        options: hot(),
        ..ChatRequest::new(messages)
    };
    let use_of = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "read", "input": input});
    let offered = |name: &str| json!({"name": name, "description": "Reads.", "input_schema": {"type": "object"}});
    let kept = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-1", "max_tokens": 50, "temperature": 1.0,
        "system": [
            {"type": "text", "text": "Be brief."},
            {"type": "text", "text": "Be kind.", "cache_control": kept},
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Read."},
                {"type": "text", "text": "All of it.", "cache_control": kept},
            ]},
            {"role": "assistant", "content": [
                use_of("c1", json!({"a": 1})),
                use_of("c_2", json!({})),
                use_of("c3", json!({"invalid_json": "{\"a\""})),
                use_of("c4", json!({"invalid_json": "[1]"})),
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "text"},
                {"type": "tool_result", "tool_use_id": "c_2", "content": "no such file", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c3", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c4", "content": "list"},
                {"type": "text", "text": "And now?", "cache_control": kept},
            ]},
        ],
        "tools": [offered("read"), offered("list")],
    });
    assert_eq!(sent(&request, |_| {}).await, expected);

    let omit = vec![OptionalField::CacheControl];
    let plain = sent(&request, |config| config.server.omit = omit).await;
    assert!(!plain.to_string().contains("cache_control"), "{plain}");
}

/// Amazon Bedrock refuses calls and results where no tools are offered.
#[tokio::test]
async fn a_question_without_tools_has_no_call_and_no_result() {
    let calls = vec![call("c1", "read", "{\"a\":1}"), call("c2", "read", "{}")];
    let request = ChatRequest {
        tools: Arc::new([tool("read")]),
        ..ChatRequest::new([
            Message::user("Read."),
            Message::assistant("I read.", calls),
            Message::tool("c1", "text", false),
            Message::tool("c2", "no such file", true),
            Message::user("Sum it up."),
        ])
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": [text("Read.")]},
        {"role": "assistant", "content": [
            text("I read."),
            text("\nTool call c1: read {\"a\":1}\n"),
            text("\nTool call c2: read {}\n"),
        ]},
        {"role": "user", "content": [
            text("Result of the tool call c1: text"),
            text("Error of the tool call c2: no such file"),
            text("Sum it up."),
        ]},
    ]);
    let body = sent(&request.without_tools(), |_| {}).await;
    assert_eq!(body["messages"], expected);
    assert_eq!(body.get("tools"), None);
}

#[tokio::test]
async fn the_user_speaks_first_and_last() {
    let said = |text: &str| json!([{"type": "text", "text": text}]);
    let user = |text: &str| json!({"role": "user", "content": said(text)});
    let model = |text: &str| json!({"role": "assistant", "content": said(text)});
    let cases = [
        (
            vec![Message::assistant("I began.", vec![]), Message::user("So?")],
            json!([user("Go on."), model("I began."), user("So?")]),
        ),
        (
            vec![Message::user("So?"), Message::assistant("Hm. ", vec![])],
            json!([user("So?"), model("Hm. "), user("Go on.")]),
        ),
        (
            vec![Message::user(" "), Message::system("x")],
            json!([user("Go on.")]),
        ),
    ];
    for (messages, expected) in cases {
        let request = ChatRequest::new(messages);
        assert_eq!(sent(&request, |_| {}).await["messages"], expected);
    }
}

#[tokio::test]
async fn blocks_are_parts_and_those_of_other_kinds_are_kept_as_they_are() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I read "},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
        {"type": "text", "text": "both."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}},
        {"type": "of_tomorrow"},
    ]);
    let (_server, model) = anthropic(vec![answer(&content, "tool_use")], |_| {}).await;
    let reply = model.chat(&ask("Read.")).await.expect("a reply");
    let kept = |at: usize| {
        let kind = content[at]["type"].as_str().expect("a kind");
        opaque("anthropic", kind, &content[at])
    };
    let expected = [
        kept(0),
        Part::Text("I read ".to_owned()),
        Part::Call(call("toolu_1", "read", "{\"path\":\"a\"}")),
        Part::Text("both.".to_owned()),
        Part::Call(call("call_0_1_0", "read", "{}")),
        kept(5),
        kept(6),
    ];
    assert_eq!(reply.message.parts, expected);
    assert_eq!(reply.finish, FinishReason::ToolCalls);

    // They go back where they were, but for the thoughts of others.
    let mut request = ask("Read.");
    request.messages.push(Arc::new(reply.message));
    let again = sent(&request, |_| {}).await;
    let said = again["messages"][1]["content"].as_array().expect("blocks");
    assert_eq!(said[..4], content.as_array().expect("blocks")[..4]);
    let other = sent(&request, |config| {
        config.server.model = "claude-2".to_owned()
    })
    .await;
    assert!(!other.to_string().contains("signature"), "{other}");
}

/// The server completes the JSON of a call that it cuts, so its arguments look whole.
#[tokio::test]
async fn a_call_that_was_cut_is_no_part_of_the_reply() {
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
    let content = json!([{"type": "text", "text": "Hm."}, used("whole"), used("cut")]);
    let (_server, model) = anthropic(vec![answer(&content, "max_tokens")], |_| {}).await;
    let reply = model.chat(&ask("Read.")).await.expect("a reply");
    assert_eq!(reply.finish, FinishReason::Length);
    assert_eq!(calls_in(&reply.message), [call("whole", "read", "{}")]);
}

#[tokio::test]
async fn reasons_of_the_end_are_understood() {
    let cases = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::Refusal),
        ("pause_turn", FinishReason::Other),
        ("of_tomorrow", FinishReason::Other),
        ("tool_use", FinishReason::Other),
    ];
    for (reason, expected) in cases {
        let (_server, model) = anthropic(vec![answer(&json!([]), reason)], |_| {}).await;
        let reply = model.chat(&ask("x")).await.expect("a reply");
        assert_eq!(reply.finish, expected, "{reason}");
        assert_eq!(reply.message.text(), "");
    }
}

#[tokio::test]
async fn tokens_of_the_cache_are_sent_and_have_their_own_prices() {
    let body = json!({
        "content": text("x"), "stop_reason": "end_turn",
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 700,
            "cache_creation_input_tokens": 200, "output_tokens": 10}
    });
    let (_server, model) = anthropic(vec![Reply::json(200, body.to_string())], |_| {}).await;
    let usage = model.chat(&ask("x")).await.expect("a reply").usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (1000, 10));
    assert_eq!(
        (usage.cached_input_tokens, usage.cache_write_tokens),
        (700, 200)
    );
    // 100 × 2,500 + 700 × 250 + 200 × 3,125 + 10 × 10,000 nano-dollars.
    assert_eq!(usage.cost_nano_usd, 1_150_000);
}

#[tokio::test]
async fn usage_that_is_not_reported_or_nothing_is_estimated() {
    for usage in [
        json!({"input_tokens": null}),
        json!({"input_tokens": 0, "output_tokens": 0}),
    ] {
        let body = json!({"content": text("four words are here"), "usage": usage});
        let (_server, model) = anthropic(vec![Reply::json(200, body.to_string())], |_| {}).await;
        let reply = model.chat(&ask("x")).await.expect("a reply");
        let usage = reply.usage;
        assert!(
            usage.input_tokens > 0 && usage.output_tokens > 4,
            "{reply:?}"
        );
        assert_eq!(reply.model, "claude-1");
    }
}

#[test]
fn the_model_describes_itself_and_names_what_is_wrong() {
    let new = |base: &str, model: &str, key: &str| {
        let mut config = AnthropicConfig::new(base, model);
        config.server.api_key = Some(key.into());
        Anthropic::new(config)
    };
    let model = new("https://api.anthropic.com/v1/", "claude-haiku-4-5", CANARY).expect("a model");
    let info = model.describe();
    assert_eq!(
        (info.provider.as_str(), info.window_tokens),
        ("anthropic", 200_000)
    );
    assert_eq!(info.prices.expect("listed").output, 5_000_000_000);
    assert!(info.vision, "listed");
    let elsewhere = new("https://h", "claude-haiku-4-5", CANARY).expect("a model");
    assert!(!elsewhere.describe().vision, "it may be another model");
    let shown = format!("{model:?} {model:#?}");
    assert!(shown.contains("api.anthropic.com/v1/messages"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    for (base, name, key, expected) in [
        ("", "m", "k", "missing model base URL"),
        ("https://h", "", "k", "missing model name"),
        ("https://h", "m", " ", "missing model key"),
        ("http://far.example", "m", CANARY, "plain HTTP"),
    ] {
        let failure = new(base, name, key).expect_err("refused");
        assert!(failure.message.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn an_answer_without_content_cannot_be_read() {
    for body in ["{}", "{\"content\": null}", "[]", "{\"content\": \"x\"}"] {
        let (_server, model) = anthropic(vec![Reply::json(200, body)], |_| {}).await;
        let error = model.chat(&ask("x")).await.expect_err("unreadable");
        assert!(matches!(error, ModelError::BadAnswer { .. }), "{error:?}");
    }
}
