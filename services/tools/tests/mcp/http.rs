//! Servers over HTTP.

use crate::fixture::{Mcp, config, eventually, folder, request};
use cairn_tools::mcp::{Server, ServerConfig, Setting};
use cairn_tools::{Input, InputRequired, SourceState, ToolError, ToolSource as _};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of this test binary over HTTP, and its address.
pub(crate) struct Process(Child, pub(crate) String);

impl Process {
    pub(crate) fn start(folder: &TempDir, modes: &str, address: Option<&str>) -> Self {
        let config = config(folder, modes);
        let mut command = Command::new(&config.command);
        command
            .args(&config.args)
            .env("MCP_MODE", format!("http,{modes}"))
            .env("MCP_LOG", folder.path().join("log"))
            .env("MCP_ADDRESS", address.unwrap_or("127.0.0.1:0"))
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let mut addresses = lines.filter(|line| line.starts_with("http:"));
        let address = addresses.next().unwrap();
        // The pipe stays open with the thread.
        std::thread::spawn(move || addresses.count());
        Self(child, address)
    }

    /// Another one at the same address.
    fn again(&self, folder: &TempDir, modes: &str) -> Self {
        let address = self.1.trim_start_matches("http://");
        Self::start(folder, modes, Some(address.trim_end_matches("/mcp")))
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub(crate) fn of(url: &str) -> ServerConfig {
    ServerConfig {
        url: url.to_owned(),
        headers: [("Authorization".to_owned(), Setting::new("env:SESAME"))].into(),
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn both_protocols_are_spoken_over_http_with_headers_that_are_not_shown() {
    for modes in ["new", "legacy"] {
        let folder = folder();
        let process = Process::start(&folder, modes, None);
        let url = format!("{}?key=open-sesame", process.1);
        let mcp = Mcp::with(&folder, Server::of_operator(of(&url)), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        assert!(mcp.count("authorization open-sesame") > 0);
        assert_eq!(mcp.text("echo", "open-sesame").await, "[secret]");
        assert_eq!(mcp.source.place(), process.1);
    }
}

#[tokio::test]
async fn a_server_of_another_machine_is_reached_through_the_proxy() {
    let folder = folder();
    let process = Process::start(&folder, "new", None);
    let proxies = [
        // This machine is never reached through it.
        (process.1.as_str(), "http://127.0.0.1:1"),
        ("http://mcp.invalid/mcp", process.1.as_str()),
    ];
    for (url, proxy) in proxies {
        let server = Server::of_operator(of(url));
        let mcp = Mcp::in_environment(&folder, server, None, &[("HTTP_PROXY", proxy)]);
        mcp.until(|it| it.state == SourceState::Ready).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_call_leaves_its_outcome_unknown() {
    let folder = folder();
    let mut process = Process::start(&folder, "legacy", None);
    let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let error = mcp.error("die", "").await;
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    assert_eq!(mcp.count("call die"), 1, "it was not sent again");
    process.kill();
    // Nothing listens there: the call was certainly not made.
    let error = mcp.error("echo", "hello").await;
    assert!(matches!(error, ToolError::Unreachable(_)), "{error:?}");
    mcp.until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    let _again = process.again(&folder, "legacy");
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "hello").await, "hello");
}

#[tokio::test]
async fn errors_of_addresses_show_neither_query_nor_header() {
    let folder = folder();
    let process = Process::start(&folder, "unauthorized", None);
    for (url, words) in [
        (
            format!("{}?key=open-sesame", process.1),
            "wants credentials",
        ),
        (
            "http://user:open-sesame@127.0.0.1:9/mcp?key=open-sesame".to_owned(),
            "cannot be connected to",
        ),
    ] {
        let mcp = Mcp::with(&folder, Server::of_operator(of(&url)), None);
        let listing = mcp
            .until(|it| matches!(it.state, SourceState::Unreachable(_)))
            .await;
        let shown = format!(
            "{:?} {} {:?}",
            listing.state,
            mcp.source.place(),
            mcp.source
        );
        assert!(shown.contains(words), "{shown}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

/// A server in this mode starts again, and knows no session any more. Its refusal of the call is no result: the
/// call is made in a new session.
async fn is_called_once_after_its_sessions_are_lost(mode: &str) {
    let folder = folder();
    let mut process = Process::start(&folder, mode, None);
    let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "one").await, "one");
    process.kill();
    let _again = process.again(&folder, mode);
    assert_eq!(mcp.text("echo", "two").await, "two");
    assert!(mcp.count("unknown session") > 0, "{}", mcp.log());
    assert_eq!(mcp.count("call echo"), 2, "{}", mcp.log());
}

#[tokio::test]
async fn a_server_that_lost_its_sessions_gets_a_call_once() {
    is_called_once_after_its_sessions_are_lost("legacy,session").await;
}

/// Many servers answer so where the protocol wants 404.
#[tokio::test]
async fn a_server_that_lost_its_sessions_and_answers_400_gets_a_call_once() {
    is_called_once_after_its_sessions_are_lost("legacy,session,refuses").await;
}

/// The server may continue a stream, and would be asked for it again and again.
#[tokio::test]
async fn a_stream_that_breaks_ends_its_call_once_the_server_cannot_be_reached() {
    let folder = folder();
    let mut process = Process::start(&folder, "legacy,stream", None);
    let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let called = async {
        mcp.call("slow", json!({"text": "held"}))
            .await
            .result
            .unwrap_err()
    };
    let killed = async {
        eventually("the call", || mcp.count("stream begins") == 1).await;
        process.kill();
    };
    let (error, ()) = tokio::join!(called, killed);
    let ToolError::Unknown(message) = &error else {
        panic!("{error:?}");
    };
    assert!(message.contains("closed the connection"), "{message}");
}

#[tokio::test]
async fn a_kill_of_the_server_in_a_call_leaves_its_outcome_unknown_and_one_effect() {
    let folder = folder();
    let mut process = Process::start(&folder, "legacy,session", None);
    let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let called = async {
        mcp.call("slow", json!({"text": "held"}))
            .await
            .result
            .unwrap_err()
    };
    let killed = async {
        eventually("the call", || mcp.count("call slow") == 1).await;
        process.kill();
        process.again(&folder, "legacy,session")
    };
    let (error, _again) = tokio::join!(called, killed);
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    assert_eq!(mcp.text("echo", "hello").await, "hello");
    assert_eq!(mcp.count("call slow"), 1, "it was not sent again");
}

#[tokio::test]
async fn a_question_outlives_its_server() {
    let folder = folder();
    let mut process = Process::start(&folder, "new", None);
    let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let asked = mcp.call("ask", json!({})).await.result.unwrap_err();
    let ToolError::InputRequired(InputRequired { state, .. }) = asked else {
        panic!("{asked:?}");
    };
    process.kill();
    let _again = process.again(&folder, "new");
    let mut answered = request("t__ask", &json!({}));
    answered.input = Some(Input {
        responses: json!({"name": {"action": "accept", "content": {"name": "Ada"}}}).to_string(),
        state,
    });
    let outcome = mcp.tools.invoker().invoke(answered).await;
    assert_eq!(outcome.result.unwrap().text, "sealed: Ada");
    assert_eq!(mcp.count("call ask key=\"0123456789abcdef\""), 2);
}
