//! Calls that their owner interrupts.

use crate::support::{Custom, World, counting, request, with_tools};
use cairn_proto::tools::CancelCallRequest;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{Exposure, ServerBuilder};
use cairn_tools::{CommandConfig, Confine, Effect, Output, Request, ToolError};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A program whose children hold a lock as long as they live.
fn family(effect: Effect) -> CommandConfig {
    let text = "exec 9>held; flock -s 9; (trap '' TERM HUP INT; sleep 1000; sleep 1000) & \
                echo x > started; wait";
    CommandConfig {
        name: "family".to_owned(),
        description: "test".to_owned(),
        argv: ["/bin/sh", "-c", text].map(str::to_owned).to_vec(),
        effect,
        parameters: json!({"type": "object"}),
        time_limit_ms: 60_000,
        output_bytes: 4096,
        env: Vec::new(),
        confine: Confine::None,
    }
}

async fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} is missing", path.display());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_interrupt_kills_a_program_and_its_children() {
    for effect in [Effect::Pure, Effect::Idempotent, Effect::Effectful] {
        let world = World::with(|config, deps| {
            config.commands = vec![family(effect)];
            let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
            deps.programs.environment.extend([path]);
        });
        let invoker = world.tools.invoker().clone();
        let call = tokio::spawn(async move { invoker.invoke(request("family", "{}")).await });
        wait_for(&world.path("started")).await;
        let began = Instant::now();
        let key = request("family", "{}").key;
        assert!(world.tools.invoker().interrupt(&key));
        let error = call.await.unwrap().result.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(error.reason(), "Interrupted", "{effect:?}: {error}");
        let stays = error.message().contains("what it did stays");
        assert_eq!(stays, effect != Effect::Pure, "{error}");
        // The lock is free, so no process of the program is left.
        let held = fs::File::open(world.path("held")).unwrap();
        held.try_lock().unwrap();
        assert!(!world.tools.invoker().interrupt(&key), "it has ended");
    }
}

#[tokio::test]
async fn only_the_call_of_the_key_is_interrupted() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, goes) = (begun.clone(), go.clone());
    let tool = Custom::tool("waits", Effect::Effectful, move |call| {
        let (began, goes) = (began.clone(), goes.clone());
        async move {
            began.notify_one();
            tokio::select! {
                () = call.stop.cancelled() => Err(ToolError::ExecutionFailed("stopped".to_owned())),
                () = goes.notified() => Ok(Output::text("done")),
            }
        }
    });
    let world = with_tools(vec![tool]);
    let run = |key: &str| {
        let invoker = world.tools.invoker().clone();
        let call = Request {
            key: key.to_owned(),
            ..request("waits", "{}")
        };
        tokio::spawn(async move { invoker.invoke(call).await.result })
    };
    let one = run("one");
    begun.notified().await;
    let two = run("two");
    begun.notified().await;
    assert!(!world.tools.invoker().interrupt("three"));
    assert!(world.tools.invoker().interrupt("one"));
    let error = one.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), "Interrupted");
    go.notify_one();
    assert_eq!(two.await.unwrap().unwrap().text, "done");
}

/// The owner and the sender of a call are different processes.
#[tokio::test]
async fn a_call_that_comes_after_its_interrupt_is_not_begun() {
    let (tool, count) = counting("effectful", Effect::Effectful);
    let world = with_tools(vec![tool]);
    let builder = world.tools.register(ServerBuilder::new(Exposure::Internal));
    let mut client = ToolsServiceClient::new(builder.build().await.unwrap().link());
    let cancel = CancelCallRequest {
        call_key: request("effectful", "{}").key,
    };
    let found = client.cancel_call(cancel).await.unwrap().into_inner().found;
    assert!(!found);
    let error = world.error("effectful", json!({})).await;
    assert_eq!(error.reason(), "Interrupted");
    assert!(error.message().contains("nothing was done"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// What it gave before it saw the interrupt is its result.
#[tokio::test]
async fn a_call_that_ends_by_itself_has_its_result() {
    let begun = Arc::new(Notify::new());
    let began = begun.clone();
    let tool = Custom::tool("ends", Effect::Idempotent, move |call| {
        let began = began.clone();
        async move {
            began.notify_one();
            call.stop.cancelled().await;
            Ok(Output::text("written"))
        }
    });
    let world = with_tools(vec![tool]);
    let invoker = world.tools.invoker().clone();
    let call = tokio::spawn(async move { invoker.invoke(request("ends", "{}")).await });
    begun.notified().await;
    assert!(world.tools.invoker().interrupt(&request("ends", "{}").key));
    assert_eq!(call.await.unwrap().result.unwrap().text, "written");
}
