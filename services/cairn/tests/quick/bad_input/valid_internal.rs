//! Valid requests of the services that only Cairn itself calls.

use cairn_engine::conversation::{Conversation, Layer, LayerKind, Op};
use cairn_engine::message::{Message as Said, ToolCall};
use cairn_proto::event as wire;
use cairn_proto::executor as executor_pb;
use cairn_proto::memory as pb;
use cairn_proto::planner as planner_pb;
use cairn_proto::tools as tools_pb;
use prost::Message;

fn one(message: &impl Message) -> Vec<Vec<u8>> {
    vec![message.encode_to_vec()]
}

/// Valid requests of a method, encoded. Empty if the method is not known here.
pub(crate) fn internal(service: &str, method: &str, n: usize, session: &str) -> Vec<Vec<u8>> {
    match service {
        "JournalService" => journal(method, n, session.to_owned()),
        "OwnershipService" => ownership(method, session.to_owned()),
        "DocumentService" => documents(method, n),
        _ => workers(method, session.to_owned()),
    }
}

/// A session made by the service itself.
pub(crate) fn session(id: &str) -> pb::CreateSessionRequest {
    pb::CreateSessionRequest {
        session: id.to_owned(),
        request_id: format!("create-{id}"),
        request_digest: vec![1; 32].into(),
        events: vec![vec![1].into(), vec![2].into()],
        last_command_seq: 2,
        header: Some(header()),
        owner: "owner".to_owned(),
        lease_ms: 600_000,
        operation_id: format!("operation-{id}"),
        time_to_live_ms: 86_400_000,
    }
}

fn header() -> pb::Header {
    pb::Header {
        status: pb::SessionStatus::Running.into(),
        handled_through: 2,
        title: "A title".to_owned(),
        agent: "agent".to_owned(),
        tokens: 3,
        cost_nano_usd: 4,
        pending: vec![pb::PendingKind {
            kind: 3,
            since_unix_ms: 5,
            count: 1,
        }],
        needs: 1,
        waits_for: vec!["gpu".to_owned()],
    }
}

fn commit(n: usize, session: String, change: pb::memory_write::Change) -> Vec<u8> {
    let request = pb::CommitRequest {
        session,
        owner: "owner".to_owned(),
        epoch: 1,
        operation_id: format!("commit-{n}"),
        seen_seq: 2,
        events: vec![vec![3].into()],
        memory_writes: vec![pb::MemoryWrite {
            change: Some(change),
        }],
        header: Some(header()),
        lease_change: pb::LeaseChange::Renew.into(),
        lease_ms: 600_000,
        checkpoint: Some(pb::Checkpoint {
            through_seq: 2,
            state: vec![4].into(),
        }),
        ..pb::CommitRequest::default()
    };
    request.encode_to_vec()
}

fn listing() -> pb::ListSessionsRequest {
    pb::ListSessionsRequest {
        page_size: 1,
        filter: Some(pb::SessionFilter {
            statuses: vec![pb::SessionStatus::Idle.into()],
            quarantined: true,
            pending: vec![3],
            has_pending: true,
            agent: "agent".to_owned(),
            prefix: "a".to_owned(),
            changed_after_unix_ms: 1,
            changed_before_unix_ms: 2,
        }),
        order: pb::SessionOrder::Changed.into(),
        ascending: true,
        ..pb::ListSessionsRequest::default()
    }
}

fn journal(method: &str, n: usize, session: String) -> Vec<Vec<u8>> {
    match method {
        "CreateSession" => one(&self::session(&format!("new-{n}"))),
        "CopyEvents" => copies(n, &session),
        "DeleteSession" => one(&pb::DeleteSessionRequest {
            session: format!("gone-{n}"),
        }),
        "ListSessions" => one(&listing()),
        "GetTime" => vec![Vec::new()],
        "Commit" => {
            let set = pb::memory_write::Set {
                key: "key".to_owned(),
                value: "value".to_owned(),
                metadata: [("name".to_owned(), "text".to_owned())].into(),
                updated_unix_ms: 1,
                created_unix_ms: 0,
            };
            vec![commit(n, session, pb::memory_write::Change::Set(set))]
        }
        "AppendCommand" => one(&pb::AppendCommandRequest {
            session,
            request_id: format!("command-{n}"),
            request_digest: vec![1; 32].into(),
            event: vec![5].into(),
            repeat_only: false,
            owner: "owner".to_owned(),
            lease_ms: 600_000,
            operation_id: format!("append-{n}"),
            needs: 1,
            level: 1,
        }),
        "ReadEvents" => one(&pb::ReadEventsRequest {
            session,
            after_seq: 1,
            max_events: 1,
        }),
        "FollowEvents" => one(&pb::FollowEventsRequest {
            session,
            after_seq: 1,
            with_deltas: true,
        }),
        "PublishDelta" => one(&pb::PublishDeltaRequest {
            session,
            delta: vec![7].into(),
        }),
        "GetCheckpoint" => one(&pb::GetCheckpointRequest {
            session,
            at_or_before_seq: 2,
        }),
        "PutBlob" => one(&pb::PutBlobRequest {
            session,
            data: vec![6].into(),
            part: true,
        }),
        "GetBlob" => one(&pb::GetBlobRequest {
            session,
            digest: "00".repeat(32),
        }),
        _ => Vec::new(),
    }
}

/// A copy that is begun.
fn copies(n: usize, source: &str) -> Vec<Vec<u8>> {
    let copy = pb::CopyEventsRequest {
        session: format!("copy-{n}"),
        source: source.to_owned(),
        request_id: format!("copy-{n}"),
        request_digest: vec![1; 32].into(),
        at_seq: 2,
        completion: None,
        transcript: None,
    };
    let page = pb::TranscriptPage {
        last_seq: 2,
        time_to_live_ms: 86_400_000,
        events: vec![pb::TranscriptEvent {
            event: vec![1].into(),
            blob: Vec::new().into(),
            ends: true,
        }],
        ..pb::TranscriptPage::default()
    };
    let import = pb::CopyEventsRequest {
        source: String::new(),
        transcript: Some(page),
        ..copy.clone()
    };
    vec![copy.encode_to_vec(), import.encode_to_vec()]
}

fn ownership(method: &str, session: String) -> Vec<Vec<u8>> {
    let owner = "owner".to_owned();
    match method {
        "ClaimSessions" => one(&pb::ClaimSessionsRequest {
            owner: "other".to_owned(),
            max_sessions: 1,
            lease_ms: 1000,
            wait_ms: 1,
            only: None,
            level: 1,
        }),
        "RenewLeases" => one(&pb::RenewLeasesRequest {
            owner,
            sessions: vec![pb::OwnedSession {
                session: Some(pb::SessionRef {
                    namespace: "default".to_owned(),
                    session,
                }),
                epoch: 1,
            }],
            lease_ms: 600_000,
        }),
        "ReleaseSession" => one(&pb::ReleaseSessionRequest {
            session,
            owner,
            epoch: 1,
            delay_ms: 0,
        }),
        // Not the one that the others need.
        "Quarantine" => one(&pb::QuarantineRequest {
            session: "another".to_owned(),
            accepted_losses: Some(0),
        }),
        "ReleaseQuarantine" => one(&pb::ReleaseQuarantineRequest {
            session,
            accept_loss: true,
        }),
        "CountQueued" => one(&pb::CountQueuedRequest { level: 1 }),
        "ListWaiting" => one(&pb::ListWaitingRequest { max_sessions: 1 }),
        "WakeSession" => one(&pb::WakeSessionRequest {
            session: Some(pb::SessionRef {
                namespace: "default".to_owned(),
                session,
            }),
        }),
        _ => Vec::new(),
    }
}

/// No position is known before the answer to a request, so none begins with one.
fn documents(method: &str, n: usize) -> Vec<Vec<u8>> {
    let kind = pb::DocumentKind::Agent.into();
    match method {
        "PutDocument" => one(&pb::PutDocumentRequest {
            kind,
            id: format!("document-{n}"),
            value: vec![1].into(),
            expected_version: Some(0),
            operation_id: format!("put-{n}"),
        }),
        "GetDocument" => one(&pb::GetDocumentRequest {
            kind,
            id: "document-0".to_owned(),
        }),
        "ListDocuments" => one(&pb::ListDocumentsRequest {
            kind,
            after: None,
            page_size: 1,
        }),
        "DeleteDocument" => one(&pb::DeleteDocumentRequest {
            kind,
            id: format!("gone-{n}"),
            expected_version: None,
            operation_id: format!("delete-{n}"),
        }),
        "WatchDocuments" => one(&pb::WatchDocumentsRequest { kind, after: None }),
        _ => Vec::new(),
    }
}

fn workers(method: &str, session: String) -> Vec<Vec<u8>> {
    match method {
        "ListTools" => vec![Vec::new()],
        "InvokeTool" => one(&tools_pb::InvokeToolRequest {
            name: "pure".to_owned(),
            arguments_json: "{}".to_owned(),
            call_key: "key".to_owned(),
            session,
            not_after_unix_ms: 0,
            ..tools_pb::InvokeToolRequest::default()
        }),
        "PreviewTool" => one(&tools_pb::PreviewToolRequest {
            name: "write_file".to_owned(),
            arguments_json: r#"{"path":"cairn-out/a","content":"x"}"#.to_owned(),
            session,
            ..tools_pb::PreviewToolRequest::default()
        }),
        "CancelCall" => one(&tools_pb::CancelCallRequest {
            call_key: "key".to_owned(),
        }),
        "AllowTool" => one(&tools_pb::AllowToolRequest {
            name: "pure".to_owned(),
            digest: String::new(),
        }),
        "ReadWorkspaceFiles" => one(&tools_pb::ReadWorkspaceFilesRequest {
            known_digest: "00".to_owned(),
        }),
        "ConfirmWorkspaceFiles" => one(&tools_pb::ConfirmWorkspaceFilesRequest {
            digest: "00".to_owned(),
        }),
        "ReadSkillFile" => one(&tools_pb::ReadSkillFileRequest {
            skill: "pdf".to_owned(),
            file: "notes.md".to_owned(),
            digest: "00".to_owned(),
        }),
        "MakePlan" => one(&make_plan(session)),
        "RunStep" => vec![attempt(session)],
        "WatchStatus" => one(&executor_pb::WatchStatusRequest {}),
        "NotifyShortage" => one(&executor_pb::NotifyShortageRequest {
            missing: Some(wire::MissingCapability {
                capability: "gpu".to_owned(),
                level: 2,
                available: 0,
                total: 1,
                tools: vec!["pure".to_owned()],
            }),
            kind: wire::ShortageKind::Busy.into(),
        }),
        _ => Vec::new(),
    }
}

/// A request for another plan that uses every field.
fn make_plan(session: String) -> planner_pb::MakePlanRequest {
    planner_pb::MakePlanRequest {
        session,
        run: 1,
        goal: "Look.".to_owned(),
        prompt_layers: vec!["Be brief.".to_owned()],
        model: String::new(),
        tools: vec!["pure".to_owned()],
        earlier: Some(planner_pb::make_plan_request::Earlier {
            plan: Some(super::valid::plan()),
            results: "1: done".to_owned(),
            feedback: "Look twice.".to_owned(),
        }),
        limits_cost: false,
        capabilities: vec!["file_ops".to_owned()],
    }
}

/// The start of an attempt that uses every field.
fn attempt(session: String) -> Vec<u8> {
    let attempt = wire::AttemptRef {
        run: 1,
        step: 1,
        attempt: 1,
    };
    let start = executor_pb::AttemptStart {
        session,
        attempt: Some(attempt),
        conversation: Some(conversation()),
        tool_turns: 1,
        results: vec![executor_pb::CallResult {
            call: Some(wire::CallRef {
                attempt: Some(attempt),
                tool_turn: 0,
                index: 0,
            }),
            output: "nothing".to_owned(),
            ..executor_pb::CallResult::default()
        }],
        catalogue: "none".to_owned(),
        ops: vec![Op::Append(Said::user("Continue.")).into()],
        max_tool_turns: 2,
        ..executor_pb::AttemptStart::default()
    };
    let request = executor_pb::RunStepRequest {
        message: Some(executor_pb::run_step_request::Message::Start(Box::new(
            start,
        ))),
    };
    request.encode_to_vec()
}

/// One reply with one call.
fn conversation() -> wire::Conversation {
    let call = ToolCall {
        id: "call".to_owned(),
        name: "pure".to_owned(),
        arguments: "{}".to_owned(),
    };
    let mut conversation = Conversation {
        system: vec![Layer::new(LayerKind::Prompt, "Be brief.")],
        ..Conversation::beginning_with([Said::user("Look.")])
    };
    conversation.append(Said::assistant("I look.", vec![call]));
    conversation.into()
}
