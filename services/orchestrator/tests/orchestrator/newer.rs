//! Sessions with events that only a newer version can read.

use crate::support::{World, for_tenant, put_newer};
use bytes::Bytes;
use cairn_engine::command::SessionRenamed;
use cairn_engine::event::{Event, SessionCreated};
use cairn_proto::convert::encode_event;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use prost::Message as _;
use tokio::task::JoinHandle;
use tonic::{Response, Status};

const SESSION: &str = "newer";
const LEASE_MS: u32 = 600_000;

/// Asks for views of the session, and keeps each answer.
macro_rules! views {
    ($world:ident.$client:ident: $($method:ident $request:ident)*) => {
        [$({
            let request = pb::$request {
                session: SESSION.to_owned(),
                ..pb::$request::default()
            };
            let answer = $world.$client.clone().$method(request).await;
            (stringify!($method), answer.map(drop))
        }),*]
    };
}

/// A view that left such an event out would show a state that never was.
#[tokio::test(start_paused = true)]
#[allow(
    clippy::needless_update,
    reason = "some requests name the session and nothing else"
)]
async fn each_view_is_refused() {
    let world = World::new().await;
    put_newer(&world, SESSION, 0).await;
    let of_session = views!(world.client:
        get_session GetSessionRequest
        list_runs ListRunsRequest
        get_run GetRunRequest
        get_plan GetPlanRequest
        get_tree GetTreeRequest
        get_report GetReportRequest
        get_execution_log GetExecutionLogRequest
        get_state GetStateRequest
        list_pending ListPendingRequest
    );
    let of_contexts = views!(world.contexts:
        list_contexts ListContextsRequest
        list_messages ListMessagesRequest
        count_messages CountMessagesRequest
        estimate_tokens EstimateTokensRequest
    );
    for (method, answer) in of_session.into_iter().chain(of_contexts) {
        let error = RpcError::from_status(&answer.expect_err(method));
        assert_eq!(error.reason_name(), "NEWER_VERSION", "{method}: {error}");
    }
}

/// An owner of a newer version.
struct Newer<'w> {
    world: &'w World,
    epoch: u64,
    version: u64,
}

impl<'w> Newer<'w> {
    /// Owns the session that it makes.
    async fn new(world: &'w World) -> Self {
        let created = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: SessionCreated {
                title: String::new(),
                time_to_live_ms: 0,
            }
            .into(),
        };
        let request = memory_pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "make".to_owned(),
            request_digest: vec![1; 32].into(),
            events: vec![encode_event(&created, 1).into()],
            header: Some(memory_pb::Header::default()),
            owner: "o-2".to_owned(),
            lease_ms: LEASE_MS,
            operation_id: "make".to_owned(),
            ..memory_pb::CreateSessionRequest::default()
        };
        let mut journal = world.journal.0.clone();
        let made = journal.create_session(for_tenant(request)).await;
        let epoch = made.expect("a session").into_inner().epoch;
        Self {
            world,
            epoch,
            version: 0,
        }
    }

    async fn last_seq(&self) -> u64 {
        self.world.journal.read(SESSION, 0).await.last_seq
    }

    /// A client of the older version renames the session. Gives the seq of its command.
    async fn asked(&self) -> (u64, Renaming) {
        let before = self.last_seq().await;
        let rename = pb::RenameSessionRequest {
            session: SESSION.to_owned(),
            title: "a title".to_owned(),
            request_id: self.world.request_id(),
        };
        let mut client = self.world.client.clone();
        let renaming = tokio::spawn(async move { client.rename_session(rename).await });
        let received = async {
            loop {
                let last = self.last_seq().await;
                if last > before {
                    return last;
                }
            }
        };
        (self.world.until(received).await, renaming)
    }

    async fn commit(&mut self, seen_seq: u64, events: Vec<Bytes>) {
        let header = memory_pb::Header {
            status: memory_pb::SessionStatus::Running.into(),
            handled_through: seen_seq,
            ..memory_pb::Header::default()
        };
        let request = memory_pb::CommitRequest {
            session: SESSION.to_owned(),
            owner: "o-2".to_owned(),
            epoch: self.epoch,
            version: self.version,
            operation_id: format!("commit-{}", self.version),
            seen_seq,
            events,
            header: Some(header),
            lease_change: memory_pb::LeaseChange::Renew.into(),
            lease_ms: LEASE_MS,
            ..memory_pb::CommitRequest::default()
        };
        self.world.journal.commit(request).await;
        self.version += 1;
    }
}

type Renaming = JoinHandle<Result<Response<pb::RenameSessionResponse>, Status>>;

/// An event of a kind that this version does not know: an empty message in the field 900.
fn unknown(answers: u64) -> Bytes {
    let event = wire::Event {
        at_unix_ms: 1,
        answers,
        ..wire::Event::default()
    };
    let mut bytes = event.encode_to_vec();
    bytes.extend([0xa2, 0x38, 0x00]);
    bytes.into()
}

/// A client of an older version is not left waiting for an answer that its server cannot read. Other
/// events of the newer version are not in the way of an answer.
#[tokio::test(start_paused = true)]
async fn an_answer_is_given_or_refused_as_one_of_a_newer_version() {
    let world = World::new().await;
    let mut newer = Newer::new(&world).await;
    let (command, renaming) = newer.asked().await;
    let renamed = Event {
        at: 1,
        answers: command,
        principal: None,
        kind: SessionRenamed {
            title: "a title".to_owned(),
        }
        .into(),
    };
    let events = vec![unknown(0), encode_event(&renamed, 1).into()];
    newer.commit(command, events).await;
    let answer = world.until(renaming).await.expect("no panic");
    assert_eq!(answer.expect("an answer").into_inner().title, "a title");

    let (command, renaming) = newer.asked().await;
    newer.commit(command, vec![unknown(command)]).await;
    let answer = world.until(renaming).await.expect("no panic");
    let error = RpcError::from_status(&answer.expect_err("it cannot be read"));
    assert_eq!(error.reason_name(), "NEWER_VERSION", "{error}");
    let message = error.message();
    assert!(message.contains("this request is stored"), "{message}");
}
