//! Every kind of server is connected to, by the protocol that it speaks.

use crate::fixture::{Mcp, config, eventually, folder, trust};
use cairn_tools::mcp::{Protocol, Server, ServerConfig, Setting};
use cairn_tools::{SourceState, ToolError, ToolSource as _};
use std::time::Instant;

/// The time for a start of which a third is waited for an answer that does not come.
const SLOW_MS: u64 = 6_000;

#[tokio::test]
async fn a_server_of_each_protocol_is_connected_to_by_one_program() {
    for (modes, handshakes) in [
        ("new", ["server/discover", "subscriptions/listen"]),
        ("legacy", ["server/discover", "initialize"]),
    ] {
        let mcp = Mcp::new(modes).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        assert_eq!(mcp.count("start"), 1, "{modes}");
        for handshake in handshakes {
            eventually(handshake, || mcp.count(handshake) > 0).await;
        }
    }
}

/// The library's automatic mode alone fails on these.
#[tokio::test]
async fn servers_that_break_on_discovery_are_initialized_by_a_new_program() {
    for modes in ["exits", "empty"] {
        let mcp = Mcp::new(modes).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        assert_eq!(mcp.count("start"), 2, "{modes}: {}", mcp.log());
        assert_eq!(mcp.count("initialize \"2025-11-25\""), 1, "{modes}");
    }
}

/// A server that starts slowly is asked both ways, and answers both. It is not started anew.
#[tokio::test]
async fn a_server_that_is_late_with_its_answers_is_started_once() {
    for modes in ["late,legacy", "late,new"] {
        let folder = folder();
        let late = ServerConfig {
            start_ms: SLOW_MS,
            ..config(&folder, modes)
        };
        let mcp = Mcp::with(&folder, Server::of_operator(late), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        assert_eq!(mcp.count("server/discover"), 1, "{modes}");
        assert_eq!(
            mcp.count("initialize"),
            1 + usize::from(modes == "late,legacy")
        );
        assert_eq!(mcp.count("start"), 1, "{modes}: {}", mcp.log());
    }
}

/// And what worked is remembered: the second start does not wait for the silence to end.
#[tokio::test]
async fn a_silent_server_is_initialized_and_remembered() {
    let folder = folder();
    let server = Server::of_operator(ServerConfig {
        start_ms: SLOW_MS,
        ..config(&folder, "silent")
    });
    let began = Instant::now();
    let first = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    first.until(|it| it.state == SourceState::Ready).await;
    println!("a silent server, first: {:?}", began.elapsed());
    first.source.close().await;
    let began = Instant::now();
    let second = Mcp::with(&folder, server, Some(trust(&folder)));
    second.until(|it| it.state == SourceState::Ready).await;
    println!("a silent server, remembered: {:?}", began.elapsed());
    assert_eq!(second.text("echo", "hello").await, "hello");
    // Both have one log: only the first was asked what it does not answer.
    assert_eq!(second.count("server/discover"), 1);
}

#[tokio::test]
async fn the_protocol_can_be_fixed() {
    let folder = folder();
    for (modes, protocol, expected) in [
        ("legacy", Protocol::Legacy, true),
        ("new", Protocol::V20260728, true),
        ("legacy", Protocol::V20260728, false),
        ("new", Protocol::Legacy, false),
    ] {
        let config = ServerConfig {
            protocol,
            ..config(&folder, modes)
        };
        let mcp = Mcp::with(&folder, Server::of_operator(config), None);
        let listing = mcp.until(|it| it.state != SourceState::Starting).await;
        assert_eq!(
            listing.state == SourceState::Ready,
            expected,
            "{modes} {protocol:?} {:?}",
            listing.state
        );
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_is_tried_again_and_does_not_hold_up_the_service() {
    let folder = folder();
    let missing = ServerConfig {
        command: "/no/such/program".to_owned(),
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(missing), None);
    // The state before the first failure: the server has not been tried yet.
    assert_eq!(mcp.listing().state, SourceState::Starting);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    let SourceState::Unreachable(why) = &listing.state else {
        unreachable!()
    };
    assert!(
        why.contains("could not be started") && why.contains("/no/such/program"),
        "{why}"
    );
    let error = mcp.error("echo", "hello").await;
    assert!(matches!(error, ToolError::Unreachable(_)), "{error:?}");

    let dumb = ServerConfig {
        start_ms: 300,
        ..config(&folder, "dumb")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(dumb), None);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    // What waits for the start waits no longer than that, whichever is said first.
    assert!(
        format!("{:?}", listing.state).contains("within 300 ms"),
        "{:?}",
        listing.state
    );
    mcp.until(|it| format!("{:?}", it.state).contains("did not answer the handshake"))
        .await;
}

#[tokio::test]
async fn a_program_has_no_environment_but_what_is_listed_and_secrets_are_not_shown() {
    let folder = folder();
    let mut config = config(&folder, "legacy");
    config
        .env
        .insert("TOKEN".to_owned(), Setting::new("env:SESAME"));
    config
        .env
        .insert("LITERAL".to_owned(), Setting::new("literal-sesame"));
    let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let log = mcp.log();
    let mut names: Vec<&str> = log.lines().next().unwrap().split(' ').skip(1).collect();
    names.sort_unstable();
    names.retain(|name| !name.starts_with("RUST_"));
    assert_eq!(names, ["LITERAL", "MCP_LOG", "MCP_MODE", "PATH", "TOKEN"]);
    let all = format!(
        "{shown} {} {:?} {:?}",
        mcp.source.place(),
        mcp.listing(),
        mcp.source
    );
    assert!(!all.contains("sesame"), "{all}");

    let mut missing = crate::fixture::config(&folder, "legacy");
    missing
        .env
        .insert("TOKEN".to_owned(), Setting::new("env:NOT_SET"));
    let mcp = Mcp::with(&folder, Server::of_operator(missing), None);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    assert!(
        format!("{:?}", listing.state).contains("env:NOT_SET is not set"),
        "{:?}",
        listing.state
    );
}

#[tokio::test]
async fn a_server_that_dies_is_started_again_and_its_tools_stay_listed() {
    let mcp = Mcp::new("legacy").await;
    let error = mcp.error("die", "").await;
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    assert_eq!(listing.tools.len(), 17);
    assert!(
        format!("{:?}", listing.state).contains("exit status: 3"),
        "{:?}",
        listing.state
    );
    // A call waits for a server that is about to be there again.
    assert_eq!(mcp.text("echo", "hello").await, "hello");
    assert_eq!(mcp.count("call echo"), 1);
}

#[tokio::test]
async fn closing_ends_the_program_in_peace() {
    let mcp = Mcp::new("legacy").await;
    mcp.source.close().await;
    assert_eq!(mcp.count("end of input"), 1);
}
