//! A server that a workspace brings along is not started before a person allows it.

use crate::fixture::{Mcp, asked, config, eventually, folder, has_tool, service, trust};
use cairn_tools::mcp::{Server, ServerConfig, parse_servers};
use cairn_tools::{AllowError, SourceState, ToolError, ToolSource as _};
use serde_json::json;
use std::collections::BTreeMap;

/// Fails if the server was started. Its program is not there, so that a start shows in the listing as soon
/// as the source's task has had a turn.
async fn is_not_started(mcp: &Mcp) {
    let is_waiting = |state: &SourceState| matches!(state, SourceState::NotAllowed(_));
    mcp.until(|it| is_waiting(&it.state)).await;
    assert!(is_waiting(&mcp.listing().state), "{:?}", mcp.listing());
}

#[tokio::test]
async fn nothing_is_started_before_it_is_allowed_and_then_it_stays_allowed() {
    let folder = folder();
    let program = folder.path().join("program");
    let plain = ServerConfig {
        command: program.display().to_string(),
        ..config(&folder, "legacy")
    };
    let log = folder.path().join("log");
    let file = folder.path().join(".mcp.json");
    let text = json!({"mcpServers": {"t": {"type": "stdio", "command": plain.command, "args": plain.args,
        "env": {"MCP_MODE": "legacy", "MCP_LOG": log, "TOKEN": "${SESAME}"}, "disabled": false}}});
    std::fs::write(&file, text.to_string()).unwrap();
    let mut servers = parse_servers(&text.to_string(), &BTreeMap::new()).unwrap();
    let server = Server::of_file(servers.remove(0).config.unwrap(), &file);
    let mcp = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    let SourceState::NotAllowed(why) = mcp.listing().state.clone() else {
        panic!("{:?}", mcp.listing());
    };
    assert!(
        why.contains(".mcp.json") && why.contains("env:SESAME"),
        "{why}"
    );
    let error = mcp.error("echo", "hello").await;
    assert!(
        matches!(&error, ToolError::Unreachable(text) if text.contains(&why)),
        "{error:?}"
    );
    is_not_started(&mcp).await;
    assert!(matches!(
        mcp.source.allow("t", "0000").await,
        Err(AllowError::Changed { .. })
    ));
    is_not_started(&mcp).await;
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    let digest = mcp.source.digest();
    let allowed = mcp.source.allow("t", &digest).await.unwrap();
    assert_eq!(allowed, Some(digest));
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "hello").await, "hello");
    mcp.source.close().await;

    let again = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    again.until(|it| it.state == SourceState::Ready).await;
    again.source.close().await;

    // Another environment is another server: a variable can name a program to load.
    let mut changed = server;
    changed
        .config
        .env
        .insert("NODE_OPTIONS".to_owned(), "--require ./evil.js".into());
    std::fs::remove_file(&program).unwrap();
    let changed = Mcp::with(&folder, changed, Some(trust(&folder)));
    is_not_started(&changed).await;
}

#[tokio::test]
async fn the_service_starts_servers_of_its_settings_and_ends_them() {
    let folder = folder();
    let server = Server::of_operator(config(&folder, "legacy"));
    let tools = service(&folder, |config, _| {
        config.servers.insert("t".to_owned(), server);
        config.deny = vec!["t__put".to_owned()];
    });
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    eventually("tools are listed", || log().contains("tools/list")).await;
    eventually("the service has them", || has_tool(&tools, "t__echo")).await;
    let echo = tools
        .invoker()
        .invoke(asked("echo", &json!({"text": "hello"})))
        .await;
    assert_eq!(echo.result.unwrap().text, "hello");
    let put = tools.invoker().invoke(asked("put", &json!({}))).await;
    assert!(matches!(put.result, Err(ToolError::Denied(_))));
    tools.drain().await;
    assert!(log().contains("end of input"), "{}", log());
}
