//! Sessions that come from an archive.
//!
//! The caller sends a journal, event by event, and before an event the blobs that it lists. Each event is
//! folded here before the store gets it, so that what cannot be a session never becomes one. The store
//! keeps blobs and events as bytes, and no client sees the session before the whole journal is there. A
//! caller that ends in between leaves something that the same request continues, or that the store
//! removes.

mod waiting;

use super::Requests;
use super::admission::{Admission, admit_idle, is_there};
use super::fork;
use crate::key::{SessionKey, in_journal};
use crate::store::NEWER_VERSION;
use bytes::Bytes;
use cairn_engine::decide::{Fork, Input};
use cairn_engine::event::Event;
use cairn_engine::key::{digest, hex};
use cairn_engine::session::Session;
use cairn_proto::convert::{Decoded, Named, decode_event};
use cairn_proto::memory as pb;
use cairn_rpc::{Principal, RpcError};
use futures::{Stream, StreamExt as _};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tonic::Status;
use waiting::Waiting;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Who asks for it.
    pub(crate) principal: Principal,
    /// The session that the journal is of.
    pub(crate) source: SessionKey,
    /// The session to be, if it is to have another id: a copy of the other.
    pub(crate) copy: Option<SessionKey>,
    pub(crate) request_id: String,
    /// Number of the journal's last event.
    pub(crate) last_seq: u64,
    pub(crate) time_to_live_ms: u64,
}

impl Asked {
    fn child(&self) -> &SessionKey {
        self.copy.as_ref().unwrap_or(&self.source)
    }

    fn request(&self) -> pb::CopyEventsRequest {
        let child = self.child();
        let (last, time_to_live) = (
            self.last_seq.to_be_bytes(),
            self.time_to_live_ms.to_be_bytes(),
        );
        let parts = [
            b"import".as_slice(),
            self.source.id.as_bytes(),
            child.id.as_bytes(),
            &last[..],
            &time_to_live[..],
        ];
        pb::CopyEventsRequest {
            session: child.id.to_string(),
            request_id: self.request_id.clone(),
            request_digest: digest(&parts).to_vec().into(),
            ..pb::CopyEventsRequest::default()
        }
    }
}

/// A message of an import.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Blobs that events list: of these events, and behind them of the one that comes next.
    pub(crate) blobs: Vec<Bytes>,
    /// The next events.
    pub(crate) events: Vec<pb::TranscriptEvent>,
}

/// What became of an import.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) session: SessionKey,
    /// The same request had made the session before.
    pub(crate) is_duplicate: bool,
}

/// Makes the session of what the caller sends: batches of events and blobs, in their order.
pub(crate) async fn import(
    requests: &Arc<Requests>,
    asked: Asked,
    batches: impl Stream<Item = Result<Batch, Status>>,
) -> Result<Imported, Status> {
    let admission = admit_idle(requests).await;
    if let Admission::OnlyRepeats(full) = &admission
        && !is_there(requests, asked.child()).await?
    {
        return Err(full.clone().into());
    }
    let mut transfer = Transfer::begin(requests, &asked).await?;
    if transfer.is_complete {
        return Ok(Imported {
            session: asked.child().clone(),
            is_duplicate: true,
        });
    }
    let mut batches = std::pin::pin!(batches);
    while let Some(batch) = batches.next().await {
        transfer.take(batch?).await?;
    }
    transfer.complete().await?;
    Ok(Imported {
        session: asked.child().clone(),
        is_duplicate: false,
    })
}

/// What the store is sent at once.
#[derive(Debug, Default)]
struct Page {
    after_seq: u64,
    continues: bool,
    blobs: Vec<Bytes>,
    events: Vec<pb::TranscriptEvent>,
}

/// A journal on its way to the store.
struct Transfer<'a> {
    requests: &'a Requests,
    asked: &'a Asked,
    /// The fold of what came so far.
    session: Session,
    /// The last event that came ends its transition.
    ends: bool,
    waiting: Waiting,
    /// The last event that the store has.
    stored: u64,
    is_complete: bool,
    /// The store's time, as it answered last.
    now_unix_ms: i64,
}

impl<'a> Transfer<'a> {
    async fn begin(requests: &'a Requests, asked: &'a Asked) -> Result<Self, RpcError> {
        let mut transfer = Self {
            requests,
            asked,
            session: Session::default(),
            ends: true,
            waiting: Waiting::default(),
            stored: 0,
            is_complete: false,
            now_unix_ms: 0,
        };
        transfer.send(Page::default(), None).await?;
        Ok(transfer)
    }

    /// Takes the next events with their blobs. Those that the store has from an earlier try are folded only.
    async fn take(&mut self, batch: Batch) -> Result<(), RpcError> {
        let Batch { mut blobs, events } = batch;
        let mut new = Vec::with_capacity(events.len());
        let mut continues = false;
        let earlier = self.waiting.len();
        self.waiting.add(&blobs)?;
        // The blobs of the events that the store has.
        let mut known = 0;
        for (index, event) in events.into_iter().enumerate() {
            let seq = self.session.seq + 1;
            let listed = self.fold(index, seq, &event)?;
            let follows = !self.ends;
            self.ends = event.ends;
            if seq > self.stored {
                continues = if new.is_empty() { follows } else { continues };
                new.push(event);
            } else {
                known += listed;
            }
        }
        // What waits is the next event's, which the store may have, too.
        let known = match self.session.seq < self.stored {
            true => blobs.len(),
            false => known.saturating_sub(earlier),
        };
        let blobs = blobs.split_off(known);
        self.pass_on(blobs, &new, continues).await
    }

    /// Sends the store blobs, and events up to the last that was folded. `continues` is about the first of the
    /// events.
    async fn pass_on(
        &mut self,
        blobs: Vec<Bytes>,
        new: &[pb::TranscriptEvent],
        continues: bool,
    ) -> Result<(), RpcError> {
        let through = self.session.seq;
        if self.stored >= through && !blobs.is_empty() {
            let page = Page {
                after_seq: self.stored,
                blobs,
                ..Page::default()
            };
            return self.send(page, None).await;
        }
        while self.stored < through {
            let (before, missing) = (self.stored, through - self.stored);
            // Another caller with the same request may have brought a part of the events.
            let known = usize::try_from(missing).ok();
            let known = known.and_then(|missing| new.len().checked_sub(missing));
            let known = known.ok_or_else(given_up)?;
            let continues = match known.checked_sub(1) {
                None => continues,
                Some(last) => !new[last].ends,
            };
            let page = Page {
                after_seq: before,
                continues,
                blobs: blobs.clone(),
                events: new[known..].to_vec(),
            };
            self.send(page, None).await?;
            if self.stored <= before {
                return Err(given_up());
            }
        }
        Ok(())
    }

    /// Answers how many blobs the event lists.
    fn fold(
        &mut self,
        index: usize,
        seq: u64,
        event: &pb::TranscriptEvent,
    ) -> Result<usize, RpcError> {
        let last = self.asked.last_seq;
        if seq > last {
            let error = RpcError::invalid("events", format!("continue after event {last}"));
            return Err(error.allowed("as many as start.last_seq says"));
        }
        if seq == last && !event.ends {
            let error = RpcError::invalid(field(index, "ends"), "is false for the last event");
            return Err(error.allowed("true: a journal ends with a transition"));
        }
        let level = self.requests.config().level();
        let decoded = decoded(index, seq, event, level)?;
        let listed = Named::by(&event.event).blobs;
        self.waiting.take(seq, &listed)?;
        let applied = self.session.apply(seq, &decoded);
        applied.map_err(|error| unfit(index, seq, &error))?;
        Ok(listed.len())
    }

    /// Makes the session be there.
    async fn complete(mut self) -> Result<(), RpcError> {
        let (seq, last) = (self.session.seq, self.asked.last_seq);
        if seq < last {
            let error = RpcError::invalid("events", format!("end after event {seq}"));
            return Err(error.allowed(format!("all {last} events")));
        }
        if self.waiting.len() > 0 {
            let error = RpcError::invalid("blobs", "follow the last event");
            return Err(error.allowed("the blobs that events list"));
        }
        let completion = match &self.asked.copy {
            None => {
                if let Some(run) = self.session.active_run() {
                    let number = run.number;
                    let message = format!("run {number} of the archived session has not ended");
                    return Err(RpcError::precondition(message).reason("RUN_ACTIVE"));
                }
                let imported = Input::Imported;
                fork::decided(self.requests, &mut self.session, imported, self.now_unix_ms)?
            }
            Some(_) => {
                let fork = Fork {
                    session: self.asked.source.id.to_string(),
                    request_id: self.asked.request_id.clone(),
                    principal: Some(in_journal(&self.asked.principal)),
                    title: String::new(),
                    continues: false,
                };
                let forked = Input::Forked(fork);
                fork::decided(self.requests, &mut self.session, forked, self.now_unix_ms)?
            }
        };
        let page = Page {
            after_seq: last,
            ..Page::default()
        };
        self.send(page, Some(completion)).await
    }

    async fn send(
        &mut self,
        page: Page,
        completion: Option<pb::CopyCompletion>,
    ) -> Result<(), RpcError> {
        let child = self.asked.child();
        let request = pb::CopyEventsRequest {
            completion,
            transcript: Some(pb::TranscriptPage {
                last_seq: self.asked.last_seq,
                time_to_live_ms: self.asked.time_to_live_ms,
                after_seq: page.after_seq,
                continues: page.continues,
                events: page.events,
                blobs: page.blobs,
            }),
            ..self.asked.request()
        };
        let answer = fork::send(self.requests, child, request).await?;
        self.stored = answer.copied_through;
        self.is_complete = answer.complete;
        self.now_unix_ms = answer.store_time_unix_ms;
        Ok(())
    }
}

fn field(index: usize, name: &str) -> String {
    format!("events[{index}].{name}")
}

fn decoded(
    index: usize,
    seq: u64,
    event: &pb::TranscriptEvent,
    level: u32,
) -> Result<Event, RpcError> {
    if event.event.is_empty() {
        return Err(RpcError::invalid(field(index, "event"), "is empty"));
    }
    let decode =
        |bytes: &[u8]| decode_event(bytes, level).map_err(|error| unfit(index, seq, &error));
    let newer = || {
        let message = format!(
            "event {seq} was written by a newer version; import the archive with that version"
        );
        RpcError::precondition(message).reason(NEWER_VERSION)
    };
    let (decoded, named) = match decode(&event.event)? {
        Decoded::StoredApart { digest, .. } => (decode(&event.blob)?, Some(digest)),
        Decoded::Newer { .. } => return Err(newer()),
        decoded @ Decoded::Event(_) => (decoded, None),
    };
    let has_blob = !event.blob.is_empty();
    if named != has_blob.then(|| hex(&Sha256::digest(&event.blob))) {
        let error = RpcError::invalid(field(index, "blob"), "is not the data that the event names");
        return Err(error.allowed("the data of that digest, or nothing if the event names none"));
    }
    if has_blob && Named::by(&event.event).blobs != Named::by(&event.blob).blobs {
        return Err(unfit(
            index,
            seq,
            "it does not repeat the list of blobs of its own blob",
        ));
    }
    match decoded {
        Decoded::Event(event) => Ok(event),
        Decoded::Newer { .. } => Err(newer()),
        Decoded::StoredApart { .. } => Err(unfit(index, seq, "it is stored apart twice")),
    }
}

/// The error for an event that cannot stand where it stands.
fn unfit(index: usize, seq: u64, why: &(impl std::fmt::Display + ?Sized)) -> RpcError {
    let problem = format!("event {seq} cannot follow: {why}");
    let error = RpcError::invalid(field(index, "event"), problem);
    error.allowed("the events of a journal in their order")
}

/// The error for an import that took so long between two messages that the store removed it.
fn given_up() -> RpcError {
    RpcError::unavailable("the store has removed a part of the import; send it again")
}
