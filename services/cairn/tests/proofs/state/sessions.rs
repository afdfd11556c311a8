//! The sessions, and the requests of their clients.

use crate::support::{Client, connect, link};
use cairn_engine::message::Message;
use cairn_proto::event::StartRun;
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Requests at the same time.
pub(super) const REQUESTS: usize = 32;
/// Bytes of one value of session memory, or of one message.
const VALUE: usize = 60 * 1024;
/// A start that is not answered by then waits for an owner.
const ANSWER: Duration = Duration::from_secs(5);

/// Makes sessions, and fills their session memory with so many KiB.
pub(crate) async fn fill(address: &str, sessions: usize, kib: usize) {
    let values = values(kib);
    each(address, sessions, move |client, link, number| async move {
        create(client, number).await;
        let mut memory = SessionMemoryServiceClient::new(link);
        for value in 0..values {
            let request = SetMemoryRequest {
                session: name(number),
                key: format!("key-{value}"),
                value: "v".repeat(VALUE),
                metadata: Default::default(),
            };
            memory.set_memory(request).await.expect("a change");
        }
    })
    .await;
}

/// Makes sessions, and fills their contexts with messages of so many KiB.
pub(super) async fn fill_contexts(address: &str, sessions: usize, kib: usize) {
    let values = values(kib);
    each(address, sessions, move |client, link, number| async move {
        create(client, number).await;
        let message = Message::user("v".repeat(VALUE)).into();
        let request = pb::ExtendMessagesRequest {
            session: name(number),
            request_id: "fill".to_owned(),
            messages: vec![message; values],
            ..pb::ExtendMessagesRequest::default()
        };
        let mut contexts = ContextServiceClient::new(link);
        contexts.extend_messages(request).await.expect("a change");
    })
    .await;
}

fn values(kib: usize) -> usize {
    kib * 1024 / VALUE
}

fn name(number: usize) -> String {
    format!("s-{number}")
}

async fn create(mut client: Client, number: usize) {
    let request = pb::CreateSessionRequest {
        session: name(number),
        request_id: format!("make-{number}"),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
}

/// Does something for each session, several at a time, with a client and a link.
pub(crate) async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    address: &str,
    sessions: usize,
    act: impl Fn(Client, Link, usize) -> F,
) -> Vec<T> {
    let (client, link, permits) = (
        connect(address),
        link(address),
        Arc::new(Semaphore::new(REQUESTS)),
    );
    let mut tasks = JoinSet::new();
    for number in 0..sessions {
        let permit = permits.clone().acquire_owned().await.expect("a permit");
        let act = act(client.clone(), link.clone(), number);
        tasks.spawn(async move {
            let done = act.await;
            drop(permit);
            done
        });
    }
    tasks.join_all().await
}

/// How the start of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Accepted,
    Refused,
    Waits,
}

/// Starts the run of a session. A repeat of an accepted start is accepted.
///
/// # Panics
/// If it is refused for another reason, or without a delay.
pub(super) async fn start(mut client: Client, number: usize, run: StartRun) -> Start {
    let request = pb::StartRunRequest {
        session: name(number),
        request_id: format!("start-{number}"),
        run: Some(run),
        ..pb::StartRunRequest::default()
    };
    let Ok(started) = tokio::time::timeout(ANSWER, client.start_run(request)).await else {
        return Start::Waits;
    };
    let Err(status) = started else {
        return Start::Accepted;
    };
    let error = RpcError::from_status(&status);
    if error.kind() == ErrorKind::DeadlineExceeded {
        return Start::Waits;
    }
    assert_eq!(error.reason_name(), RpcError::OVERLOADED, "{error}");
    let limit = error.metadata("limit");
    assert_eq!(limit, Some("session.state_bytes"), "{error}");
    assert!(error.retry_delay().is_some(), "{error}");
    Start::Refused
}

/// Renames a session, and waits for the answer of its owner.
pub(super) async fn rename(mut client: Client, number: usize) {
    let request = pb::RenameSessionRequest {
        session: name(number),
        request_id: "rename".to_owned(),
        title: "It was due".to_owned(),
    };
    client.rename_session(request).await.expect("an answer");
}

/// Whether an idle session has a command that no owner has answered.
pub(super) async fn has_open_command(mut client: Client, number: usize) -> bool {
    let request = pb::GetSessionRequest {
        session: name(number),
    };
    let found = client.get_session(request).await.expect("a session");
    let session = found.into_inner().session.expect("a session");
    session.status() == pb::SessionStatus::Running
}
