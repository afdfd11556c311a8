//! Makes what was decided durable.

use super::interrupts::cancels_a_run;
use super::placing::lacking;
use super::work::{has_open_intent, is_of_end};
use super::{End, Outstanding, Owner, stalled};
use crate::observe::Observed;
use crate::store::{Encoded, Newer, for_session, header, unreadable, within};
use cairn_engine::event::{self, Event, EventKind};
use cairn_proto::memory as pb;
use cairn_rpc::trace::is_recording;
use std::time::Duration;

/// Bytes of a checkpoint for which a transition may take a second more.
const BYTES_PER_SECOND: usize = 4 << 20;

impl Owner {
    /// Commits the events, folds what others appended before them, and lets the session sleep if
    /// nothing is left to do. Says what is outstanding.
    pub(super) async fn make_durable(&mut self, events: Vec<Event>) -> Result<Outstanding, End> {
        let outstanding = Outstanding::of(&self.session, |work| self.is_under_way(work));
        let parks = self.may_sleep(&outstanding);
        if !events.is_empty() || parks {
            let observed = Observed::of(&self.key, &self.session, &self.active_run, &events);
            let is_cancelled = cancels_a_run(&events);
            let transition = self.transition(events, parks, &outstanding).await?;
            let answer = self.commit(&transition).await?;
            // A duplicate is the repeat of a try whose answer was lost, and of which nothing was recorded.
            observed.record(&mut self.active_run);
            self.interrupt_calls(is_cancelled);
            self.active_run.note(&self.session);
            self.take_answer(answer, &transition, &outstanding).await?;
        }
        self.release_if_stopping(&outstanding).await?;
        Ok(outstanding)
    }

    /// Nothing is left to do before a time to come, for anybody. An owner that is stopping, or carries
    /// out nothing, may have left steps to the next: it lets go when its process ends.
    pub(super) fn may_sleep(&self, outstanding: &Outstanding) -> bool {
        let leaves_steps = !self.runs_steps() && self.session.needs_owner();
        let has_steps = leaves_steps || self.starts_steps();
        outstanding.is_done() && !self.inbox.is_stopping() && !has_steps
    }

    async fn transition(
        &mut self,
        events: Vec<Event>,
        parks: bool,
        outstanding: &Outstanding,
    ) -> Result<Transition, End> {
        let due = outstanding.wakes_at().filter(|_| parks).unwrap_or(0);
        let is_memory = |event: &&Event| event.kind.is_memory();
        // To find nothing of what it waits for is no failure of its owner.
        let waits_for_pool = parks && lacking(&self.session).next().is_some();
        let mut transition = Transition {
            events: events.len(),
            memory: events.iter().filter(is_memory).cloned().collect(),
            from_reserve: !events.is_empty() && events.iter().all(|event| event.kind.ends_only()),
            no_progress: !waits_for_pool && !events.iter().any(|it| it.kind.is_progress()),
            parks,
            due,
            encoded: self.deps.store.encode_all(events),
        };
        let (store, key, encoded) = (&self.deps.store, &self.key, &mut transition.encoded);
        for large in std::mem::take(&mut encoded.large) {
            let bytes = encoded.events[large.position].clone();
            let put = |_| store.store_apart(key, &large, bytes.clone());
            encoded.events[large.position] = self.inbox.retry_until_lease_ends(put).await?;
        }
        Ok(transition)
    }

    /// Sends the transition until its outcome is known: a repeat of one that was made answers as
    /// the first would have.
    async fn commit(&mut self, transition: &Transition) -> Result<pb::CommitResponse, End> {
        let (store, key, config) = (&self.deps.store, &self.key, &self.deps.config);
        let (session, mark, epoch) = (&self.session, &self.mark, self.epoch);
        let version = self.acknowledged.version;
        let run = is_recording().then(|| session.runs.last()).flatten();
        let trace = run.and_then(|run| self.active_run.trace_of(key, run));
        // Without what was left out the state is no fold.
        let mut checkpoint = self.checkpoints.take().filter(|_| self.left_to.is_none());
        let commit = |time: Duration| {
            // It only saves time, and may be what the way to the store does not carry.
            let checkpoint = checkpoint.take();
            let time = time + time_for(checkpoint.as_ref());
            let request = pb::CommitRequest {
                session: key.id.to_string(),
                owner: config.owner.clone(),
                epoch,
                version,
                operation_id: format!("{mark}.{epoch}.{version}"),
                // The state holds the new events already.
                seen_seq: session.seq - transition.events as u64,
                header: Some(header(session, config.least_needs())),
                lease_ms: config.lease_ms(),
                checkpoint,
                ..transition.request()
            };
            let mut sent = within(time, for_session(key, request));
            if let Some(trace) = trace {
                trace.set_on(&mut sent);
            }
            let mut journal = store.journal();
            async move { Ok(journal.commit(sent).await?.into_inner()) }
        };
        let asked = store.clock.now();
        let answer = self.inbox.retry_until_lease_ends(commit).await?;
        store.clock.take(asked, answer.store_time_unix_ms);
        Ok(answer)
    }

    async fn take_answer(
        &mut self,
        answer: pb::CommitResponse,
        transition: &Transition,
        outstanding: &Outstanding,
    ) -> Result<(), End> {
        let bytes = transition.encoded.bytes;
        self.inbox.renewed(answer.lease_until_unix_ms);
        self.acknowledged.version += 1;
        self.journal_permille = answer.journal_permille;
        if !answer.others.is_empty() {
            let others = self.read_events(&answer.others).await?;
            self.memory_changed |= others.iter().any(|(_, event)| event.kind.is_memory());
            // Commands and session memory: what else is to be done stays the same.
            let (own, memory) = (transition.events, &transition.memory);
            let rebased = self.session.rebase(&others, own, memory);
            rebased.map_err(stalled)?;
            self.leave_out(answer.others.len() - others.len(), own);
        }
        if !answer.owned {
            if !outstanding.is_done() {
                return Err(End::Fenced);
            }
            self.acknowledge(outstanding);
            self.checkpoints.written(bytes, &self.session);
            let is_over = self.session.active_run().is_none();
            return Err(End::Parked { is_over });
        }
        self.checkpoints.written(bytes, &self.session);
        self.count_bytes();
        Ok(())
    }

    /// Counts the bytes of the state, and of what is kept beside it.
    fn count_bytes(&mut self) {
        let bytes = self.checkpoints.state_bytes() + self.knowledge.recall.bytes();
        self.state_bytes.set(bytes);
    }

    /// Reads what others have appended, up to the first event that is left to a newer process.
    pub(super) async fn read_others(&mut self) -> Result<(), End> {
        while self.left_to.is_none() {
            let (store, key, seen) = (&self.deps.store, &self.key, self.session.seq);
            let page = self
                .inbox
                .retry_until_lease_ends(|_| store.read(key, seen))
                .await?;
            for (seq, event) in self.read_events(&page.events).await? {
                let folded = self.session.apply(seq, &event);
                folded.map_err(|error| End::Stalled(unreadable(&self.key, seq, error)))?;
            }
            self.count_bytes();
            self.journal_permille = page.journal_permille;
            if self.session.seq >= page.last_seq {
                break;
            }
        }
        Ok(())
    }

    /// The events of others, without the first that is left to a newer process and those after it.
    async fn read_events(&mut self, stored: &[pb::StoredEvent]) -> Result<Vec<(u64, Event)>, End> {
        let mut events = Vec::with_capacity(stored.len());
        for stored in stored {
            if self.left_to.is_some() {
                break;
            }
            let (store, key) = (&self.deps.store, &self.key);
            let read = self
                .inbox
                .retry_until_lease_ends(|_| store.read_event(key, stored));
            match read.await? {
                Ok((event, bytes)) => {
                    self.checkpoints.folded(bytes);
                    events.push((stored.seq, event));
                }
                Err(newer) => self.leave_to_newer(stored.seq, newer),
            }
        }
        Ok(events)
    }

    /// Lets go of the session as if this process ended: nothing that a newer one has written is carried
    /// out here, nor anything after it.
    fn leave_to_newer(&mut self, seq: u64, newer: Newer) {
        let (session, needs, level) = (&self.key, newer.needs, self.deps.config.level());
        tracing::info!(%session, seq, needs, level, "the session is left to a newer version");
        self.left_to = Some(newer);
        self.inbox.stop();
    }

    /// Passes over so many events of others, which stand before `own` events in the journal.
    fn leave_out(&mut self, others: usize, own: usize) {
        if let Some(newer) = self.left_to {
            self.session.leave_out(others as u64, own, newer.needs);
        }
    }

    /// A process that ends gives the session to others as soon as what has arrived is durable, and neither a call with
    /// side effects is under way nor a hook asked about the end of a run.
    async fn release_if_stopping(&mut self, outstanding: &Outstanding) -> Result<(), End> {
        if !self.inbox.is_stopping() || self.inbox.has_messages() {
            return Ok(());
        }
        let is_under_way = |work| has_open_intent(&self.session, work) || is_of_end(work);
        if self.runs_steps() && outstanding.iter().any(is_under_way) {
            return Ok(());
        }
        let request = pb::ReleaseSessionRequest {
            session: self.key.id.to_string(),
            owner: self.deps.config.owner.clone(),
            epoch: self.epoch,
            delay_ms: 0,
        };
        let (store, key) = (&self.deps.store, &self.key);
        let release = |time| {
            let request = within(time, for_session(key, request.clone()));
            let mut ownership = store.ownership();
            async move { Ok(ownership.release_session(request).await?) }
        };
        if let Err(end) = self.inbox.retry_until_lease_ends(release).await {
            tracing::warn!(session = %self.key, ?end, "lease is left to run out");
        }
        Err(End::Released)
    }
}

/// What an owner decided, as the store takes it. The events are no longer needed: the state has them.
struct Transition {
    /// How many they are.
    events: usize,
    /// Those about session memory.
    memory: Vec<Event>,
    from_reserve: bool,
    no_progress: bool,
    /// The session sleeps afterwards, until it is due.
    parks: bool,
    due: u64,
    encoded: Encoded,
}

impl Transition {
    /// The request, but for what is the owner's.
    fn request(&self) -> pb::CommitRequest {
        let change = if self.parks {
            pb::LeaseChange::Park
        } else {
            pb::LeaseChange::Renew
        };
        pb::CommitRequest {
            events: self.encoded.events.clone(),
            memory_writes: memory_writes(&self.memory),
            from_reserve: self.from_reserve,
            no_progress: self.no_progress,
            lease_change: change.into(),
            due_unix_ms: i64::try_from(self.due).unwrap_or(0),
            ..pb::CommitRequest::default()
        }
    }
}

/// Tells an owner's transitions from those of all others, in few bytes.
///
/// A store that has lost a claim gives its epoch again, perhaps to the same process, while the earlier owner's
/// transition is still on its way: that one must not be taken for the later owner's.
pub(super) fn new_mark() -> String {
    // The random half.
    let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
    format!("{random:016x}")
}

/// How much longer a transition may take that carries a checkpoint.
fn time_for(checkpoint: Option<&pb::Checkpoint>) -> Duration {
    let bytes = checkpoint.map_or(0, |it| it.state.len());
    Duration::from_secs(u64::try_from(bytes / BYTES_PER_SECOND).unwrap_or(0))
}

fn memory_writes(events: &[Event]) -> Vec<pb::MemoryWrite> {
    use pb::memory_write::{Change, Set};
    let changes = events.iter().filter_map(|event| match &event.kind {
        EventKind::MemorySet(set) => Some(Change::Set(Set {
            key: set.key.clone(),
            value: set.value.clone(),
            metadata: set.metadata.clone(),
            // The time that a fold of the journal gives the entry, whenever the store writes it.
            updated_unix_ms: i64::try_from(event.at).unwrap_or(i64::MAX),
            created_unix_ms: 0,
        })),
        EventKind::MemoryRemoved(event::MemoryRemoved { key, .. }) => {
            Some(Change::Remove(key.clone()))
        }
        EventKind::MemoryCleared(event::MemoryCleared {}) => Some(Change::Clear(true)),
        _ => None,
    });
    changes
        .map(|change| pb::MemoryWrite {
            change: Some(change),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_owners_name_their_transitions_alike() {
        let marks: Vec<_> = (0..1000).map(|_| new_mark()).collect();
        assert!(marks.iter().all(|mark| mark.len() == 16));
        assert_eq!(marks.iter().collect::<HashSet<_>>().len(), 1000);
    }
}
