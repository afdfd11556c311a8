//! `cairn.memory.v1.JournalService`.

use super::{convert, copy, list, observe};
use crate::error::{about, about_cursor};
use crate::port::{
    AppendCommand, BlobUse, Commit, Create, DeltaStream, LeaseRequest, SessionKey, Store,
    StoreError,
};
use cairn_proto::memory::{self as pb, journal_service_server::JournalService};
use cairn_rpc::RpcError;
use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use std::sync::Arc;
use std::time::Instant;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

const DEFAULT_EVENTS: usize = 1000;
/// Most bytes of what is published at once.
const MAX_DELTA: usize = 16 * 1024;

/// Journals over a store.
pub(super) struct Journal {
    store: Arc<dyn Store>,
}

impl Journal {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[tonic::async_trait]
impl JournalService for Journal {
    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let create = create(request)?;
        let key = create.key.clone();
        let created = self.store.create(create).await.map_err(about(&key))?;
        Ok(Response::new(pb::CreateSessionResponse {
            duplicate: created.duplicate,
            epoch: created.lease.map_or(0, |lease| lease.epoch),
            lease_until_unix_ms: created.lease.map_or(0, |lease| lease.until_unix_ms),
            store_time_unix_ms: created.now_unix_ms,
        }))
    }

    async fn copy_events(
        &self,
        request: Request<pb::CopyEventsRequest>,
    ) -> Result<Response<pb::CopyEventsResponse>, Status> {
        copy::events(&self.store, request).await
    }

    async fn delete_session(
        &self,
        request: Request<pb::DeleteSessionRequest>,
    ) -> Result<Response<pb::DeleteSessionResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let deleted = self.store.delete(&key).await.map_err(about(&key))?;
        Ok(Response::new(pb::DeleteSessionResponse { deleted }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        list::sessions(&self.store, request).await
    }

    async fn get_time(
        &self,
        _request: Request<pb::GetTimeRequest>,
    ) -> Result<Response<pb::GetTimeResponse>, Status> {
        let store_time_unix_ms = self.store.now().await.map_err(RpcError::from)?;
        Ok(Response::new(pb::GetTimeResponse { store_time_unix_ms }))
    }

    async fn commit(
        &self,
        request: Request<pb::CommitRequest>,
    ) -> Result<Response<pb::CommitResponse>, Status> {
        let span = observe::commit(&request);
        let commit = commit(request)?;
        let key = commit.key.clone();
        let began = Instant::now();
        let committed = self.store.commit(commit).instrument(span).await;
        observe::committed(&key, &committed, began.elapsed());
        let committed = committed.map_err(about(&key))?;
        Ok(Response::new(pb::CommitResponse {
            duplicate: committed.duplicate,
            first_seq: committed.first_seq,
            owned: committed.owned(),
            others: convert::events(committed.others),
            lease_until_unix_ms: committed.lease_until_unix_ms.unwrap_or(0),
            store_time_unix_ms: committed.now_unix_ms,
            journal_permille: committed.journal_permille,
        }))
    }

    async fn append_command(
        &self,
        request: Request<pb::AppendCommandRequest>,
    ) -> Result<Response<pb::AppendCommandResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let command = command(key.clone(), request.into_inner())?;
        let appended = self
            .store
            .append_command(command)
            .await
            .map_err(about(&key))?;
        Ok(Response::new(pb::AppendCommandResponse {
            duplicate: appended.duplicate,
            seq: appended.seq,
            quarantined: appended.quarantined,
            epoch: appended.taken.map_or(0, |it| it.lease.epoch),
            lease_until_unix_ms: appended.taken.map_or(0, |it| it.lease.until_unix_ms),
            previous_holder_dead: appended.taken.is_some_and(|it| it.previous_holder_dead),
            store_time_unix_ms: appended.now_unix_ms,
        }))
    }

    async fn read_events(
        &self,
        request: Request<pb::ReadEventsRequest>,
    ) -> Result<Response<pb::ReadEventsResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let pb::ReadEventsRequest {
            after_seq,
            max_events,
            ..
        } = request.into_inner();
        let max = match max_events {
            0 => DEFAULT_EVENTS,
            max => usize::try_from(max).unwrap_or(usize::MAX),
        };
        let page = self
            .store
            .read(&key, after_seq, max)
            .await
            .map_err(about(&key))?;
        Ok(Response::new(pb::ReadEventsResponse {
            events: convert::events(page.events),
            last_seq: page.last_seq,
            version: page.version,
            header: Some(convert::header_message(page.header)),
            quarantined: page.quarantined.is_some(),
            quarantine_reason: convert::quarantine_number(page.quarantined),
            accepted_losses: page.accepted_losses,
            journal_permille: page.journal_permille,
        }))
    }

    type FollowEventsStream = BoxStream<'static, Result<pb::FollowEventsResponse, Status>>;

    async fn follow_events(
        &self,
        request: Request<pb::FollowEventsRequest>,
    ) -> Result<Response<Self::FollowEventsStream>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let pb::FollowEventsRequest {
            after_seq,
            with_deltas,
            ..
        } = request.into_inner();
        // Before the events: a part of a reply that is published in between is shown.
        let deltas = match with_deltas {
            true => self.store.deltas(&key).await.map_err(about(&key))?,
            false => stream::pending().boxed(),
        };
        let events = self.store.follow(&key, after_seq).await;
        let events = events.map_err(about_cursor(&key))?;
        let events = events.map(move |batch| match batch {
            Ok(events) => Ok(pb::FollowEventsResponse {
                events: convert::events(events),
                ..pb::FollowEventsResponse::default()
            }),
            Err(error) => Err(about(&key)(error).into()),
        });
        Ok(Response::new(with_parts(events, deltas).boxed()))
    }

    async fn publish_delta(
        &self,
        request: Request<pb::PublishDeltaRequest>,
    ) -> Result<Response<pb::PublishDeltaResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let delta = request.into_inner().delta;
        if delta.is_empty() {
            return Err(RpcError::missing("delta").into());
        }
        let bytes = delta.len();
        if bytes > MAX_DELTA {
            let problem = format!("has {bytes} bytes");
            let error = RpcError::invalid("delta", problem);
            return Err(error.allowed(format!("at most {MAX_DELTA}")).into());
        }
        let published = self.store.publish_delta(&key, delta).await;
        published.map_err(about(&key))?;
        Ok(Response::new(pb::PublishDeltaResponse {}))
    }

    async fn get_checkpoint(
        &self,
        request: Request<pb::GetCheckpointRequest>,
    ) -> Result<Response<pb::GetCheckpointResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let at_or_before = match request.get_ref().at_or_before_seq {
            0 => u64::MAX,
            seq => seq,
        };
        let found = self.store.checkpoint(&key, at_or_before).await;
        let checkpoint = found.map_err(about(&key))?.map(|found| pb::Checkpoint {
            through_seq: found.through_seq,
            state: found.state,
        });
        Ok(Response::new(pb::GetCheckpointResponse { checkpoint }))
    }

    async fn put_blob(
        &self,
        request: Request<pb::PutBlobRequest>,
    ) -> Result<Response<pb::PutBlobResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let pb::PutBlobRequest { data, part, .. } = request.into_inner();
        let what = match part {
            true => BlobUse::Part,
            false => BlobUse::Event,
        };
        let put = self.store.put_blob(&key, data, what).await;
        let digest = put.map_err(about(&key))?;
        Ok(Response::new(pb::PutBlobResponse { digest }))
    }

    async fn get_blob(
        &self,
        request: Request<pb::GetBlobRequest>,
    ) -> Result<Response<pb::GetBlobResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let digest = request.into_inner().digest;
        let hexadecimal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digest.len() != 64 || !digest.bytes().all(hexadecimal) {
            return Err(RpcError::invalid("digest", "is not a digest")
                .allowed("64 characters of 0-9 and a-f")
                .into());
        }
        let data = self
            .store
            .get_blob(&key, &digest)
            .await
            .map_err(|error| match error {
                StoreError::NotFound => RpcError::not_found("blob", &digest),
                error => about(&key)(error),
            })?;
        Ok(Response::new(pb::GetBlobResponse { data }))
    }
}

/// Events with what is published meanwhile, until the events end. Where both are there, the events
/// come first.
fn with_parts(
    events: impl Stream<Item = Result<pb::FollowEventsResponse, Status>> + Send + Unpin,
    deltas: DeltaStream,
) -> impl Stream<Item = Result<pb::FollowEventsResponse, Status>> + Send {
    stream::unfold((events, deltas), |(mut events, mut deltas)| async {
        let message = tokio::select! {
            biased;
            message = events.next() => message?,
            Some(delta) = deltas.next() => Ok(pb::FollowEventsResponse {
                delta,
                ..pb::FollowEventsResponse::default()
            }),
        };
        Some((message, (events, deltas)))
    })
}

fn create(request: Request<pb::CreateSessionRequest>) -> Result<Create, RpcError> {
    let key = convert::session_key(&request, &request.get_ref().session)?;
    let request = request.into_inner();
    let count = u64::try_from(request.events.len()).unwrap_or(u64::MAX);
    if count == 0 {
        return Err(RpcError::missing("events"));
    }
    check_events("events", &request.events)?;
    let header = convert::header(request.header)?;
    let events = "the number of events";
    convert::at_most("last_command_seq", request.last_command_seq, count, events)?;
    convert::at_most(
        "header.handled_through",
        header.handled_through,
        count,
        events,
    )?;
    let (operation_id, lease) = lease(request.operation_id, request.owner, request.lease_ms)?;
    Ok(Create {
        key,
        request: convert::request_id(request.request_id, request.request_digest)?,
        operation_id,
        events: request.events,
        last_command_seq: request.last_command_seq,
        header,
        lease,
        time_to_live_ms: convert::time_to_live(request.time_to_live_ms)?,
    })
}

/// Who takes the lease, if anybody, and the name of that attempt.
fn lease(
    operation_id: String,
    owner: String,
    lease_ms: u32,
) -> Result<(String, Option<LeaseRequest>), RpcError> {
    if owner.is_empty() {
        return Ok((operation_id, None));
    }
    let operation_id = convert::operation_id(operation_id)?;
    let lease = LeaseRequest {
        owner: convert::owner(owner)?,
        lease_ms: convert::lease_ms(lease_ms)?,
    };
    Ok((operation_id, Some(lease)))
}

fn command(key: SessionKey, request: pb::AppendCommandRequest) -> Result<AppendCommand, RpcError> {
    if request.event.is_empty() {
        return Err(RpcError::missing("event"));
    }
    let (operation_id, lease) = lease(request.operation_id, request.owner, request.lease_ms)?;
    Ok(AppendCommand {
        key,
        request: convert::request_id(request.request_id, request.request_digest)?,
        event: request.event,
        repeat_only: request.repeat_only,
        lease,
        operation_id,
        needs: convert::level("needs", request.needs)?,
        level: convert::level("level", request.level)?,
    })
}

fn commit(request: Request<pb::CommitRequest>) -> Result<Commit, RpcError> {
    let key = convert::session_key(&request, &request.get_ref().session)?;
    let request = request.into_inner();
    check_events("events", &request.events)?;
    let header = convert::header(request.header)?;
    let (handled, seen) = (header.handled_through, request.seen_seq);
    convert::at_most("header.handled_through", handled, seen, "seen_seq")?;
    Ok(Commit {
        key,
        owner: convert::owner(request.owner)?,
        epoch: request.epoch,
        version: request.version,
        operation_id: convert::operation_id(request.operation_id)?,
        seen_seq: request.seen_seq,
        events: request.events,
        memory_writes: convert::memory_writes(request.memory_writes)?,
        header,
        lease: convert::lease_change(request.lease_change, request.due_unix_ms)?,
        lease_ms: convert::lease_ms(request.lease_ms)?,
        checkpoint: convert::checkpoint(request.checkpoint, request.seen_seq)?,
        from_reserve: request.from_reserve,
        no_progress: request.no_progress,
    })
}

pub(super) fn check_events(field: &str, events: &[bytes::Bytes]) -> Result<(), RpcError> {
    match events.iter().position(bytes::Bytes::is_empty) {
        Some(index) => Err(RpcError::invalid(format!("{field}[{index}]"), "is empty")),
        None => Ok(()),
    }
}
