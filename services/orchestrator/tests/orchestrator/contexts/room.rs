//! The messages of contexts count among the bytes of state, as long as they are there.

use super::{append, create, session, user};
use crate::support::{World, chain, tool_step};
use crate::turns::{submit, turn};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

async fn start(world: &World) -> Result<pb::StartRunResponse, RpcError> {
    let request = pb::StartRunRequest {
        request_id: world.request_id(),
        run: Some(chain(vec![tool_step("pure")])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let started = world.until(client.start_run(request)).await;
    Ok(started?.into_inner())
}

/// 500 of 800 KiB are in a context of a session that is at work. The next session may have as many.
#[tokio::test(start_paused = true)]
async fn a_context_that_is_destroyed_leaves_its_room_at_once() {
    let world = World::with_config(Config {
        state_bytes: 800 << 10,
        ..Config::default()
    })
    .await;
    let session = session(&world).await;
    let _turn = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let _attempt = world.attempt().await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        ..wire::CreateContext::default()
    };
    create(&world, &session, side).await;
    for _ in 0..2 {
        append(&world, &session, "side", user(&"m".repeat(250 << 10))).await;
    }
    let error = start(&world).await.expect_err("there is no room");
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert_eq!(error.metadata("limit"), Some("session.state_bytes"));

    let destroy = pb::DestroyContextRequest {
        session,
        request_id: world.request_id(),
        context: Some(wire::DestroyContext {
            context: "side".to_owned(),
            ..wire::DestroyContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let destroyed = world.until(contexts.destroy_context(destroy)).await;
    destroyed.expect("it is destroyed");
    // The client may know the event before its owner has the answer to the commit.
    for _ in 0..100 {
        if start(&world).await.is_ok() {
            return;
        }
        world.pass(Duration::from_millis(10)).await;
    }
    panic!("there is no room");
}
