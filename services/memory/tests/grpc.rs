//! The services over a local link: what is wrong with a request is named by field, identities
//! keep namespaces apart, and what the contracts say of answers holds.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use cairn_memory::{Config, Deps, Memory, StoreConfig, build};
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{
    DefaultNamespace, Exposure, Link, Namespace, RpcError, Server, ServerBuilder, with_namespace,
};
use std::sync::Arc;
use tonic::{Code, Request, Status};

struct Clients {
    journal: JournalServiceClient<Link>,
    ownership: OwnershipServiceClient<Link>,
    memory: SessionMemoryServiceClient<Link>,
    server: Server,
    service: Memory,
}

async fn clients() -> Clients {
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
        server,
        service,
    }
}

fn from<T>(namespace: &str, message: T) -> Request<T> {
    let namespace: Namespace = namespace.parse().unwrap();
    with_namespace(Request::new(message), &namespace)
}

fn creation() -> pb::CreateSessionRequest {
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

fn transition() -> pb::CommitRequest {
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
fn field(status: Status) -> String {
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let error = RpcError::from(status);
    let [violation] = error.violations() else {
        panic!("{error}");
    };
    violation.field.clone()
}

#[tokio::test]
async fn a_wrong_creation_is_refused_by_field() {
    let clients = clients().await;
    type Fault = fn(&mut pb::CreateSessionRequest);
    let faults: [(&str, Fault); 13] = [
        ("session", |r| r.session = String::new()),
        ("session", |r| r.session = "a/b".to_owned()),
        ("request_id", |r| r.request_id = " ".to_owned()),
        ("request_digest", |r| r.request_digest = vec![0; 65].into()),
        ("request_digest", |r| r.request_digest = Default::default()),
        ("events", |r| r.events.clear()),
        ("events[0]", |r| r.events = vec![Default::default()]),
        ("last_command_seq", |r| r.last_command_seq = 2),
        ("header.status", |r| r.header = Some(pb::Header { status: 9, handled_through: 0 })),
        ("header.handled_through", |r| r.header = Some(pb::Header { status: 1, handled_through: 2 })),
        ("owner", |r| r.owner = "x".repeat(129)),
        ("lease_ms", |r| r.lease_ms = 99),
        ("operation_id", |r| r.operation_id = String::new()),
    ];
    for (want, fault) in faults {
        let mut request = creation();
        fault(&mut request);
        let refused = clients.journal.clone().create_session(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    clients.journal.clone().create_session(from("a", creation())).await.unwrap();
}

#[tokio::test]
async fn a_wrong_transition_is_refused_by_field() {
    let clients = clients().await;
    clients.journal.clone().create_session(from("a", creation())).await.unwrap();
    type Fault = fn(&mut pb::CommitRequest);
    let set = |key: String| pb::MemoryWrite {
        change: Some(pb::memory_write::Change::Set(pb::memory_write::Set {
            key,
            value: String::new(),
        })),
    };
    let faults: [(&str, Fault); 12] = [
        ("session", |r| r.session = "ä".to_owned()),
        ("owner", |r| r.owner = String::new()),
        ("operation_id", |r| r.operation_id = String::new()),
        ("operation_id", |r| r.operation_id = "x".repeat(65)),
        ("events[1]", |r| r.events.push(Default::default())),
        ("memory_writes[0].change", |r| r.memory_writes = vec![pb::MemoryWrite::default()]),
        ("header.handled_through", |r| r.header = Some(pb::Header { status: 0, handled_through: 2 })),
        ("lease_change", |r| r.lease_change = 7),
        ("lease_ms", |r| r.lease_ms = 600_001),
        ("due_unix_ms", |r| (r.lease_change, r.due_unix_ms) = (2, -1)),
        ("checkpoint.through_seq", |r| r.checkpoint = Some(pb::Checkpoint::default())),
        ("checkpoint.through_seq", |r| {
            r.checkpoint = Some(pb::Checkpoint { through_seq: 2, state: "x".into() });
        }),
    ];
    for (want, fault) in faults {
        let mut request = transition();
        fault(&mut request);
        let refused = clients.journal.clone().commit(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    for key in [String::new(), "a\nb".to_owned(), "x".repeat(129)] {
        let mut request = transition();
        request.memory_writes = vec![set(key)];
        let refused = clients.journal.clone().commit(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), "memory_writes[0].set.key");
    }
    clients.journal.clone().commit(from("a", transition())).await.unwrap();
}

#[tokio::test]
async fn other_wrong_requests_are_refused_by_field() {
    let Clients { mut journal, mut ownership, mut memory, .. } = clients().await;
    let list = pb::ListSessionsRequest { page_size: 1001, ..Default::default() };
    assert_eq!(field(journal.list_sessions(from("a", list)).await.unwrap_err()), "page_size");
    let list = pb::ListSessionsRequest { page_token: "x".to_owned(), ..Default::default() };
    assert_eq!(field(journal.list_sessions(from("a", list)).await.unwrap_err()), "page_token");
    let append = pb::AppendCommandRequest { session: "s".to_owned(), ..Default::default() };
    assert_eq!(field(journal.append_command(from("a", append)).await.unwrap_err()), "event");
    let blob = pb::GetBlobRequest { session: "s".to_owned(), digest: "A".repeat(64) };
    assert_eq!(field(journal.get_blob(from("a", blob)).await.unwrap_err()), "digest");
    let set = pb::SetMemoryRequest { session: "s".to_owned(), ..Default::default() };
    assert_eq!(field(memory.set_memory(from("a", set)).await.unwrap_err()), "key");

    let claim = |max_sessions, lease_ms, wait_ms| pb::ClaimSessionsRequest {
        owner: "one".to_owned(),
        max_sessions,
        lease_ms,
        wait_ms,
    };
    for (request, want) in [
        (claim(0, 1000, 0), "max_sessions"),
        (claim(1, 0, 0), "lease_ms"),
        (claim(1, 1000, 30_001), "wait_ms"),
    ] {
        assert_eq!(field(ownership.claim_sessions(request).await.unwrap_err()), want);
    }
    let renew = |session| pb::RenewLeasesRequest {
        owner: "one".to_owned(),
        sessions: vec![pb::OwnedSession { session, epoch: 1 }],
        lease_ms: 1000,
    };
    let refused = ownership.renew_leases(renew(None)).await.unwrap_err();
    assert_eq!(field(refused), "sessions[0].session");
    let foreign = pb::SessionRef { namespace: "A b".to_owned(), session: "s".to_owned() };
    let refused = ownership.renew_leases(renew(Some(foreign))).await.unwrap_err();
    assert_eq!(field(refused), "sessions[0].session.namespace");
}

#[tokio::test]
async fn a_call_without_a_namespace_is_refused() {
    let Clients { mut journal, mut memory, .. } = clients().await;
    let refused = journal.create_session(creation()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let get = pb::GetMemoryRequest { session: "s-1".to_owned(), key: "k".to_owned() };
    let refused = memory.get_memory(get).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    journal.get_time(pb::GetTimeRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_session_of_another_namespace_is_not_found() {
    let Clients { mut journal, mut memory, .. } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    let read = pb::ReadEventsRequest { session: "s-1".to_owned(), ..Default::default() };
    let refused = journal.read_events(from("b", read)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "session \"s-1\" does not exist");
    let refused = journal.commit(from("b", transition())).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let list = pb::ListMemoryRequest { session: "s-1".to_owned() };
    let refused = memory.list_memory(from("b", list)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn clients_from_outside_reach_session_memory_alone() {
    let Clients { mut journal, service, .. } = clients().await;
    journal.create_session(from("default", creation())).await.unwrap();
    let exposure = Exposure::Public(Arc::new(DefaultNamespace));
    let public = service.register_public(ServerBuilder::new(exposure)).build().await.unwrap();
    let mut memory = SessionMemoryServiceClient::new(public.link());
    let set = |session: &str| pb::SetMemoryRequest {
        session: session.to_owned(),
        key: "note".to_owned(),
        value: "a < b\nand more".to_owned(),
    };
    assert_eq!(memory.set_memory(set("s-1")).await.unwrap().into_inner().seq, 2);
    // A namespace that a client names is thrown away.
    memory.set_memory(from("elsewhere", set("s-1"))).await.unwrap();
    let snapshot = pb::SnapshotMemoryRequest { session: "s-1".to_owned() };
    let text = memory.snapshot_memory(snapshot).await.unwrap().into_inner().text;
    assert_eq!(text, "<session-context>\nnote: a &lt; b\\nand more\n</session-context>");
    let mut journal = JournalServiceClient::new(public.link());
    let refused = journal.get_time(pb::GetTimeRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_snapshot_that_fits_no_message_is_refused() {
    let Clients { mut journal, mut memory, .. } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    for number in 0..30 {
        let set = pb::SetMemoryRequest {
            session: "s-1".to_owned(),
            key: format!("k{number}"),
            value: "&".repeat(60_000),
        };
        memory.set_memory(from("a", set)).await.unwrap();
    }
    let snapshot = pb::SnapshotMemoryRequest { session: "s-1".to_owned() };
    let refused = memory.snapshot_memory(from("a", snapshot)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let list = pb::ListMemoryRequest { session: "s-1".to_owned() };
    let entries = memory.list_memory(from("a", list)).await.unwrap().into_inner().entries;
    assert_eq!(entries.len(), 30);
}

#[tokio::test]
async fn the_largest_checkpoint_and_blob_fit() {
    let Clients { mut journal, server, .. } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    let mut large = transition();
    large.checkpoint = Some(pb::Checkpoint {
        through_seq: 1,
        state: vec![1; 64 << 20].into(),
    });
    journal.commit(from("a", large)).await.unwrap();
    let mut reader = JournalServiceClient::new(server.link())
        .max_decoding_message_size(cairn_memory::grpc::MAX_JOURNAL_MESSAGE_BYTES);
    let get = pb::GetCheckpointRequest { session: "s-1".to_owned(), at_or_before_seq: 0 };
    let found = reader.get_checkpoint(from("a", get)).await.unwrap().into_inner();
    assert_eq!(found.checkpoint.unwrap().state.len(), 64 << 20);
    let blob = pb::PutBlobRequest { session: "s-1".to_owned(), data: vec![2; 3 << 20].into() };
    let digest = journal.put_blob(from("a", blob)).await.unwrap().into_inner().digest;
    let get = pb::GetBlobRequest { session: "s-1".to_owned(), digest };
    let data = journal.get_blob(from("a", get)).await.unwrap().into_inner().data;
    assert_eq!(data.len(), 3 << 20);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let mut config = Config {
        store: StoreConfig::Memory,
        ..Config::default()
    };
    config.limits.journal_events = u64::from(u32::MAX);
    let error = build(config.clone(), Deps::default()).unwrap_err();
    assert!(error.to_string().starts_with("limits.journal_events is 4294967295"), "{error}");
    config.limits.journal_events = 10;
    config.limits.unseen_bytes = 64 << 20;
    let error = build(config, Deps::default()).unwrap_err();
    assert!(error.to_string().starts_with("limits.unseen_bytes"), "{error}");
}
