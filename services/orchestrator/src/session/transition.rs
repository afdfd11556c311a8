//! Makes what was decided durable.

use super::{End, LARGEST_BATCH, Message, Owner};
use crate::store::for_session;
use bytes::Bytes;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::outstanding::Work;
use cairn_engine::state::RunStatus;
use cairn_proto::memory as pb;
use cairn_rpc::{ErrorKind, RpcError};
use futures::StreamExt as _;
use std::time::{Duration, Instant};

/// First pause before a transition of unknown outcome is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

impl Owner {
    /// Nothing is left to be done before a time to come, if at all: the session may sleep.
    pub(super) fn is_done(&self) -> bool {
        let is_wake = |work: &Work| matches!(work, Work::Wake { .. });
        self.session.outstanding().iter().all(is_wake)
    }

    /// Commits the events, folds what others appended before them, and lets the session sleep if
    /// nothing is left to do. Messages that arrive meanwhile go into `batch`.
    pub(super) async fn make_durable(
        &mut self,
        events: Vec<Event>,
        batch: &mut Vec<Message>,
    ) -> Result<(), End> {
        self.drop_unwanted();
        // An owner that is stopping has begun nothing new: it lets go, and the next one begins.
        let parks = self.is_done() && !self.is_stopping;
        if events.is_empty() && !parks {
            return self.release_if_stopping().await;
        }
        let encoded = self
            .deps
            .store
            .encode(&self.key, &events)
            .await
            .map_err(End::Stalled)?;
        let request = self.request(&events, encoded.clone(), parks);
        let answer = self.commit(request, batch).await?;
        self.take_answer(answer, &events, &encoded).await?;
        self.release_if_stopping().await
    }

    fn request(&mut self, events: &[Event], encoded: Vec<Bytes>, parks: bool) -> pb::CommitRequest {
        let change = if parks {
            pb::LeaseChange::Park
        } else {
            pb::LeaseChange::Renew
        };
        let due = self
            .session
            .outstanding()
            .into_iter()
            .find_map(|work| match work {
                Work::Wake { at } => i64::try_from(at).ok(),
                _ => None,
            });
        pb::CommitRequest {
            session: self.key.id.to_string(),
            owner: self.deps.config.owner.clone(),
            epoch: self.epoch,
            version: self.version,
            operation_id: format!("{}.{}", self.epoch, self.version),
            // The state holds the new events already.
            seen_seq: self.session.seq - events.len() as u64,
            memory_writes: memory_writes(events),
            from_reserve: !events.is_empty() && events.iter().all(|event| only_ends(&event.kind)),
            no_progress: events.iter().all(|event| is_no_progress(&event.kind)),
            events: encoded,
            header: Some(header(&self.session)),
            lease_change: change.into(),
            lease_ms: self.deps.config.lease_ms(),
            due_unix_ms: if parks { due.unwrap_or(0) } else { 0 },
            checkpoint: self.checkpoints.take(),
        }
    }

    /// Sends the transition until its outcome is known: a repeat of one that was made answers as
    /// the first would have. Gives up when the lease must have ended.
    async fn commit(
        &mut self,
        request: pb::CommitRequest,
        batch: &mut Vec<Message>,
    ) -> Result<pb::CommitResponse, End> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.commit_once(request.clone(), batch).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Conflict | ErrorKind::NotFound => return Err(End::Fenced),
                ErrorKind::FailedPrecondition => return Err(End::Fenced),
                ErrorKind::ResourceExhausted | ErrorKind::InvalidArgument => {
                    return Err(End::Stalled(error));
                }
                _ if began.elapsed() > self.deps.config.lease => return Err(End::Stalled(error)),
                _ => {}
            }
            tracing::warn!(session = %self.key, %error, "commit is tried again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn commit_once(
        &mut self,
        request: pb::CommitRequest,
        batch: &mut Vec<Message>,
    ) -> Result<pb::CommitResponse, RpcError> {
        let mut journal = self.deps.store.journal();
        let request = for_session(&self.key, request);
        let commit = journal.commit(request);
        tokio::pin!(commit);
        loop {
            let has_room = batch.len() < LARGEST_BATCH;
            tokio::select! {
                biased;
                answer = &mut commit => return Ok(answer?.into_inner()),
                Some(message) = self.work.next(), if has_room && !self.work.is_empty() => {
                    batch.push(message);
                }
                Some(message) = self.inbox.recv(), if has_room => batch.push(message),
            }
        }
    }

    async fn take_answer(
        &mut self,
        answer: pb::CommitResponse,
        events: &[Event],
        encoded: &[Bytes],
    ) -> Result<(), End> {
        self.deps.store.clock.take(answer.store_time_unix_ms);
        self.version += 1;
        if !answer.others.is_empty() {
            let mut others = Vec::with_capacity(answer.others.len());
            for stored in &answer.others {
                let event = self.deps.store.decode(&self.key, &stored.event).await;
                others.extend(
                    event
                        .map_err(End::Stalled)?
                        .map(|event| (stored.seq, event)),
                );
            }
            let rebased = self.session.rebase(&others, events);
            rebased.map_err(|illegal| End::Stalled(RpcError::internal(illegal)))?;
        }
        if !answer.owned {
            let is_parked = self.is_done();
            return Err(if is_parked { End::Parked } else { End::Fenced });
        }
        self.lease_until = self.lease_until.max(answer.lease_until_unix_ms);
        self.checkpoints.written(encoded, &self.session);
        Ok(())
    }

    /// Reads what others have appended.
    pub(super) async fn read_others(&mut self) -> Result<(), End> {
        loop {
            let page = self.deps.store.read(&self.key, self.session.seq).await;
            let page = page.map_err(End::Stalled)?;
            for stored in &page.events {
                let folded = self
                    .deps
                    .store
                    .fold(&self.key, &mut self.session, stored)
                    .await;
                folded.map_err(End::Stalled)?;
            }
            if self.session.seq >= page.last_seq {
                return Ok(());
            }
        }
    }

    /// A process that ends gives the session to others as soon as no call with side effects is
    /// under way.
    async fn release_if_stopping(&mut self) -> Result<(), End> {
        if !self.is_stopping || self.has_intended_calls() {
            return Ok(());
        }
        let request = pb::ReleaseSessionRequest {
            session: self.key.id.to_string(),
            owner: self.deps.config.owner.clone(),
            epoch: self.epoch,
        };
        let mut ownership = self.deps.store.ownership();
        if let Err(status) = ownership
            .release_session(for_session(&self.key, request))
            .await
        {
            tracing::warn!(session = %self.key, error = %status, "lease is left to run out");
        }
        Err(End::Released)
    }

    fn has_intended_calls(&self) -> bool {
        use cairn_engine::state::CallStatus;
        let run = self.session.active_run();
        let mut attempts = run.into_iter().flat_map(|run| run.running_attempts());
        attempts.any(|(name, _, attempt)| {
            let mut calls = attempt.calls(name);
            let is_active = self.active.contains_key(&Work::RunStep(name));
            is_active && calls.any(|(_, c)| matches!(c.status, CallStatus::Intended { .. }))
        })
    }
}

/// The owner's notes that go with a state.
pub(crate) fn header(session: &cairn_engine::state::Session) -> pb::Header {
    let status = match session.active_run().map(|run| run.status) {
        None => pb::SessionStatus::Idle,
        Some(RunStatus::Waiting(_)) => pb::SessionStatus::Waiting,
        Some(_) => pb::SessionStatus::Running,
    };
    pb::Header {
        status: status.into(),
        handled_through: session.handled_through,
    }
}

/// A journal at its limits still takes events that settle, pause, cancel or end.
fn only_ends(event: &EventKind) -> bool {
    use EventKind as E;
    matches!(
        event,
        E::CommandRefused { .. }
            | E::AttemptContinued { .. }
            | E::RunWaiting { .. }
            | E::RunResumed { .. }
            | E::RunCompleted { .. }
            | E::RunFailed { .. }
            | E::RunCancelled { .. }
            | E::StepCompleted { .. }
            | E::StepFailed { .. }
            | E::StepSkipped { .. }
            | E::CallFinished(_)
            | E::CallInDoubt { .. }
            | E::CallSettled { .. }
            | E::Decided { .. }
    )
}

/// A session whose owners die one after the other, and only take it up again, is set aside.
fn is_no_progress(event: &EventKind) -> bool {
    matches!(event, EventKind::AttemptContinued { .. })
}

fn memory_writes(events: &[Event]) -> Vec<pb::MemoryWrite> {
    use pb::memory_write::{Change, Set};
    let changes = events.iter().filter_map(|event| match &event.kind {
        EventKind::MemorySet { key, value } => Some(Change::Set(Set {
            key: key.clone(),
            value: value.clone(),
        })),
        EventKind::MemoryRemoved { key } => Some(Change::Remove(key.clone())),
        EventKind::MemoryCleared => Some(Change::Clear(true)),
        _ => None,
    });
    changes
        .map(|change| pb::MemoryWrite {
            change: Some(change),
        })
        .collect()
}
