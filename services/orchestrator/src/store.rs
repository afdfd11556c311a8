//! The memory service as the orchestrator uses it: journals in the words of the engine.

mod acknowledged;
mod cache;
mod checkpoints;
mod clock;
mod events;
mod header;
mod load;
mod quarantine;

pub(crate) use acknowledged::{Acknowledged, LastAcknowledged};
pub(crate) use checkpoints::Checkpointer;
pub(crate) use clock::StoreClock;
pub(crate) use events::{Encoded, LARGEST_INLINE_EVENT, Newer};
pub(crate) use header::{agent_of, header, status_of};
pub(crate) use load::Loaded;
pub(crate) use quarantine::Quarantine;

use crate::config::Config;
use crate::key::SessionKey;
use crate::state_bytes::OwnedBytes;
use cache::Cache;
use cairn_engine::event::Event;
use cairn_proto::event::TextDelta;
use cairn_proto::memory as pb;
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_rpc::{ErrorKind, Link, Namespace, Principal, RpcError, with_principal};
use load::Turns;
use prost::Message as _;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Streaming};

/// Reason: what is stored can only be read by a newer version of this program.
pub(crate) const NEWER_VERSION: &str = "NEWER_VERSION";

/// Reason: an event of a journal cannot be read, by this version or any other.
pub(crate) const EVENT_UNREADABLE: &str = "EVENT_UNREADABLE";

/// Reason: the store does not have the bytes that were written of an event, a checkpoint or a blob.
pub(crate) const DAMAGED: &str = "DAMAGED";

/// Checkpoints and pages of events travel in one message between services.
const MAX_INTERNAL_MESSAGE: usize = 80 * 1024 * 1024;

/// What is not published by then is not worth it any more.
const PUBLISHING_TIME: Duration = Duration::from_millis(250);

/// The client of the memory service. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    journal: JournalServiceClient<Link>,
    /// The same, for following.
    journals: JournalServiceClient<Link>,
    ownership: OwnershipServiceClient<Link>,
    documents: DocumentServiceClient<Link>,
    pub(crate) clock: Arc<StoreClock>,
    cache: Arc<Cache>,
    turns: Arc<Turns>,
    /// How much this process can read.
    pub(crate) level: u32,
    /// What all that it writes needs at least.
    least_needs: u32,
}

impl Store {
    /// Connects, and reads the store's clock for the first time. Folds are kept beside the states of
    /// owned sessions.
    pub(crate) async fn connect(
        memory: &Link,
        journals: &Link,
        config: &Config,
        owned: Arc<OwnedBytes>,
    ) -> Result<Self, RpcError> {
        let client = |link: &Link| {
            JournalServiceClient::new(link.clone()).max_decoding_message_size(MAX_INTERNAL_MESSAGE)
        };
        let (mut journal, journals) = (client(memory), client(journals));
        let time = journal.get_time(pb::GetTimeRequest {}).await?.into_inner();
        Ok(Self {
            journal,
            journals,
            ownership: OwnershipServiceClient::new(memory.clone()),
            documents: DocumentServiceClient::new(memory.clone()),
            clock: Arc::new(StoreClock::new(time.store_time_unix_ms)),
            cache: Arc::new(Cache::new(config, owned)),
            turns: Arc::default(),
            level: config.level(),
            least_needs: config.least_needs(),
        })
    }

    pub(crate) fn journal(&self) -> JournalServiceClient<Link> {
        self.journal.clone()
    }

    pub(crate) fn ownership(&self) -> OwnershipServiceClient<Link> {
        self.ownership.clone()
    }

    pub(crate) fn documents(&self) -> DocumentServiceClient<Link> {
        self.documents.clone()
    }

    /// The number of the last event.
    pub(crate) async fn last_seq(&self, key: &SessionKey) -> Result<u64, RpcError> {
        // After this no journal has an event, so the page is empty.
        Ok(self.read(key, u64::MAX - 1).await?.last_seq)
    }

    /// A page of events after a cursor.
    pub(crate) async fn read(
        &self,
        key: &SessionKey,
        after_seq: u64,
    ) -> Result<pb::ReadEventsResponse, RpcError> {
        self.read_some(key, after_seq, 0).await
    }

    /// The same, with no more events than that; 0 for as many as the store gives.
    pub(crate) async fn read_some(
        &self,
        key: &SessionKey,
        after_seq: u64,
        max_events: u32,
    ) -> Result<pb::ReadEventsResponse, RpcError> {
        let request = pb::ReadEventsRequest {
            session: key.id.to_string(),
            after_seq,
            max_events,
        };
        Ok(self
            .journal()
            .read_events(for_session(key, request))
            .await?
            .into_inner())
    }

    /// All events of a session, in order, decoded.
    pub(crate) async fn events(&self, key: &SessionKey) -> Result<Vec<(u64, Event)>, RpcError> {
        let mut events = Vec::new();
        let mut after = 0;
        loop {
            let page = self.read(key, after).await?;
            let Some(last) = page.events.last() else {
                return Ok(events);
            };
            after = last.seq;
            let is_last = after >= page.last_seq;
            for stored in &page.events {
                events.push((stored.seq, self.event(key, stored).await?));
            }
            if is_last {
                return Ok(events);
            }
        }
    }

    /// Why the session is quarantined, if it is.
    pub(crate) async fn quarantine(
        &self,
        key: &SessionKey,
    ) -> Result<Option<Quarantine>, RpcError> {
        // After the last of all events there are none to be read.
        let page = self.read(key, u64::MAX).await?;
        Ok(Quarantine::read(page.quarantined, page.quarantine_reason()))
    }

    /// Why no process like this one works on the session, if that is so. `so` completes the text for a
    /// quarantined session: what becomes of the client's request or stream.
    pub(crate) async fn held_up(
        &self,
        key: &SessionKey,
        so: &str,
    ) -> Result<Option<RpcError>, RpcError> {
        let page = self.read(key, u64::MAX).await?;
        if let Err(error) = self.check_level(key, &page) {
            return Ok(Some(error));
        }
        let quarantine = Quarantine::read(page.quarantined, page.quarantine_reason());
        Ok(quarantine.map(|quarantine| quarantine.error(key, so)))
    }

    /// Whether a session can be read here, by its header: a fold that begins at a checkpoint does not meet
    /// the events before it.
    fn check_level(&self, key: &SessionKey, page: &pb::ReadEventsResponse) -> Result<(), RpcError> {
        match page.header.as_ref().map_or(0, |header| header.needs) {
            needs if needs > self.level => Err(newer_session(key, needs, self.level)),
            _ => Ok(()),
        }
    }

    /// Shows a part of a reply to those who watch. One that does not get there is lost: the reply
    /// itself will tell.
    pub(crate) async fn publish(&self, key: &SessionKey, delta: TextDelta) {
        let request = pb::PublishDeltaRequest {
            session: key.id.to_string(),
            delta: delta.encode_to_vec().into(),
        };
        let request = within(PUBLISHING_TIME, for_session(key, request));
        if let Err(status) = self.journal().publish_delta(request).await {
            let error = RpcError::from_status(&status);
            tracing::debug!(session = %key, %error, "a part of a reply was not published");
        }
    }

    /// Events after a cursor, and then those that come.
    pub(crate) async fn follow(
        &self,
        key: &SessionKey,
        after_seq: u64,
        with_deltas: bool,
    ) -> Result<Streaming<pb::FollowEventsResponse>, RpcError> {
        let request = pb::FollowEventsRequest {
            session: key.id.to_string(),
            after_seq,
            with_deltas,
        };
        let mut journals = self.journals.clone();
        let followed = journals.follow_events(for_session(key, request)).await?;
        Ok(followed.into_inner())
    }
}

/// How far the store has come with a session, as a page of its journal tells.
pub(crate) fn acknowledged(page: &pb::ReadEventsResponse) -> Acknowledged {
    Acknowledged {
        accepted_losses: page.accepted_losses,
        version: page.version,
    }
}

/// The error for an event that cannot be read, or does not fit the events before it. The cause is for
/// the log: it may quote what is stored.
pub(crate) fn unreadable(
    key: &SessionKey,
    seq: u64,
    cause: impl Into<Box<dyn StdError + Send + Sync>>,
) -> RpcError {
    let message = format!(
        "event {seq} of session \"{}\" cannot be read, and the server's log has the cause; restore the \
         store from a copy, or delete the session",
        key.id
    );
    let error = RpcError::new(ErrorKind::DataLoss, message).reason(EVENT_UNREADABLE);
    of_event(error, key, seq).caused_by(cause)
}

/// The error for a session that only a process of a higher level can read.
fn newer_session(key: &SessionKey, needs: u32, level: u32) -> RpcError {
    let id = &key.id;
    let message = format!(
        "session \"{id}\" waits for a newer version: it needs level {needs}, and this process has \
         level {level}"
    );
    let error = RpcError::precondition(message).reason(NEWER_VERSION);
    let error = error.meta("session", id).meta("needs", needs.to_string());
    error.meta("level", level.to_string())
}

/// The error for an event that is left to a newer version of this program.
fn newer_event(key: &SessionKey, seq: u64, newer: Newer, level: u32) -> RpcError {
    if newer.needs > level {
        return newer_session(key, newer.needs, level).meta("seq", seq.to_string());
    }
    unmarked_event(key, seq)
}

/// The error for an event that only a newer version can read, although it does not say so.
pub(crate) fn unmarked_event(key: &SessionKey, seq: u64) -> RpcError {
    let id = &key.id;
    let message = format!("event {seq} of session \"{id}\" was written by a newer version");
    of_event(RpcError::precondition(message), key, seq).reason(NEWER_VERSION)
}

fn of_event(error: RpcError, key: &SessionKey, seq: u64) -> RpcError {
    error.meta("session", &key.id).meta("seq", seq.to_string())
}

/// The same call may succeed a little later.
pub(crate) fn may_pass(error: &RpcError) -> bool {
    use ErrorKind::{Cancelled, DeadlineExceeded, Unavailable};
    matches!(error.kind(), Unavailable | DeadlineExceeded | Cancelled) || Link::did_not_begin(error)
}

/// A request whose answer is waited for no longer than that.
pub(crate) fn within<T>(time: Duration, mut request: Request<T>) -> Request<T> {
    request.set_timeout(time);
    request
}

/// A request that is made for the tenant whose session this is.
pub(crate) fn for_session<T>(key: &SessionKey, message: T) -> Request<T> {
    for_namespace(&key.namespace, message)
}

/// A request that the orchestrator makes by itself, for a tenant.
pub(crate) fn for_namespace<T>(namespace: &Namespace, message: T) -> Request<T> {
    let orchestrator = Principal::service("orchestrator", namespace.clone());
    with_principal(Request::new(message), &orchestrator)
}
