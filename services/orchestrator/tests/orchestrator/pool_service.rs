//! The pool, as clients read and change it.

use crate::support::{Fault, World, chain, for_tenant, tool_step};
use cairn_proto::api as pb;
use cairn_proto::memory as memory_pb;
use cairn_rpc::{ErrorKind, RpcError};
use pb::grant_tool_request::To;
use pb::revoke_tool_request::Of;
use prost::Message as _;

fn request(world: &World, id: &str) -> pb::PutResourceRequest {
    pb::PutResourceRequest {
        request_id: world.request_id(),
        id: id.to_owned(),
        kind: "gpu".to_owned(),
        capabilities: vec![pb::ResourceCapability {
            name: "gpu".to_owned(),
            level: 0,
        }],
        slots: 2,
        ..pb::PutResourceRequest::default()
    }
}

async fn put(world: &World, request: pb::PutResourceRequest) -> Result<u64, RpcError> {
    let put = world.pool.clone().put_resource(request).await?;
    Ok(put.into_inner().version)
}

async fn remove(world: &World, id: &str, expected: Option<u64>) -> Result<(), RpcError> {
    let request = pb::RemoveResourceRequest {
        request_id: world.request_id(),
        id: id.to_owned(),
        expected_version: expected,
    };
    world.pool.clone().remove_resource(request).await?;
    Ok(())
}

fn grant(world: &World, tool: &str) -> pb::GrantToolRequest {
    pb::GrantToolRequest {
        request_id: world.request_id(),
        tool: tool.to_owned(),
        to: Some(To::Agent("reviewer".to_owned())),
    }
}

async fn granted(world: &World, request: pb::GrantToolRequest) -> Result<(), RpcError> {
    world.pool.clone().grant_tool(request).await?;
    Ok(())
}

async fn revoked(world: &World, tool: &str, of: Of) -> Result<(), RpcError> {
    let request = pb::RevokeToolRequest {
        request_id: world.request_id(),
        tool: tool.to_owned(),
        of: Some(of),
    };
    world.pool.clone().revoke_tool(request).await?;
    Ok(())
}

fn reviewer() -> Of {
    Of::Agent("reviewer".to_owned())
}

/// A document of the pool as it is stored.
async fn document(
    world: &World,
    kind: memory_pb::DocumentKind,
    id: &str,
) -> Option<memory_pb::Document> {
    let get = memory_pb::GetDocumentRequest {
        kind: kind.into(),
        id: id.to_owned(),
    };
    let got = world.documents.clone().get_document(for_tenant(get)).await;
    got.expect("an answer").into_inner().document
}

async fn grants(world: &World, id: &str) -> (pb::AgentGrant, u64) {
    let stored = document(world, memory_pb::DocumentKind::Grant, id).await;
    let stored = stored.expect("grants");
    let grants = pb::AgentGrant::decode(stored.value).expect("grants");
    (grants, stored.version)
}

/// Checks kind and reason of an error.
fn check(error: &RpcError, kind: ErrorKind, reason: &str) {
    let found = (error.kind(), error.reason_name());
    assert_eq!(found, (kind, reason), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_stored_without_a_state() {
    let world = World::new().await;
    let version = put(&world, request(&world, "gpu-1")).await;
    assert_eq!(version.expect("stored"), 1);
    let kind = memory_pb::DocumentKind::Resource;
    let stored = document(&world, kind, "gpu-1").await.expect("stored");
    let stored = pb::Resource::decode(stored.value).expect("a resource");
    let expected = pb::Resource {
        id: "gpu-1".to_owned(),
        kind: "gpu".to_owned(),
        capabilities: vec![pb::ResourceCapability {
            name: "gpu".to_owned(),
            level: 1,
        }],
        slots: 2,
        ..pb::Resource::default()
    };
    assert_eq!(stored, expected);
    remove(&world, "gpu-1", None).await.expect("removed");
    assert!(document(&world, kind, "gpu-1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_the_first_answer_and_another_request_is_refused() {
    let world = World::new().await;
    let first = request(&world, "gpu-1");
    assert_eq!(put(&world, first.clone()).await.expect("stored"), 1);
    let second = request(&world, "gpu-1");
    assert_eq!(put(&world, second).await.expect("replaced"), 2);
    assert_eq!(put(&world, first.clone()).await.expect("a retry"), 1);
    let other = pb::PutResourceRequest { slots: 3, ..first };
    let error = put(&world, other).await.expect_err("refused");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_version_is_refused() {
    let world = World::new().await;
    let expecting = |expected| pb::PutResourceRequest {
        expected_version: Some(expected),
        ..request(&world, "gpu-1")
    };
    let error = put(&world, expecting(1)).await.expect_err("not there");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    assert_eq!(error.metadata("version"), Some("0"));
    assert_eq!(put(&world, expecting(0)).await.expect("stored"), 1);
    let error = remove(&world, "gpu-1", Some(2)).await;
    let error = error.expect_err("another version");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    remove(&world, "gpu-1", Some(1)).await.expect("removed");
    for expected in [None, Some(1)] {
        let error = remove(&world, "gpu-1", expected).await;
        let error = error.expect_err("not there");
        check(&error, ErrorKind::NotFound, "RESOURCE_NOT_FOUND");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_grant_undoes_nothing_that_came_after_it() {
    let world = World::new().await;
    let first = grant(&world, "web_search");
    granted(&world, first.clone()).await.expect("granted");
    let revocation = revoked(&world, "web_search", reviewer()).await;
    revocation.expect("revoked");
    granted(&world, first.clone()).await.expect("a retry");
    let (stored, version) = grants(&world, "agent:reviewer").await;
    assert_eq!((stored.granted.len(), version), (0, 2));
    assert_eq!(stored.revoked, ["web_search"]);
    let other = pb::GrantToolRequest {
        tool: "edit_file".to_owned(),
        ..first
    };
    let error = granted(&world, other).await.expect_err("refused");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_is_lost_is_made_once() {
    let world = World::new().await;
    let request = grant(&world, "web_search");
    world.faults.next("PutDocument", Fault::LoseAnswer, 1);
    let lost = granted(&world, request.clone()).await;
    let lost = lost.expect_err("no answer");
    check(&lost, ErrorKind::Unavailable, "OUTCOME_UNKNOWN");
    granted(&world, request).await.expect("a retry");
    let (stored, version) = grants(&world, "agent:reviewer").await;
    assert_eq!(stored.granted, ["web_search"]);
    assert_eq!(version, 1);
}

#[tokio::test(start_paused = true)]
async fn grants_at_the_same_time_all_count() {
    let world = World::new().await;
    let tools = ["a", "b", "c", "d", "e"];
    let grants_of = tools.map(|tool| granted(&world, grant(&world, tool)));
    for done in futures::future::join_all(grants_of).await {
        done.expect("granted");
    }
    let (stored, version) = grants(&world, "agent:reviewer").await;
    assert_eq!((stored.agent.as_str(), version), ("reviewer", 5));
    assert_eq!(stored.granted, tools);
}

#[tokio::test(start_paused = true)]
async fn executors_have_grants_of_their_own() {
    let world = World::new().await;
    let of = Of::Executor("general".to_owned());
    let revocation = revoked(&world, "shell_exec", of).await;
    revocation.expect("revoked");
    let (stored, _) = grants(&world, "executor:general").await;
    assert_eq!(
        (stored.agent.as_str(), stored.revoked.len()),
        ("general", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn tools_that_every_agent_needs_cannot_be_revoked() {
    let world = World::new().await;
    let error = revoked(&world, "step", reviewer()).await;
    let error = error.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.violations()[0].field, "tool");
    for tool in ["session_memory_set", "edit_file", "no_such_tool"] {
        let revocation = revoked(&world, tool, reviewer()).await;
        revocation.unwrap_or_else(|error| panic!("{tool}: {error}"));
    }
    let nobody = pb::GrantToolRequest {
        to: None,
        ..grant(&world, "edit_file")
    };
    let error = granted(&world, nobody).await.expect_err("refused");
    assert_eq!(error.violations()[0].field, "to");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_the_pool_at_once_and_after_a_registration() {
    let world = World::new().await;
    let watched = world.pool.clone().watch_pool(pb::WatchPoolRequest {}).await;
    let mut watched = watched.expect("a stream").into_inner();
    let first = world.until(watched.message()).await.expect("no error");
    let has_gpu = |pool: &pb::Pool| pool.resources.iter().any(|it| it.id == "gpu-1");
    assert!(!has_gpu(&first.expect("a message").pool.expect("a pool")));
    put(&world, request(&world, "gpu-1")).await.expect("stored");
    let pool = world.until(async {
        loop {
            let message = watched.message().await.expect("no error");
            let pool = message.expect("a message").pool.expect("a pool");
            if has_gpu(&pool) {
                return pool;
            }
        }
    });
    let pool = pool.await;
    let gpu = pool.resources.iter().find(|it| it.id == "gpu-1");
    let gpu = gpu.expect("a resource");
    assert_eq!((gpu.version, gpu.free_slots), (1, 2));
    let got = world.pool.clone().get_pool(pb::GetPoolRequest {}).await;
    assert!(has_gpu(
        &got.expect("an answer").into_inner().pool.expect("a pool")
    ));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_server_stops() {
    let world = World::new().await;
    let watched = world.pool.clone().watch_pool(pb::WatchPoolRequest {}).await;
    let mut watched = watched.expect("a stream").into_inner();
    let first = world.until(watched.message()).await;
    first.expect("no error").expect("a message");
    world.until(world.running.drain()).await;
    let end = world.until(async {
        loop {
            if let Err(status) = watched.message().await.map(|it| it.expect("no end")) {
                return RpcError::from_status(&status);
            }
        }
    });
    let end = end.await;
    check(&end, ErrorKind::Unavailable, "UNAVAILABLE");
    assert!(end.retry_delay().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_agent_context_has_the_task_of_its_step() {
    let world = World::new().await;
    let of = |session: &str, run, step| pb::GetAgentContextRequest {
        session: session.to_owned(),
        run,
        step,
    };
    let ask = async |request: pb::GetAgentContextRequest| {
        let answer = world.pool.clone().get_agent_context(request).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(RpcError::from)
    };
    let alone = ask(of("", 0, 0)).await.expect("a context");
    let context = alone.context.expect("a context");
    assert_eq!((context.task, context.orchestrator_note), (None, None));
    assert!(
        alone.text.starts_with("## Current pool state\n"),
        "{}",
        alone.text
    );
    let error = ask(of("", 0, 1)).await.expect_err("no session");
    assert_eq!(error.violations()[0].field, "step");
    let error = ask(of("nobody", 0, 0)).await.expect_err("no session");
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let mut run = chain(vec![tool_step("pure")]);
    run.note = "Be brief.".to_owned();
    run.external_id = "T-17".to_owned();
    let session = world.start(run).await;
    let _attempt = world.attempt().await;
    let answer = ask(of(&session, 0, 1)).await.expect("a context");
    let context = answer.context.expect("a context");
    let task = context.task.expect("a task");
    assert_eq!(
        (task.id.as_str(), task.description.as_str()),
        ("step-1", "pure")
    );
    assert_eq!(task.external_id.as_deref(), Some("T-17"));
    assert_eq!(context.orchestrator_note.as_deref(), Some("Be brief."));
    assert!(answer.text.contains("- ID: step-1\n"), "{}", answer.text);
    let error = ask(of(&session, 2, 1)).await.expect_err("no run");
    check(&error, ErrorKind::NotFound, "NO_SUCH_RUN");
    let error = ask(of(&session, 1, 2)).await.expect_err("no step");
    check(&error, ErrorKind::NotFound, "NO_SUCH_STEP");
}
