//! A tool that is not as it was when its server was first listed waits for a person.

use crate::fixture::{Mcp, asked, config, folder, has_tool, request, trust};
use cairn_tools::mcp::{Server, ServerConfig};
use cairn_tools::{AllowError, Listing, SourceState, ToolError, ToolSource as _};
use serde_json::json;
use std::time::Duration;

fn digest(listing: &Listing, name: &str) -> String {
    let tool = listing.tools.iter().find(|it| it.tool.spec().name == name);
    tool.unwrap().tool.spec().digest()
}

#[tokio::test]
async fn each_change_disables_a_tool_until_it_is_allowed() {
    for modes in ["new", "legacy"] {
        let mcp = Mcp::new(modes).await;
        assert_eq!(mcp.disabled().len(), 0);
        for (change, part) in [
            ("description", "its description changed"),
            ("schema", "its schema of arguments changed"),
            ("hints", "its hints changed"),
            ("results", "its schema of results changed"),
        ] {
            let judged = digest(&mcp.listing(), "t__echo");
            mcp.text("change", change).await;
            let listing = mcp.until(|it| digest(it, "t__echo") != judged).await;
            let why = &mcp.disabled()["t__echo"];
            assert_eq!(why, part);
            let error = mcp.error("echo", "hello").await;
            assert!(
                matches!(&error, ToolError::Denied(text) if text.contains(part)),
                "{error:?}"
            );
            // What was approved before is not the tool that has the name now.
            assert!(matches!(
                mcp.source.allow("t__echo", &judged).await,
                Err(AllowError::Changed { digest, .. }) if digest == self::digest(&listing, "t__echo")
            ));
            let now = digest(&listing, "t__echo");
            let allowed = mcp.source.allow("t__echo", &now).await.unwrap();
            assert_eq!(allowed, Some(now));
            mcp.until(|it| it.tools.iter().all(|tool| tool.disabled.is_none()))
                .await;
            let mut old = asked("echo", &json!({"text": "hello"}));
            old.tool_digest = judged;
            let outcome = mcp.tools.invoker().invoke(old).await;
            assert!(
                matches!(outcome.result, Err(ToolError::Rejudge(_))),
                "{outcome:?}"
            );
            assert_eq!(mcp.text("echo", "hello").await, "hello");
        }
        assert_eq!(mcp.count("call echo"), 4, "only what was allowed arrived");
        let unknown = mcp.source.allow("t__unknown", "").await;
        assert_eq!(unknown.unwrap(), None);
    }
}

#[tokio::test]
async fn a_tool_that_appears_later_waits_and_the_others_do_not() {
    let mcp = Mcp::new("new").await;
    mcp.text("change", "new").await;
    mcp.until(|it| it.tools.len() == 18).await;
    let disabled = mcp.disabled();
    assert_eq!(disabled.len(), 1);
    assert!(disabled["t__fresh"].contains("it is new"), "{disabled:?}");
    assert_eq!(mcp.text("echo", "hello").await, "hello");
    mcp.source.allow("t__fresh", "").await.unwrap();
    mcp.until(|it| it.tools.iter().all(|tool| tool.disabled.is_none()))
        .await;
}

#[tokio::test]
async fn pins_outlive_the_process_and_a_damaged_file_disables_everything() {
    let folder = folder();
    let server = Server::of_operator(config(&folder, "legacy"));
    let ready = |it: &Listing| it.state == SourceState::Ready;
    let first = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    first.until(ready).await;
    first.text("change", "description").await;
    first
        .until(|it| it.tools.iter().any(|tool| tool.disabled.is_some()))
        .await;
    first.source.close().await;
    // The server is as it was again, and so are its tools.
    let second = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    second.until(ready).await;
    assert_eq!(second.disabled().len(), 0);
    second.source.close().await;
    std::fs::write(folder.path().join("trust.json"), "{").unwrap();
    let third = Mcp::with(&folder, server, Some(trust(&folder)));
    third.until(ready).await;
    assert_eq!(third.disabled().len(), 17);
    assert!(
        third.disabled()["t__echo"].contains("trust file"),
        "{:?}",
        third.disabled()
    );
}

/// As where processes on one machine share the trust file.
#[tokio::test]
async fn what_a_person_allows_one_process_holds_in_another_at_its_next_call() {
    let folder = folder();
    let server = Server::of_operator(config(&folder, "legacy"));
    let [one, other] = [(); 2].map(|()| Mcp::with(&folder, server.clone(), Some(trust(&folder))));
    for mcp in [&one, &other] {
        mcp.until(|it| it.state == SourceState::Ready).await;
        mcp.text("change", "description").await;
        mcp.until(|it| it.tools.iter().any(|tool| tool.disabled.is_some()))
            .await;
    }
    one.source.allow("t__echo", "").await.unwrap();
    assert_eq!(other.text("echo", "hello").await, "hello");
    assert_eq!(other.disabled().len(), 0);
}

/// To give a server another key must not be to trust what its tools have become.
#[tokio::test]
async fn another_value_of_a_variable_makes_no_other_server() {
    let folder = folder();
    let with = |modes: &str| {
        let server = Server::of_operator(config(&folder, modes));
        Mcp::with(&folder, server, Some(trust(&folder)))
    };
    let first = with("legacy");
    first.until(|it| it.state == SourceState::Ready).await;
    first.source.close().await;
    // The mode is a variable of the server.
    let second = with("legacy,described");
    second.until(|it| it.state == SourceState::Ready).await;
    let disabled = second.disabled();
    assert_eq!(disabled.len(), 1, "{disabled:?}");
    assert_eq!(disabled["t__echo"], "its description changed");
}

/// Pins of a version that had values in the name of a server hold further.
#[tokio::test]
async fn pins_by_the_whole_settings_of_a_server_are_found() {
    let folder = folder();
    let server = Server::of_operator(config(&folder, "legacy"));
    let first = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
    first.until(|it| it.state == SourceState::Ready).await;
    let digest = first.source.digest();
    first.source.close().await;
    let file = folder.path().join("trust.json");
    let mut kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let pins = kept["tools"].as_object_mut().unwrap();
    let (_, mut tools) = std::mem::take(pins).into_iter().next().unwrap();
    tools["t__echo"]["description"] = "another".into();
    pins.insert(format!("t:{digest}"), tools);
    std::fs::write(&file, kept.to_string()).unwrap();
    let second = Mcp::with(&folder, server, Some(trust(&folder)));
    second.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(second.disabled().len(), 1);
    second.source.allow("t__echo", "").await.unwrap();
    assert_eq!(second.disabled().len(), 0, "the others stay as they were");
}

/// The disk of the file stalls: here it is a pipe that stays open and empty. This runtime has one worker.
#[tokio::test]
async fn a_trust_file_that_stalls_holds_up_no_call() {
    let folder = folder();
    let pipe = folder.path().join("trust.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let stall = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe);
    let stall = stall.unwrap();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let end = std::thread::spawn(move || {
        // A test that fails ends, too.
        let in_time = is_done.recv_timeout(Duration::from_secs(10)).is_ok();
        std::fs::remove_file(&pipe).unwrap();
        drop(stall);
        in_time
    });
    let server = Server::of_operator(config(&folder, "legacy"));
    let mcp = Mcp::with(&folder, server, Some(trust(&folder)));
    let listed = request("list_files", &json!({}));
    mcp.tools.invoker().invoke(listed).await.result.unwrap();
    _ = done.send(());
    assert!(end.join().unwrap());
}

#[tokio::test]
async fn only_allowed_tools_are_listed_and_misspelt_ones_reported() {
    let folder = folder();
    let config = ServerConfig {
        allow: Some(vec!["echo".to_owned(), "ehco".to_owned()]),
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    let listing = mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(listing.tools.len(), 1);
    assert_eq!(
        listing.left_out,
        ["allow names 'ehco', which the server does not list"]
    );
    let error = mcp.error("put", "x").await;
    assert!(matches!(error, ToolError::NotFound(_)), "{error:?}");
    mcp.source.close().await;
    let config = ServerConfig {
        disabled_tools: vec!["put".to_owned(), "another".to_owned()],
        ..crate::fixture::config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    let listing = mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(listing.tools.len(), 16);
    assert!(!has_tool(&mcp.tools, "t__put"));
}
