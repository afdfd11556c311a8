//! The memory service as the orchestrator uses it: journals in the words of the engine.

mod events;

pub(crate) use events::{Encoded, LARGEST_INLINE_EVENT};

use crate::aside::Aside;
use crate::clock::StoreClock;
use crate::key::SessionKey;
use crate::owners::Known;
use crate::session::Checkpointer;
use cairn_engine::event::Event;
use cairn_engine::session::Session;
use cairn_proto::event::TextDelta;
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_rpc::{ErrorKind, Link, Namespace, Principal, RpcError, with_principal};
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
    pub(crate) clock: Arc<StoreClock>,
}

/// A session read from the store.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) session: Session,
    /// How far the store has come with it.
    pub(crate) known: Known,
    /// Why nobody works on it before it is released, if that is so.
    pub(crate) aside: Option<Aside>,
    /// How far the journal is from its next checkpoint.
    pub(crate) checkpoints: Checkpointer,
}

impl Store {
    /// Connects, and reads the store's clock for the first time.
    pub(crate) async fn connect(memory: &Link, journals: &Link) -> Result<Self, RpcError> {
        let client = |link: &Link| {
            JournalServiceClient::new(link.clone()).max_decoding_message_size(MAX_INTERNAL_MESSAGE)
        };
        let (mut journal, journals) = (client(memory), client(journals));
        let time = journal.get_time(pb::GetTimeRequest {}).await?.into_inner();
        Ok(Self {
            journal,
            journals,
            ownership: OwnershipServiceClient::new(memory.clone()),
            clock: Arc::new(StoreClock::new(time.store_time_unix_ms)),
        })
    }

    pub(crate) fn journal(&self) -> JournalServiceClient<Link> {
        self.journal.clone()
    }

    pub(crate) fn ownership(&self) -> OwnershipServiceClient<Link> {
        self.ownership.clone()
    }

    /// Folds a session: the newest checkpoint that can be read, and the events after it. With
    /// `at_seq`, as it was after that event.
    pub(crate) async fn load(
        &self,
        key: &SessionKey,
        at_seq: Option<u64>,
    ) -> Result<Loaded, RpcError> {
        let (mut session, size) = self.checkpoint(key, at_seq).await?.unwrap_or_default();
        let mut folded = 0;
        let until = at_seq.unwrap_or(u64::MAX);
        loop {
            let page = self.read(key, session.seq).await?;
            let is_last = page
                .events
                .last()
                .is_none_or(|event| event.seq >= page.last_seq);
            let aside = Aside::of(page.quarantined, page.quarantine_reason());
            let known = known(&page);
            for stored in page.events {
                if stored.seq > until {
                    break;
                }
                let (event, bytes) = self.sized_event(key, &stored).await?;
                folded += bytes;
                let folded = session.apply(stored.seq, &event);
                folded.map_err(|error| unreadable(key, stored.seq, error))?;
            }
            if is_last || session.seq >= until {
                return Ok(Loaded {
                    session,
                    known,
                    aside,
                    checkpoints: Checkpointer::resumed(folded, size),
                });
            }
        }
    }

    /// The newest checkpoint that can be read. The journal has everything that a checkpoint has, so a
    /// damaged one costs time only.
    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_seq: Option<u64>,
    ) -> Result<Option<(Session, usize)>, RpcError> {
        let request = pb::GetCheckpointRequest {
            session: key.id.to_string(),
            at_or_before_seq: at_seq.unwrap_or(0),
        };
        let mut journal = self.journal();
        let found = journal.get_checkpoint(for_session(key, request));
        let found = match found.await.map_err(RpcError::from) {
            Ok(found) => found.into_inner().checkpoint,
            Err(error) if error.reason_name() == DAMAGED => {
                let seq = error.metadata("seq");
                tracing::error!(session = %key, seq, %error, "checkpoint not used: it is damaged");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(found.and_then(|checkpoint| {
            let session = Session::from_checkpoint(&checkpoint.state)?;
            Some((session, checkpoint.state.len()))
        }))
    }

    /// A page of events after a cursor.
    pub(crate) async fn read(
        &self,
        key: &SessionKey,
        after_seq: u64,
    ) -> Result<pb::ReadEventsResponse, RpcError> {
        let request = pb::ReadEventsRequest {
            session: key.id.to_string(),
            after_seq,
            max_events: 0,
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
                if let Some(event) = self.decode(key, stored).await? {
                    events.push((stored.seq, event));
                }
            }
            if is_last {
                return Ok(events);
            }
        }
    }

    /// Why the session is set aside, if it is.
    pub(crate) async fn aside(&self, key: &SessionKey) -> Result<Option<Aside>, RpcError> {
        // After the last of all events there are none to be read.
        let page = self.read(key, u64::MAX).await?;
        Ok(Aside::of(page.quarantined, page.quarantine_reason()))
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
pub(crate) fn known(page: &pb::ReadEventsResponse) -> Known {
    Known {
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

fn of_event(error: RpcError, key: &SessionKey, seq: u64) -> RpcError {
    error.meta("session", &key.id).meta("seq", seq.to_string())
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
