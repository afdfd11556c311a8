//! Whole replies of an OpenAI-compatible server.

use crate::support::{CANARY, Log, answer, ask, call, calls_in, configured, scripted};
use cairn_engine::message::{Message, Usage};
use cairn_http::test_server::Reply;
use cairn_model::{ChatOptions, ChatRequest, FinishReason, Model, OfferedTool, OptionalField};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn a_reply_comes_with_usage_and_cost() {
    let (server, model) = scripted(vec![answer("Grüße.")]).await;

    let reply = model.chat(&ask("Hello?")).await.expect("a reply");

    assert_eq!(reply.message, Message::assistant("Grüße.", vec![]));
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(reply.model, "small-1-2026");
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cost_nano_usd: 3_500_000,
        model_calls: 1,
        ..Usage::default()
    };
    assert_eq!(reply.usage, usage);
    let seen = &server.requests()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(
        seen.header("authorization"),
        Some(&*format!("Bearer {CANARY}"))
    );
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let expected = json!({
        "model": "small-1", "messages": [{"role": "user", "content": "Hello?"}]
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_conversation_with_tools_is_sent_as_the_protocol_wants_it() {
    let (server, model) = configured(vec![answer("ok")], |config| {
        config.server.extra_headers = vec![("x-org".to_owned(), "acme".into())];
    })
    .await;
    let calls = vec![
        call("c1", "read", "{\"a\":1}"),
        call("c2", "read", ""),
        call("c3", "read", "{\"a\""),
    ];
    let messages = [
        Message::system("Be brief."),
        Message::user("Read."),
        Message::assistant("", calls),
        Message::tool("c1", "text", false),
        Message::tool("c2", "no such file", true),
    ];
    let request = ChatRequest {
        tools: Arc::new([OfferedTool {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }]),
        options: ChatOptions {
            max_output_tokens: Some(50),
            temperature: Some(0.2),
            ..ChatOptions::default()
        },
        ..ChatRequest::new(messages)
    };

    model.chat(&request).await.expect("a reply");

    let seen = &server.requests()[0];
    assert_eq!(seen.header("x-org"), Some("acme"));
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let function = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}});
    let expected = json!({
        "model": "small-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read."},
            {"role": "assistant", "content": null, "tool_calls": [
                function("c1", "{\"a\":1}"),
                function("c2", "{}"),
                function("c3", "{\"invalid_json\":\"{\\\"a\\\"\"}"),
            ]},
            {"role": "tool", "content": "text", "tool_call_id": "c1"},
            {"role": "tool", "content": "error: no such file", "tool_call_id": "c2"},
            {"role": "tool", "content": "removed", "tool_call_id": "c3"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "read", "description": "Reads.",
            "parameters": {"type": "object", "properties": {}}
        }}],
        "max_tokens": 50,
        "temperature": body["temperature"],
    });
    assert_eq!(body, expected);
    assert!((body["temperature"].as_f64().expect("a number") - 0.2).abs() < 1e-6);
}

#[tokio::test]
async fn a_server_that_streams_unasked_is_understood() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"o\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"k\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: [DONE]\n\n";
    for label in ["text/event-stream", "application/json"] {
        let reply = Reply::pieces(200, &["\u{feff}\n", stream]).header("content-type", label);
        let (_server, model) = configured(vec![reply], |_| {}).await;
        let reply = model.chat(&ask("x")).await.expect("a reply");
        assert_eq!(reply.message.text(), "ok", "{label}");
    }
    let whole =
        "\u{feff}{\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}";
    let (_server, model) = configured(vec![Reply::json(200, whole)], |_| {}).await;
    let reply = model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(reply.message.text(), "ok");
}

#[tokio::test]
async fn the_limit_of_a_reply_has_the_name_that_the_server_knows() {
    let (server, model) = configured(vec![answer("ok")], |config| {
        config.server.omit = vec![OptionalField::MaxTokens];
    })
    .await;
    let mut request = ask("x");
    request.options.max_output_tokens = Some(7);
    model.chat(&request).await.expect("a reply");
    let body: Value = serde_json::from_str(&server.requests()[0].body).expect("JSON");
    assert_eq!(
        (&body["max_completion_tokens"], &body["max_tokens"]),
        (&json!(7), &Value::Null)
    );
}

#[tokio::test]
async fn calls_come_whole_with_ids_of_their_own() {
    let calls = json!([
        {"id": "c1", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
        {"id": "c1", "function": {"name": "read", "arguments": {"path": "b"}}},
        {"function": {"name": "list"}},
        {"id": "used", "function": {"name": "list", "arguments": ""}},
    ]);
    let body = json!({"choices": [{"message": {"content": null, "tool_calls": calls}, "finish_reason": "stop"}]});
    let (_server, model) = scripted(vec![Reply::json(200, body.to_string())]).await;
    let mut request = ask("Read.");
    let before = vec![call("used", "list", "{}")];
    let before = Message::assistant("", before);
    request.messages.push(Arc::new(before));

    let reply = model.chat(&request).await.expect("a reply");

    let expected = vec![
        call("c1", "read", "{\"path\":\"a\"}"),
        call("call_1_1_0", "read", "{\"path\":\"b\"}"),
        call("call_1_2_0", "list", ""),
        call("call_1_3_0", "list", ""),
    ];
    assert_eq!(calls_in(&reply.message), expected);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert_eq!(reply.model, "small-1");
    assert!(
        reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0,
        "{:?}",
        reply.usage
    );
    assert!(reply.usage.cost_nano_usd > 0);
}

#[tokio::test]
async fn unusual_answers_are_understood() {
    let parts = json!([{"type": "thinking", "thinking": []}, {"type": "text", "text": "par"}, {"text": "ts"}]);
    let cases = [
        (
            json!({"content": parts}),
            "length",
            "parts",
            FinishReason::Length,
        ),
        (
            json!({"content": null, "refusal": "No."}),
            "stop",
            "No.",
            FinishReason::Refusal,
        ),
        (
            json!({"content": "yes", "refusal": ""}),
            "STOP",
            "yes",
            FinishReason::Stop,
        ),
        (
            json!({"content": "so", "reasoning_content": "hm", "reasoning": "hm"}),
            "stop",
            "so",
            FinishReason::Stop,
        ),
        (
            json!({"content": "none came"}),
            "tool_calls",
            "none came",
            FinishReason::Other,
        ),
        (
            json!({"content": "x"}),
            "content_filter",
            "x",
            FinishReason::Refusal,
        ),
        (json!({"content": null}), "eos", "", FinishReason::Other),
    ];
    for (message, finish, text, expected) in cases {
        let body =
            json!({"choices": [{"message": message, "finish_reason": finish}], "usage": null});
        let (_server, model) = scripted(vec![Reply::json(200, body.to_string())]).await;
        let reply = model.chat(&ask("x")).await.expect("a reply");
        assert_eq!(
            (reply.message.text().as_str(), reply.finish),
            (text, expected)
        );
    }
}

#[tokio::test]
async fn the_one_call_of_an_older_server_is_a_call() {
    let function = json!({"name": "read", "arguments": "{\"a\":1}"});
    let choice = json!({
        "message": {"content": null, "function_call": function}, "finish_reason": "function_call"
    });
    let body = json!({"choices": [choice]}).to_string();
    let (_server, model) = scripted(vec![Reply::json(200, body)]).await;
    let reply = model.chat(&ask("x")).await.expect("a reply");
    let expected = [call("call_0_0_0", "read", "{\"a\":1}")];
    assert_eq!(calls_in(&reply.message), expected);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn what_the_cache_had_is_sent_but_costs_less() {
    let usage = json!({
        "prompt_tokens": 1000, "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 800},
        "completion_tokens_details": {"reasoning_tokens": 60}
    });
    let body = json!({"choices": [{"message": {"content": "x"}}], "usage": usage});
    let (_server, model) = scripted(vec![Reply::json(200, body.to_string())]).await;
    let usage = model.chat(&ask("x")).await.expect("a reply").usage;
    // 200 × 2,500 + 800 × 250 + 100 × 10,000 nano-dollars.
    assert_eq!((usage.input_tokens, usage.cost_nano_usd), (1000, 1_700_000));
    assert_eq!(
        (usage.cached_input_tokens, usage.reasoning_tokens),
        (800, 60)
    );
}

#[tokio::test]
async fn a_reply_is_never_longer_than_configured() {
    for (configured_limit, asked, sent) in [
        (None, None, Value::Null),
        (Some(100), None, json!(100)),
        (Some(100), Some(50), json!(50)),
        (Some(100), Some(500), json!(100)),
        (None, Some(500), json!(500)),
    ] {
        let (server, model) = configured(vec![answer("ok")], |config| {
            config.server.max_output_tokens = configured_limit;
        })
        .await;
        let mut request = ask("x");
        request.options.max_output_tokens = asked;
        model.chat(&request).await.expect("a reply");
        let body: Value = serde_json::from_str(&server.requests()[0].body).expect("JSON");
        assert_eq!(body["max_tokens"], sent);
    }
}

#[test]
fn a_price_is_the_vendors_own_or_configured_and_else_unknown() {
    let prices = |base: &str, model: &str| {
        let config = cairn_model::OpenAiConfig::new(base, model);
        let model = cairn_model::OpenAi::new(config).expect("a model");
        model.describe().prices
    };
    let own = prices("https://api.openai.com/v1", "gpt-5-mini").expect("listed");
    assert_eq!(own.output, 2_000_000_000);
    assert_eq!(prices("https://api.openai.com/v1", "gpt-of-tomorrow"), None);
    assert_eq!(prices("https://proxy.example/v1", "gpt-5-mini"), None);
}

#[tokio::test]
async fn a_model_without_a_known_price_says_so_once() {
    let (log, _guard) = Log::listen();
    let (_server, priced) = scripted(vec![answer("x")]).await;
    priced.chat(&ask("x")).await.expect("a reply");
    assert!(!log.text().contains("no price"), "{}", log.text());

    let (_server, model) = configured(vec![answer("x")], |config| {
        config.server.prices = None;
    })
    .await;
    for _ in 0..2 {
        let usage = model.chat(&ask("x")).await.expect("a reply").usage;
        assert_eq!((usage.input_tokens, usage.cost_nano_usd), (1000, 0));
        assert_eq!(usage.unpriced_tokens, usage.tokens());
    }
    let text = log.text();
    assert_eq!(text.matches("no price is known").count(), 1, "{text}");
}

#[test]
fn the_model_describes_itself() {
    let mut config = cairn_model::OpenAiConfig::new("https://api.openai.com/v1", "large-1");
    config.server.window_tokens = 9_000;
    let model = cairn_model::OpenAi::new(config).expect("a model");
    let info = model.describe();
    assert_eq!(
        (info.provider.as_str(), info.name.as_str()),
        ("openai", "large-1")
    );
    assert_eq!(info.window_tokens, 9_000);
    let messages = [Arc::new(Message::user("Hello, world."))];
    assert!(model.estimate_tokens(&messages) > 4);
}
