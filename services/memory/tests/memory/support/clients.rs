//! The services behind a local link, with their clients and sound requests.

use cairn_memory::{Config, Deps, Memory, StoreConfig, build};
use cairn_proto::memory as pb;
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{Exposure, Link, Principal, RpcError, Server, ServerBuilder, with_principal};
use tonic::{Code, Request, Status};

/// A fresh store in memory, and what reaches it.
pub(crate) struct Clients {
    pub(crate) journal: JournalServiceClient<Link>,
    pub(crate) ownership: OwnershipServiceClient<Link>,
    pub(crate) memory: SessionMemoryServiceClient<Link>,
    pub(crate) documents: DocumentServiceClient<Link>,
    pub(crate) server: Server,
    pub(crate) service: Memory,
}

pub(crate) async fn clients() -> Clients {
    let config = Config {
        store: StoreConfig::Memory,
        ..Config::default()
    };
    let service = build(config, Deps::default()).unwrap();
    let builder = service.register_internal(ServerBuilder::new(Exposure::Internal));
    let server = builder.build().await.unwrap();
    Clients {
        journal: JournalServiceClient::new(server.link()),
        ownership: OwnershipServiceClient::new(server.link()),
        memory: SessionMemoryServiceClient::new(server.link()),
        documents: DocumentServiceClient::new(server.link()),
        server,
        service,
    }
}

pub(crate) fn from<T>(namespace: &str, message: T) -> Request<T> {
    let principal = Principal::service("test", namespace.parse().unwrap());
    with_principal(Request::new(message), &principal)
}

pub(crate) fn creation() -> pb::CreateSessionRequest {
    pb::CreateSessionRequest {
        session: "s-1".to_owned(),
        request_id: "request".to_owned(),
        request_digest: "digest".into(),
        events: vec!["created".into()],
        owner: "one".to_owned(),
        lease_ms: 10_000,
        operation_id: "create".to_owned(),
        ..Default::default()
    }
}

pub(crate) fn transition() -> pb::CommitRequest {
    pb::CommitRequest {
        session: "s-1".to_owned(),
        owner: "one".to_owned(),
        epoch: 1,
        operation_id: "operation".to_owned(),
        seen_seq: 1,
        events: vec!["event".into()],
        lease_ms: 10_000,
        ..Default::default()
    }
}

/// The one field that a refusal names.
pub(crate) fn field(status: Status) -> String {
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let error = RpcError::from(status);
    let [violation] = error.violations() else {
        panic!("{error}");
    };
    violation.field.clone()
}
