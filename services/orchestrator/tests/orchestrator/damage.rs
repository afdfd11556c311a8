//! Journals that this version cannot read.

use crate::support::{Fault, World, chain, model_step, panic_at_error, put_damaged};
use cairn_orchestrator::Config;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

fn check(status: &Status) {
    let error = RpcError::from_status(status);
    assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
    assert_eq!(error.reason_name(), "EVENT_UNREADABLE");
    assert_eq!(error.metadata("session"), Some("damaged"));
    assert_eq!(error.metadata("seq"), Some("1"));
    let message = error.message();
    assert!(
        message.contains("event 1 of session \"damaged\""),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_named_to_clients_and_its_cause_is_logged() {
    let world = World::new().await;
    put_damaged(&world, "damaged", 0).await;
    let (_guard, errors) = panic_at_error("no error says this");
    let session = "damaged".to_owned();
    let request = pb::GetSessionRequest {
        session: session.clone(),
    };
    let read = world.client.clone().get_session(request).await;
    check(&read.expect_err("it cannot be read"));
    let request = pb::WatchSessionRequest {
        session: session.clone(),
        ..pb::WatchSessionRequest::default()
    };
    let watch = world.client.clone().watch_session(request).await;
    let mut watch = watch.expect("a watch").into_inner();
    check(&watch.message().await.expect_err("it cannot be read"));
    let request = pb::ExportSessionRequest { session };
    let export = world.client.clone().export_session(request).await;
    let mut export = export.expect("an export").into_inner();
    check(&export.message().await.expect_err("it cannot be read"));
    let errors = errors.lock().unwrap();
    assert_eq!(errors.lines().count(), 3, "{errors}");
    for line in errors.lines() {
        assert!(line.contains("event 1 of session"), "{line}");
        assert!(line.contains("invalid"), "without its cause: {line}");
    }
}

/// Nobody may be watching when an owner gives up.
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_read_its_session_logs_the_event_and_the_cause() {
    let world = World::new().await;
    let (_guard, errors) = panic_at_error("no error says this");
    put_damaged(&world, "damaged", 1).await;
    let logged = async {
        while !errors.lock().unwrap().contains("session cannot continue") {
            tokio::task::yield_now().await;
        }
    };
    world.until(logged).await;
    let errors = errors.lock().unwrap();
    let mut lines = errors.lines();
    let line = lines.find(|line| line.contains("session cannot continue"));
    let line = line.unwrap_or_default();
    assert!(line.contains("event 1 of session"), "{line}");
    assert!(line.contains("invalid"), "without its cause: {line}");
}

#[tokio::test(start_paused = true)]
async fn damage_that_the_store_reports_reaches_clients_and_a_checkpoint_is_done_without() {
    // What is kept would need no checkpoint.
    let config = Config {
        cache_bytes: 0,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let _attempt = world.attempt().await;
    let get = async || {
        let session = session.clone();
        let request = pb::GetSessionRequest { session };
        world.client.clone().get_session(request).await
    };
    let before = get().await.expect("a session").into_inner();

    world.faults.next("ReadEvents", Fault::Damage, 1);
    let error = RpcError::from_status(&get().await.expect_err("an event is damaged"));
    assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
    assert_eq!(error.reason_name(), "DAMAGED");
    assert_eq!(error.metadata("session"), Some("s"));
    assert_eq!(error.metadata("seq"), Some("7"));

    let (_guard, errors) = panic_at_error("no error says this");
    world.faults.next("GetCheckpoint", Fault::Damage, 1);
    let without = get().await.expect("the journal is whole").into_inner();
    assert_eq!(without, before);
    let errors = errors.lock().unwrap();
    let mut lines = errors.lines();
    let line = lines.find(|line| line.contains("checkpoint not used"));
    let line = line.unwrap_or_default();
    assert!(line.contains(&session) && line.contains('7'), "{errors}");
}
