//! One call: what reaches the server, and what comes back.

use crate::fixture::{Mcp, asked, config, eventually, folder};
use cairn_tools::mcp::{Server, ServerConfig, Setting};
use cairn_tools::{
    Effect, Input, InputRequired, Progress, ProgressStep, Request, SourceState, ToolError,
};
use serde_json::json;

#[tokio::test]
async fn the_key_and_the_trace_of_the_call_reach_the_server() {
    let mcp = Mcp::new("new").await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = Request {
        trace: trace.parse().ok(),
        ..asked("echo", &json!({"text": "hello"}))
    };
    mcp.tools.invoker().invoke(call).await.result.unwrap();
    let line = format!("call echo key=\"0123456789abcdef\" trace=\"{trace}\"");
    assert_eq!(mcp.count(&line), 1);
}

#[tokio::test]
async fn content_becomes_text_and_media_in_its_order() {
    let mcp = Mcp::new("legacy").await;
    let output = mcp.call("media", json!({})).await.result.unwrap();
    let expected = "first\n[image image/png, 4 bytes]\n[audio audio/wav, 2 bytes]\n\
        [image image/png, left out: it is not base64]\n[resource file:///a.txt]\ninside\n\
        [resource application/octet-stream file:///b.bin, 3 bytes]\n[link https://example.com/c c]\nlast";
    assert_eq!(output.text, expected);
    let media: Vec<_> = output
        .media
        .iter()
        .map(|it| (it.mime_type.as_str(), it.data.len()))
        .collect();
    assert_eq!(
        media,
        [
            ("image/png", 4),
            ("audio/wav", 2),
            ("application/octet-stream", 3)
        ]
    );
}

#[tokio::test]
async fn structured_content_is_kept_once() {
    let mcp = Mcp::new("legacy").await;
    assert_eq!(mcp.text("structured", "same").await, "{\"n\": 1}");
    assert_eq!(mcp.text("structured", "other").await, "two\n{\"n\":2}");
    assert_eq!(mcp.text("structured", "alone").await, "{\"n\":3}");
}

#[tokio::test]
async fn numbers_keep_their_digits_on_both_ways() {
    let mcp = Mcp::new("legacy").await;
    let numbers = r#""id":1000000000000000000001,"rate":0.10000000000000000000000000000001"#;
    let arguments = format!(r#"{{"text":"arguments",{numbers}}}"#);
    let call = Request {
        arguments: arguments.clone(),
        ..asked("structured", &json!({}))
    };
    let output = mcp.tools.invoker().invoke(call).await.result.unwrap();
    assert_eq!(output.text, arguments);
}

#[tokio::test]
async fn failures_keep_the_servers_words() {
    let mcp = Mcp::new("legacy").await;
    let expected = [
        (
            "fail",
            "",
            ToolError::ExecutionFailed("no such page".to_owned()),
        ),
        (
            "echo",
            "invalid",
            ToolError::InvalidArguments("text must be short (code -32602)".to_owned()),
        ),
        (
            "echo",
            "broken",
            ToolError::ExecutionFailed(
                "tool 't__echo' failed: out of disk (code -32603)".to_owned(),
            ),
        ),
        (
            "weird",
            "",
            ToolError::ExecutionFailed(
                "tool 't__weird' answered what is no result of a tool".to_owned(),
            ),
        ),
    ];
    for (tool, text, expected) in expected {
        assert_eq!(mcp.error(tool, text).await, expected);
    }
    let error = mcp.error("task", "").await;
    assert!(
        matches!(&error, ToolError::ExecutionFailed(text) if text.contains("task")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_question_ends_the_call_and_its_answer_continues_it_also_at_another_process() {
    let mcp = Mcp::new("new").await;
    let error = mcp.error("ask", "").await;
    let ToolError::InputRequired(InputRequired { requests, state }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(state.as_deref(), Some("sealed"));
    let requests: serde_json::Value = serde_json::from_str(&requests).unwrap();
    assert_eq!(requests["name"]["params"]["message"], "Whose name?");
    drop(mcp);
    let other = Mcp::new("new").await;
    let mut answered = asked("ask", &json!({}));
    answered.input = Some(Input {
        responses: json!({"name": {"action": "accept", "content": {"name": "Ada"}}}).to_string(),
        state,
    });
    let outcome = other.tools.invoker().invoke(answered).await;
    assert_eq!(outcome.result.unwrap().text, "sealed: Ada");
}

/// Nothing is known of the first part of a call with effects.
#[tokio::test]
async fn an_answer_that_came_too_late_is_asked_for_again_unless_the_call_has_effects() {
    for effect in [Effect::Pure, Effect::Idempotent, Effect::Effectful] {
        let folder = folder();
        let config = ServerConfig {
            effects: [("ask".to_owned(), effect)].into(),
            ..config(&folder, "new,expired")
        };
        let mcp = Mcp::with(&folder, Server::of_operator(config), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        let mut answered = asked("ask", &json!({}));
        answered.input = Some(Input {
            responses: json!({"name": {"action": "accept", "content": {"name": "Ada"}}})
                .to_string(),
            state: Some("sealed".to_owned()),
        });
        let error = mcp.tools.invoker().invoke(answered).await.result;
        let error = error.unwrap_err();
        match effect {
            Effect::Effectful => assert!(matches!(error, ToolError::Unknown(_)), "{error:?}"),
            _ => assert!(matches!(error, ToolError::InputRequired(_)), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_secret_of_the_settings_is_masked_in_results_and_errors() {
    let folder = folder();
    let mut config = config(&folder, "legacy");
    let token = ("TOKEN".to_owned(), Setting::new("env:SESAME"));
    config.env.extend([token]);
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let text = mcp.text("echo", "the key is open-sesame.").await;
    assert_eq!(text, "the key is [secret].");
    let error = mcp.error("fail", "open-sesame").await;
    assert_eq!(error.message(), "no such page: [secret]");
    // A place is no secret, and results name places.
    let path = mcp.log_path().display().to_string();
    assert_eq!(mcp.text("echo", &path).await, path);
}

#[tokio::test]
async fn the_end_of_a_server_in_a_call_is_told_with_its_last_words() {
    let mcp = Mcp::new("legacy").await;
    let error = mcp.error("die", "").await;
    let ToolError::Unknown(message) = &error else {
        panic!("{error:?}");
    };
    for words in ["exit status: 3", "out of luck"] {
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_call_is_declined() {
    let mcp = Mcp::new("legacy").await;
    assert_eq!(mcp.text("elicit", "").await, "\"decline\"");
}

#[tokio::test]
async fn progress_is_followed_from_its_first_step_and_a_dropped_pure_call_is_cancelled() {
    let folder = folder();
    let config = ServerConfig {
        effects: [("slow".to_owned(), Effect::Pure)].into(),
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let (progress, mut steps) = Progress::followed();
    let mut call = asked("slow", &json!({"text": "held"}));
    call.progress = progress;
    let invoker = mcp.tools.invoker().clone();
    let task = tokio::spawn(async move { invoker.invoke(call).await });
    let step = ProgressStep {
        progress: 1.0,
        total: 100.0,
        message: "working".to_owned(),
    };
    assert_eq!(steps.next().await, step);
    task.abort();
    eventually("the call is cancelled", || mcp.count("cancelled") == 1).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    let folder = folder();
    let config = ServerConfig {
        time_limit_ms: 200,
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    // The server is only asked to stop.
    let error = mcp.error("slow", "held").await;
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    eventually("the call is cancelled", || mcp.count("cancelled") == 1).await;
}

#[tokio::test]
async fn calls_run_beside_each_other() {
    let mcp = Mcp::new("legacy").await;
    let slow = mcp.call("slow", json!({"text": "held"}));
    let quick = async {
        eventually("the slow call begins", || mcp.count("call slow") == 1).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        // Only now may the other call end.
        std::fs::write(mcp.folder.path().join("open"), "").unwrap();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow.result.unwrap().text, "slow");
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_by_a_link_is_judged_again() {
    let mcp = Mcp::new("legacy").await;
    let folder = mcp.folder.path().canonicalize().unwrap();
    std::fs::create_dir(folder.join("secret")).unwrap();
    std::os::unix::fs::symlink(folder.join("secret"), folder.join("docs")).unwrap();
    let plain = mcp.call("put", json!({"path": "secret/a.txt"})).await;
    assert!(plain.result.is_ok(), "{plain:?}");
    let arguments = json!({"path": "docs/a.txt", "url": "https://Example.com:1/a"});
    let outcome = mcp.call("put", arguments.clone()).await;
    let Err(ToolError::Rejudge(rejudge)) = outcome.result else {
        panic!("{outcome:?}");
    };
    let resolved: Vec<_> = rejudge
        .resolved
        .iter()
        .map(|it| (it.name.as_str(), it.pattern.as_str()))
        .collect();
    assert_eq!(resolved, [("docs/a.txt", "secret/a.txt")]);
    assert_eq!(mcp.count("call put"), 1);
    // Judged with that value, it is made.
    let mut judged = asked("put", &arguments);
    judged.resolved = rejudge.resolved;
    mcp.tools.invoker().invoke(judged).await.result.unwrap();
    assert_eq!(mcp.count("call put"), 2);
}
