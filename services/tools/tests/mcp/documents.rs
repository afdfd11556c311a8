//! What a person allowed is with memory: all tools processes hold it, and follow each change.

use crate::fixture::{Mcp, config, eventually, folder};
use crate::memory::Memory;
use cairn_tools::mcp::{Server, ServerConfig};
use cairn_tools::{AllowError, Listing, SourceState, ToolError, ToolSource as _};
use std::sync::Arc;
use tempfile::TempDir;

fn is_ready(listing: &Listing) -> bool {
    listing.state == SourceState::Ready
}

fn has_disabled(listing: &Listing) -> bool {
    listing.tools.iter().any(|tool| tool.disabled.is_some())
}

fn is_callable(listing: &Listing) -> bool {
    is_ready(listing) && !listing.tools.is_empty() && !has_disabled(listing)
}

/// The server of the operator's settings in a process of its own.
async fn ready(folder: &Arc<TempDir>, modes: &str, memory: &Memory) -> Mcp {
    let server = Server::of_operator(config(folder, modes));
    let mcp = Mcp::over(folder, server, memory);
    mcp.until(is_ready).await;
    mcp
}

#[tokio::test]
async fn what_a_person_allows_one_process_holds_in_another_and_in_later_ones() {
    let (folder, memory) = (folder(), Memory::start().await);
    let one = ready(&folder, "legacy", &memory).await;
    let other = ready(&folder, "legacy", &memory).await;
    for mcp in [&one, &other] {
        assert_eq!(mcp.disabled().len(), 0);
        mcp.text("change", "description").await;
        mcp.until(has_disabled).await;
    }
    for _ in 0..2 {
        one.source.allow("t__echo", "").await.unwrap();
        assert_eq!(one.disabled().len(), 0, "as soon as it is stored");
    }
    other.until(is_callable).await;
    assert_eq!(other.text("echo", "hello").await, "hello");
    drop((one, other));

    let later = ready(&folder, "legacy,described", &memory).await;
    assert_eq!(later.disabled().len(), 0);
}

#[tokio::test]
async fn the_first_list_is_pinned_for_all_processes() {
    let (folder, memory) = (folder(), Memory::start().await);
    let first = ready(&folder, "legacy", &memory).await;
    let kept = ["tool:", "listed:", "protocol:"].map(|kind| memory.ids(kind).len());
    assert_eq!(kept, [17, 1, 1]);
    let later = ready(&folder, "legacy,described", &memory).await;
    let disabled = later.disabled();
    assert_eq!(disabled.len(), 1, "{disabled:?}");
    assert_eq!(disabled["t__echo"], "its description changed");
    let error = later.error("echo", "hello").await;
    assert!(matches!(&error, ToolError::Denied(_)), "{error:?}");
    assert_eq!(first.text("echo", "hello").await, "hello");
}

#[tokio::test]
async fn a_server_of_a_file_that_is_allowed_starts_in_all_processes() {
    let (folder, memory) = (folder(), Memory::start().await);
    let file = folder.path().join(".mcp.json");
    let server = Server::of_file(config(&folder, "legacy"), file);
    let [one, other] = [(); 2].map(|()| Mcp::over(&folder, server.clone(), &memory));
    for mcp in [&one, &other] {
        mcp.until(|it| matches!(it.state, SourceState::NotAllowed(_)))
            .await;
    }
    assert_eq!(one.count("start "), 0);
    let digest = one.source.digest();
    let allowed = one.source.allow("t", &digest).await.unwrap();
    assert_eq!(allowed, Some(digest));
    one.until(is_callable).await;
    other.until(is_callable).await;

    let mut changed = server;
    changed.config.args.push("another".to_owned());
    let changed = Mcp::over(&folder, changed, &memory);
    changed
        .until(|it| matches!(it.state, SourceState::NotAllowed(_)))
        .await;
}

#[tokio::test]
async fn without_memory_a_process_keeps_what_it_knows_and_allows_nothing_new() {
    let (folder, memory) = (folder(), Memory::start().await);
    let mcp = ready(&folder, "legacy", &memory).await;
    memory.set_away(true);
    mcp.text("change", "description").await;
    mcp.until(has_disabled).await;
    let refused = mcp.source.allow("t__echo", "").await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, AllowError::Memory(_)), "{text}");
    assert!(text.contains("memory is away"), "{text}");
    let error = mcp.error("echo", "hello").await;
    assert!(matches!(&error, ToolError::Denied(_)), "{error:?}");
    assert_eq!(mcp.disabled().len(), 1, "the others are as they were");

    memory.set_away(false);
    mcp.source.allow("t__echo", "").await.unwrap();
    assert_eq!(mcp.disabled().len(), 0);
    // It follows others again, too.
    let other = ready(&folder, "legacy,described", &memory).await;
    other.text("change", "new").await;
    mcp.text("change", "new").await;
    mcp.until(has_disabled).await;
    other.until(has_disabled).await;
    other.source.allow("t__fresh", "").await.unwrap();
    mcp.until(is_callable).await;
}

#[tokio::test]
async fn no_server_starts_before_memory_has_listed_what_was_allowed() {
    let (folder, memory) = (folder(), Memory::start().await);
    memory.set_away(true);
    let server = Server::of_operator(ServerConfig {
        start_ms: 3_000,
        ..config(&folder, "legacy")
    });
    let mcp = Mcp::over(&folder, server, &memory);
    assert_eq!(mcp.listing().state, SourceState::Starting);
    let listing = mcp.until(|it| it.state != SourceState::Starting).await;
    let SourceState::Unreachable(why) = &listing.state else {
        panic!("{:?}", listing.state);
    };
    assert!(why.contains("memory is away"), "{why}");
    assert_eq!(mcp.count("start "), 0);
    memory.set_away(false);
    mcp.until(is_callable).await;
}

/// As servers of Redis may do.
#[tokio::test]
async fn a_failover_that_loses_an_allowance_takes_it_back() {
    let (folder, memory) = (folder(), Memory::start().await);
    let mcp = ready(&folder, "legacy", &memory).await;
    mcp.text("change", "new").await;
    mcp.until(has_disabled).await;
    mcp.source.allow("t__fresh", "").await.unwrap();
    assert_eq!(mcp.disabled().len(), 0);
    memory.lose_last();
    mcp.until(has_disabled).await;
    let disabled = mcp.disabled();
    assert!(disabled["t__fresh"].contains("it is new"), "{disabled:?}");
    assert_eq!(disabled.len(), 1, "{disabled:?}");
    mcp.source.allow("t__fresh", "").await.unwrap();
    assert_eq!(mcp.disabled().len(), 0);
}

#[tokio::test]
async fn a_store_that_is_new_gets_the_first_list_once_more() {
    let (folder, memory) = (folder(), Memory::start().await);
    let mcp = ready(&folder, "legacy", &memory).await;
    memory.lose_all();
    eventually("the tools are pinned again", || {
        memory.ids("listed:").len() == 1
    })
    .await;
    mcp.until(is_callable).await;
    assert_eq!(memory.ids("tool:").len(), 17);
}
