//! Journals that this version cannot read.

use crate::support::{World, panic_at_error, put_damaged};
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
