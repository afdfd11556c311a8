//! Hooks that clients store.

use crate::support::{HOOK, Kind, World, chain, for_tenant, model_step, reply, with_hook};
use crate::turns::{session, submit, turn};
use cairn_engine::hooks::{Payload, Point};
use cairn_proto::api as pb;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_rpc::{ErrorKind, RpcError};

fn stored(name: &str) -> pb::HookDefinition {
    pb::HookDefinition {
        name: name.to_owned(),
        points: vec![Point::OnRunStart as i32],
        url: "https://hooks.example.org:8443".to_owned(),
        ..pb::HookDefinition::default()
    }
}

fn request(world: &World, hook: pb::HookDefinition) -> pb::PutHookRequest {
    pb::PutHookRequest {
        request_id: world.request_id(),
        hook: Some(hook),
        expected_version: None,
    }
}

async fn put(world: &World, request: pb::PutHookRequest) -> Result<pb::Hook, RpcError> {
    let put = world.hooks.clone().put_hook(request).await?;
    Ok(put.into_inner().hook.expect("a hook"))
}

async fn get(world: &World, name: &str) -> Result<pb::Hook, RpcError> {
    let request = pb::GetHookRequest {
        name: name.to_owned(),
    };
    let got = world.hooks.clone().get_hook(request).await?;
    Ok(got.into_inner().hook.expect("a hook"))
}

async fn delete(world: &World, name: &str) -> Result<(), RpcError> {
    let request = pb::DeleteHookRequest {
        request_id: world.request_id(),
        name: name.to_owned(),
        expected_version: None,
    };
    delete_with(world, request).await
}

async fn delete_with(world: &World, request: pb::DeleteHookRequest) -> Result<(), RpcError> {
    world.hooks.clone().delete_hook(request).await?;
    Ok(())
}

async fn list(world: &World, page_size: u32) -> Vec<pb::Hook> {
    let (mut hooks, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListHooksRequest {
            page_size,
            page_token,
        };
        let page = world.hooks.clone().list_hooks(request).await;
        let page = page.expect("a page").into_inner();
        hooks.extend(page.hooks);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return hooks;
        }
    }
}

fn check(error: &RpcError, kind: ErrorKind, reason: &str) {
    assert_eq!(
        (error.kind(), error.reason_name()),
        (kind, reason),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stored_hook_is_listed_behind_those_of_the_settings() {
    let (config, _questions) = with_hook(&[Point::OnTurnEnd]);
    let world = World::with_config(config).await;
    for name in ["b", "a"] {
        put(&world, request(&world, stored(name)))
            .await
            .expect("stored");
    }
    for page_size in [0, 1, 2] {
        let hooks = list(&world, page_size).await;
        let names = hooks.iter().map(|hook| {
            let definition = hook.definition.as_ref().expect("a definition");
            definition.name.as_str()
        });
        assert_eq!(names.collect::<Vec<_>>(), [HOOK, "a", "b"]);
    }
    let hook = get(&world, "a").await.expect("a hook");
    assert_eq!((hook.source(), hook.version), (pb::HookSource::Stored, 2));
    assert_eq!((hook.digest.len(), hook.problem.as_str()), (64, ""));
    assert!(hook.change_time.is_some());
    let of_settings = get(&world, HOOK).await.expect("a hook");
    assert_eq!(of_settings.source(), pb::HookSource::InProcess);
    assert_eq!(of_settings.version, 0);

    delete(&world, "a").await.expect("deleted");
    let error = get(&world, "a").await.expect_err("it is gone");
    check(&error, ErrorKind::NotFound, "HOOK_NOT_FOUND");
    let error = delete(&world, "a").await.expect_err("it is gone");
    check(&error, ErrorKind::NotFound, "HOOK_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_stored_once_and_versions_are_checked() {
    let (config, _questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    let first = pb::PutHookRequest {
        expected_version: Some(0),
        ..request(&world, stored("a"))
    };
    let hook = put(&world, first.clone()).await.expect("stored");
    assert_eq!(put(&world, first.clone()).await.expect("a retry"), hook);
    let other = pb::PutHookRequest {
        request_id: first.request_id.clone(),
        ..request(&world, stored("b"))
    };
    let error = put(&world, other).await.expect_err("another request");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
    let again = pb::PutHookRequest {
        expected_version: Some(0),
        ..request(&world, stored("a"))
    };
    let error = put(&world, again).await.expect_err("it is there");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    assert_eq!(error.metadata("version"), Some("1"));
}

/// A retry does not delete a hook that was stored since.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_applied_once_and_checks_the_version() {
    let (config, _questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    for _ in 0..2 {
        let stored = put(&world, request(&world, stored("a"))).await;
        stored.expect("stored");
    }
    let deletion = |expected_version| pb::DeleteHookRequest {
        request_id: world.request_id(),
        name: "a".to_owned(),
        expected_version,
    };
    let deleted = |request| delete_with(&world, request);
    let error = deleted(deletion(Some(0))).await.expect_err("no version");
    assert_eq!(error.violations()[0].field, "expected_version");
    let error = deleted(deletion(Some(1))).await.expect_err("another one");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    assert_eq!(error.metadata("version"), Some("2"));
    let right = deletion(Some(2));
    deleted(right.clone()).await.expect("deleted");
    deleted(right.clone()).await.expect("a retry");
    let again = put(&world, request(&world, stored("a"))).await;
    again.expect("stored again");
    deleted(right).await.expect("a retry");
    get(&world, "a").await.expect("it is there");
}

#[tokio::test(start_paused = true)]
async fn only_addresses_of_the_settings_are_stored() {
    let (config, _questions) = with_hook(&[Point::OnTurnEnd]);
    let world = World::with_config(config).await;
    let elsewhere = pb::HookDefinition {
        url: "https://evil.example.com".to_owned(),
        ..stored("a")
    };
    let error = put(&world, request(&world, elsewhere)).await;
    let error = error.expect_err("it is not allowed");
    check(&error, ErrorKind::PermissionDenied, "ADDRESS_NOT_ALLOWED");
    assert_eq!(
        error.metadata("allowed"),
        Some("https://hooks.example.org:*")
    );
    let error = put(&world, request(&world, stored(HOOK))).await;
    let error = error.expect_err("it is one of the settings");
    check(&error, ErrorKind::AlreadyExists, "HOOK_OF_SETTINGS");
    let error = delete(&world, HOOK)
        .await
        .expect_err("it is of the settings");
    check(&error, ErrorKind::FailedPrecondition, "HOOK_OF_SETTINGS");
    let wrong = pb::HookDefinition {
        points: Vec::new(),
        ..stored("a")
    };
    let error = put(&world, request(&world, wrong))
        .await
        .expect_err("no points");
    assert_eq!(error.violations()[0].field, "hook.points");

    let plain = World::new().await;
    let error = put(&plain, request(&plain, stored("a"))).await;
    let error = error.expect_err("no address is allowed");
    check(&error, ErrorKind::PermissionDenied, "ADDRESS_NOT_ALLOWED");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_as_many_hooks_as_a_run_asks() {
    let (config, _questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    for number in 0..32 {
        let hook = stored(&format!("hook-{number}"));
        put(&world, request(&world, hook)).await.expect("stored");
    }
    let error = put(&world, request(&world, stored("one-more"))).await;
    check(
        &error.expect_err("there is no room"),
        ErrorKind::ResourceExhausted,
        "LIMIT",
    );
    let replaced = put(&world, request(&world, stored("hook-7"))).await;
    assert_eq!(replaced.expect("replaced").version, 33);
}

/// A stored hook is asked by the next run, without a restart.
#[tokio::test(start_paused = true)]
async fn the_next_run_asks_a_stored_hook() {
    let (config, mut questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    put(&world, request(&world, stored("a")))
        .await
        .expect("stored");
    let session = world.start(chain(vec![model_step("one")])).await;
    let asked = world.until(questions.recv()).await.expect("a question");
    assert_eq!(asked.asked.hook, "a");
    assert!(matches!(
        asked.asked.question.payload,
        Payload::RunStart { .. }
    ));
    asked.proceed();
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
}

/// While a turn waits for the end of a run, decisions about that run read no documents.
#[tokio::test(start_paused = true)]
async fn a_queued_turn_asks_the_hooks_that_there_are_when_it_begins() {
    let (config, mut questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    let session = session(&world).await;
    let first = submit(&world, turn(&world, &session)).await;
    let mut attempt = world.attempt().await;
    let mut second = turn(&world, &session);
    if let Some(turn) = &mut second.turn {
        turn.when_busy = wire::WhenBusy::Queue.into();
    }
    let second = submit(&world, second).await;
    let is_queued = |kind: &Kind| matches!(kind, Kind::TurnQueued(_));
    world.seen(&session, is_queued).await;

    let lists = || world.faults.calls("ListDocuments");
    let before = lists();
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    attempt.report_result(0, 0, "found");
    assert!(!world.until(attempt.settled()).await);
    assert_eq!(lists(), before);

    put(&world, request(&world, stored("a")))
        .await
        .expect("stored");
    let commits = || world.faults.calls("Commit");
    let before = commits();
    attempt.reply(reply(1, "good day", &[]));
    let asked = world.until(questions.recv()).await.expect("a question");
    assert_eq!(asked.asked.hook, "a");
    assert_eq!(asked.asked.question.gate.attempt.run, 2);
    assert_eq!(commits(), before + 1, "the end and the start are one write");
    drop((first, second));
}

/// Without the hook, the run could do what the hook forbids.
#[tokio::test(start_paused = true)]
async fn a_run_waits_for_a_stored_hook_that_cannot_be_read() {
    let (config, _questions) = with_hook(&[]);
    let world = World::with_config(config).await;
    let put = memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Hook.into(),
        id: "newer".to_owned(),
        value: vec![0xff; 8].into(),
        operation_id: "op-1".to_owned(),
        ..memory_pb::PutDocumentRequest::default()
    };
    let stored = world.documents.clone().put_document(for_tenant(put)).await;
    stored.expect("stored");
    let hook = get(&world, "newer").await.expect("a hook");
    assert!(hook.problem.contains("another version"), "{}", hook.problem);
    let session = world.start(chain(vec![model_step("one")])).await;
    let is_changed = |kind: &Kind| matches!(kind, Kind::HooksChanged(_));
    world.seen(&session, is_changed).await;
    assert!(world.other_attempts().await.is_empty());
}
