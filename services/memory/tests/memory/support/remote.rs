//! The port over the generated clients: what a service on the other side of a link sees.

mod copy;
mod documents;
mod list;
mod memory;

use super::wire::{
    about, commit_request, create_request, header_of, keys, quarantine, reference, refused,
    session, stored,
};
use async_trait::async_trait;
use bytes::Bytes;
use cairn_memory::grpc::MAX_JOURNAL_MESSAGE_BYTES;
use cairn_memory::port::*;
use cairn_proto::memory as pb;
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{Link, Principal};
use futures::StreamExt as _;
use std::sync::Arc;
use tonic::Status;

/// A store behind a link; what no RPC offers is asked of the store itself.
pub(crate) struct RemoteStore {
    journal: JournalServiceClient<Link>,
    ownership: OwnershipServiceClient<Link>,
    memory: SessionMemoryServiceClient<Link>,
    documents: DocumentServiceClient<Link>,
    behind: Arc<dyn Store>,
}

impl RemoteStore {
    pub(crate) fn new(link: Link, behind: Arc<dyn Store>) -> Self {
        Self {
            journal: JournalServiceClient::new(link.clone())
                .max_decoding_message_size(MAX_JOURNAL_MESSAGE_BYTES),
            ownership: OwnershipServiceClient::new(link.clone()),
            memory: SessionMemoryServiceClient::new(link.clone()),
            documents: DocumentServiceClient::new(link),
            behind,
        }
    }
}

#[async_trait]
impl Store for RemoteStore {
    /// The store behind the link is not the client's to close.
    async fn close(&self) {}

    async fn now(&self) -> StoreResult<i64> {
        let answer = self.journal.clone().get_time(pb::GetTimeRequest {}).await;
        Ok(answer.map_err(refused)?.into_inner().store_time_unix_ms)
    }

    async fn create(&self, create: Create) -> StoreResult<Created> {
        let key = create.key.clone();
        let message = create_request(create);
        let mut journal = self.journal.clone();
        let answer = journal.create_session(about(&key, message)).await;
        let answer = answer.map_err(refused)?.into_inner();
        let lease = Lease {
            epoch: answer.epoch,
            until_unix_ms: answer.lease_until_unix_ms,
        };
        Ok(Created {
            duplicate: answer.duplicate,
            lease: Some(lease).filter(|lease| lease.epoch > 0),
            now_unix_ms: answer.store_time_unix_ms,
        })
    }

    async fn copy_events(&self, copy: CopyEvents) -> StoreResult<Copied> {
        copy::copy(self.journal.clone(), copy).await
    }

    async fn transcript(&self, key: &SessionKey, after_seq: u64) -> StoreResult<Transcript> {
        self.behind.transcript(key, after_seq).await
    }

    async fn drop_unfinished(&self, max: usize) -> StoreResult<usize> {
        self.behind.drop_unfinished(max).await
    }

    async fn delete(&self, key: &SessionKey) -> StoreResult<bool> {
        let message = pb::DeleteSessionRequest {
            session: session(key),
        };
        let mut journal = self.journal.clone();
        let answer = journal.delete_session(about(key, message)).await;
        Ok(answer.map_err(refused)?.into_inner().deleted)
    }

    async fn idle(&self, after_ms: Option<u64>, max: usize) -> StoreResult<Vec<IdleSession>> {
        self.behind.idle(after_ms, max).await
    }

    async fn delete_unchanged(
        &self,
        key: &SessionKey,
        last_seq: u64,
        end: End,
    ) -> StoreResult<bool> {
        self.behind.delete_unchanged(key, last_seq, end).await
    }

    async fn list(&self, namespace: &str, query: &ListQuery) -> StoreResult<SessionPage> {
        list::list(self.journal.clone(), namespace, query).await
    }

    async fn commit(&self, commit: Commit) -> StoreResult<Committed> {
        let key = commit.key.clone();
        let answer = self
            .journal
            .clone()
            .commit(about(&key, commit_request(commit)))
            .await;
        let answer = answer.map_err(refused)?.into_inner();
        assert_eq!(answer.owned, answer.lease_until_unix_ms != 0);
        Ok(Committed {
            duplicate: answer.duplicate,
            first_seq: answer.first_seq,
            others: stored(answer.others),
            lease_until_unix_ms: answer.owned.then_some(answer.lease_until_unix_ms),
            now_unix_ms: answer.store_time_unix_ms,
            journal_permille: answer.journal_permille,
        })
    }

    async fn append_command(&self, command: AppendCommand) -> StoreResult<Appended> {
        let message = pb::AppendCommandRequest {
            session: session(&command.key),
            request_id: command.request.id,
            request_digest: command.request.digest,
            event: command.event,
            repeat_only: command.repeat_only,
            owner: (command.lease.as_ref()).map_or_else(String::new, |lease| lease.owner.clone()),
            lease_ms: command.lease.map_or(0, |lease| lease.lease_ms),
            operation_id: command.operation_id,
            needs: command.needs.number().into(),
            level: command.level.number().into(),
        };
        let answer = self
            .journal
            .clone()
            .append_command(about(&command.key, message))
            .await;
        let answer = answer.map_err(refused)?.into_inner();
        Ok(Appended {
            duplicate: answer.duplicate,
            seq: answer.seq,
            quarantined: answer.quarantined,
            taken: (answer.epoch > 0).then_some(Taken {
                lease: Lease {
                    epoch: answer.epoch,
                    until_unix_ms: answer.lease_until_unix_ms,
                },
                previous_holder_dead: answer.previous_holder_dead,
            }),
            now_unix_ms: answer.store_time_unix_ms,
        })
    }

    async fn read(&self, key: &SessionKey, after_seq: u64, max: usize) -> StoreResult<EventPage> {
        let message = pb::ReadEventsRequest {
            session: session(key),
            after_seq,
            max_events: u32::try_from(max).unwrap(),
        };
        let answer = self.journal.clone().read_events(about(key, message)).await;
        let answer = answer.map_err(refused)?.into_inner();
        Ok(EventPage {
            events: stored(answer.events),
            last_seq: answer.last_seq,
            version: answer.version,
            header: header_of(answer.header.unwrap()),
            quarantined: quarantine(answer.quarantined, answer.quarantine_reason),
            accepted_losses: answer.accepted_losses,
            journal_permille: answer.journal_permille,
        })
    }

    async fn follow(&self, key: &SessionKey, after_seq: u64) -> StoreResult<EventStream> {
        let message = pb::FollowEventsRequest {
            session: session(key),
            after_seq,
            with_deltas: false,
        };
        let answer = self
            .journal
            .clone()
            .follow_events(about(key, message))
            .await;
        let messages = answer.map_err(refused)?.into_inner();
        let batch = |message: Result<pb::FollowEventsResponse, Status>| match message {
            Ok(message) => Ok(stored(message.events)),
            Err(status) => Err(refused(status)),
        };
        Ok(messages.map(batch).boxed())
    }

    async fn queued(&self, level: Level) -> StoreResult<u64> {
        let asked = pb::CountQueuedRequest {
            level: level.number().into(),
        };
        let counted = self.ownership.clone().count_queued(asked).await;
        counted.map(|it| it.into_inner().queued).map_err(refused)
    }

    async fn waiting(&self, max: usize) -> StoreResult<Vec<WaitingSession>> {
        let asked = pb::ListWaitingRequest {
            max_sessions: u32::try_from(max).unwrap(),
        };
        let answer = self.ownership.clone().list_waiting(asked).await;
        let sessions = answer.map_err(refused)?.into_inner().sessions;
        let waiting = |session: pb::WaitingSession| WaitingSession {
            key: keys(session.session.into_iter().collect()).remove(0),
            since_unix_ms: session.since_unix_ms,
            waits_for: session.waits_for,
        };
        Ok(sessions.into_iter().map(waiting).collect())
    }

    async fn wake(&self, key: &SessionKey) -> StoreResult<bool> {
        let asked = pb::WakeSessionRequest {
            session: reference(key),
        };
        let answer = self.ownership.clone().wake_session(asked).await;
        answer.map(|it| it.into_inner().woken).map_err(refused)
    }

    async fn publish_delta(&self, key: &SessionKey, delta: Bytes) -> StoreResult<()> {
        let message = pb::PublishDeltaRequest {
            session: session(key),
            delta,
        };
        let mut journal = self.journal.clone();
        let answer = journal.publish_delta(about(key, message)).await;
        answer.map(drop).map_err(refused)
    }

    async fn deltas(&self, key: &SessionKey) -> StoreResult<DeltaStream> {
        // A cursor at the end brings no events.
        let end = self.read(key, u64::MAX, 1).await?.last_seq;
        let message = pb::FollowEventsRequest {
            session: session(key),
            after_seq: end,
            with_deltas: true,
        };
        let mut journal = self.journal.clone();
        let answer = journal.follow_events(about(key, message)).await;
        let messages = answer.map_err(refused)?.into_inner();
        let deltas = messages.filter_map(|message| async { message.ok().map(|m| m.delta) });
        let deltas = deltas.filter(|delta| std::future::ready(!delta.is_empty()));
        Ok(deltas.boxed())
    }

    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>> {
        let message = pb::GetCheckpointRequest {
            session: session(key),
            at_or_before_seq,
        };
        let answer = self
            .journal
            .clone()
            .get_checkpoint(about(key, message))
            .await;
        let found = answer.map_err(refused)?.into_inner().checkpoint;
        Ok(found.map(|found| Checkpoint {
            through_seq: found.through_seq,
            state: found.state,
        }))
    }

    async fn put_blob(&self, key: &SessionKey, data: Bytes, what: BlobUse) -> StoreResult<String> {
        let message = pb::PutBlobRequest {
            session: session(key),
            data,
            part: what == BlobUse::Part,
        };
        let answer = self.journal.clone().put_blob(about(key, message)).await;
        Ok(answer.map_err(refused)?.into_inner().digest)
    }

    async fn get_blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Bytes> {
        let message = pb::GetBlobRequest {
            session: session(key),
            digest: digest.to_owned(),
        };
        let answer = self.journal.clone().get_blob(about(key, message)).await;
        Ok(answer.map_err(refused)?.into_inner().data)
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims> {
        let message = pb::ClaimSessionsRequest {
            owner: request.owner,
            max_sessions: u32::try_from(request.max_sessions).unwrap(),
            lease_ms: request.lease_ms,
            wait_ms: u32::try_from(request.wait.as_millis()).unwrap(),
            only: request.only.as_ref().and_then(reference),
            level: request.level.number().into(),
        };
        let answer = self.ownership.clone().claim_sessions(message).await;
        let answer = answer.map_err(refused)?.into_inner();
        let claim = |claim: pb::Claim| Claim {
            key: keys(claim.session.into_iter().collect()).remove(0),
            lease: Lease {
                epoch: claim.epoch,
                until_unix_ms: claim.lease_until_unix_ms,
            },
            previous_holder_dead: claim.previous_holder_dead,
        };
        Ok(Claims {
            claims: answer.claims.into_iter().map(claim).collect(),
            woken: keys(answer.woken),
            now_unix_ms: answer.store_time_unix_ms,
        })
    }

    async fn renew(&self, request: RenewRequest) -> StoreResult<Renewed> {
        let owned = |owned: &OwnedSession| pb::OwnedSession {
            session: reference(&owned.key),
            epoch: owned.epoch,
        };
        let message = pb::RenewLeasesRequest {
            owner: request.owner,
            sessions: request.sessions.iter().map(owned).collect(),
            lease_ms: request.lease_ms,
        };
        let answer = self.ownership.clone().renew_leases(message).await;
        let answer = answer.map_err(refused)?.into_inner();
        Ok(Renewed {
            lost: keys(answer.lost),
            woken: keys(answer.woken),
            unanswered: keys(answer.unanswered),
            lease_until_unix_ms: answer.lease_until_unix_ms,
            now_unix_ms: answer.store_time_unix_ms,
        })
    }

    async fn release(&self, request: ReleaseRequest) -> StoreResult<()> {
        let message = pb::ReleaseSessionRequest {
            session: session(&request.key),
            owner: request.owner,
            epoch: request.epoch,
            delay_ms: request.delay_ms,
        };
        let answer = self
            .ownership
            .clone()
            .release_session(about(&request.key, message))
            .await;
        answer.map(drop).map_err(refused)
    }

    async fn quarantine(
        &self,
        key: &SessionKey,
        accepted_losses: Option<u64>,
    ) -> StoreResult<bool> {
        let message = pb::QuarantineRequest {
            session: session(key),
            accepted_losses,
        };
        let answer = self.ownership.clone().quarantine(about(key, message)).await;
        let is_aside = answer.map(|answer| !answer.into_inner().is_accepted);
        is_aside.map_err(refused)
    }

    async fn release_quarantine(&self, key: &SessionKey, accept_loss: bool) -> StoreResult<()> {
        let message = pb::ReleaseQuarantineRequest {
            session: session(key),
            accept_loss,
        };
        let mut ownership = self.ownership.clone();
        let answer = ownership.release_quarantine(about(key, message)).await;
        answer.map(drop).map_err(refused)
    }

    async fn write_memory(
        &self,
        key: &SessionKey,
        change: MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64> {
        let written = memory::write(self.memory.clone(), key, change, by).await;
        written.map_err(refused)
    }

    async fn get_memory(&self, key: &SessionKey, name: &str) -> StoreResult<Option<MemoryEntry>> {
        memory::get(self.memory.clone(), key, name).await
    }

    async fn list_memory(&self, key: &SessionKey) -> StoreResult<MemoryList> {
        memory::list(self.memory.clone(), key).await
    }
}
