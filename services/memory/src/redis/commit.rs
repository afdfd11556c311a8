//! The owner's transition.

use super::answer::Status;
use super::checkpoint::StoredCheckpoint;
use super::inner::Inner;
use super::journal;
use super::notes::notes;
use super::script::{Call, Odd, Reply};
use super::witness::Mark;
use crate::fingerprint::Fingerprint;
use crate::metadata::{self, to_text};
use crate::port::{
    Commit, Committed, LeaseChange, MemoryWrite, MemoryWriter, Metadata, Room, SessionKey,
    StoreError, StoreResult, StoredEvent, waits_text,
};
use bytes::Bytes;

/// What is due later is found by claimers that look by themselves.
const SOON_MS: i64 = 1000;

impl Inner {
    /// See [`Store::commit`](crate::port::Store::commit).
    pub(super) async fn commit(&self, commit: Commit) -> StoreResult<Committed> {
        self.limits.check_commit(&commit)?;
        let names = self.names.session(&commit.key);
        let partition = names.partition.number;
        let mut keys = vec![
            names.hash(),
            names.journal(),
            names.partition.leases(),
            names.partition.due(),
            names.followers(),
            names.partition.work(),
            names.partition.changed(commit.key.namespace()),
            names.partition.asking(commit.key.namespace()),
            names.partition.newer(),
            names.partition.waiting(),
        ];
        if commit.checkpoint.is_some() || !commit.memory_writes.is_empty() {
            keys.extend([
                names.memory(),
                names.checkpoints(),
                names.checkpoint_numbers(),
            ]);
        }
        let checkpoint = self.store_checkpoint(&names, &commit).await?;
        let call = self.scripts.commit.call(&keys);
        let call = self.commit_call(call, &names.member, &commit, &checkpoint);
        let (committed, accepted_losses, fields) = self
            .run_commit(partition, call, |status, reply| {
                self.committed(status, reply, commit.seen_seq)
            })
            .await?;
        let seq = committed.first_seq + commit.events.len() as u64 - 1;
        let mark = Mark {
            accepted_losses,
            version: commit.version + 1,
            seq,
            event: last_event(&commit, &committed, seq),
            ..Mark::default()
        };
        self.servers.witness.saw(partition, &names.member, mark);
        if !committed.duplicate {
            self.hub.accepted(&commit.key, accepted_losses);
            self.announce(&commit.key, committed.first_seq, &commit.events);
            let soon = committed.now_unix_ms + SOON_MS;
            let is_soon = matches!(
                commit.lease,
                LeaseChange::Park { due_unix_ms: Some(due) } if due < soon
            );
            if is_soon && !committed.owned() {
                self.queue.mark(&self.hub, partition);
            }
        }
        let others = committed.others.iter().map(|other| &other.event);
        journal::check(commit.seen_seq, &fields, others)?;
        let next = commit.seen_seq + 1 + committed.others.len() as u64;
        if next < committed.first_seq {
            return Err(StoreError::damaged_event(next));
        }
        Ok(committed)
    }

    fn commit_call<'a>(
        &self,
        call: Call<'a>,
        member: &str,
        commit: &Commit,
        checkpoint: &StoredCheckpoint,
    ) -> Call<'a> {
        let room = if commit.from_reserve {
            Room::Reserve
        } else {
            Room::Normal
        };
        let (most_events, most_bytes) = self.limits.journal_room(room);
        let (most_keys, most_memory) = self.limits.memory_room(MemoryWriter::Owner);
        let bytes: usize = commit.events.iter().map(|event| event.len()).sum();
        let is_progress = !commit.events.is_empty() && !commit.no_progress;
        let through = commit.checkpoint.as_ref().map_or(0, |it| it.through_seq);
        let call = call
            .arg(member)
            .arg(&self.process)
            .arg(&commit.owner)
            .arg(commit.epoch)
            .arg(commit.version)
            .arg(&commit.operation_id)
            .arg(commit.seen_seq)
            .arg(commit.header.status.number())
            .arg(commit.header.handled_through)
            .arg(&commit.header.title)
            .arg(commit.lease_ms)
            .arg(park(commit.lease))
            .arg(u8::from(is_progress))
            .arg(bytes)
            .arg(most_events)
            .arg(most_bytes)
            .arg(most_keys)
            .arg(most_memory)
            .arg(through)
            .arg(&checkpoint.name)
            .arg(&checkpoint.to_remove)
            .arg(commit.memory_writes.len())
            .arg(commit.events.len())
            .arg(journal::sums(&commit.events))
            .arg(notes(&commit.header))
            .arg(commit.header.needs.number())
            .arg(waits_text(&commit.header.waits_for))
            .all(&commit.events);
        let writes = commit.memory_writes.iter();
        writes.fold(call, |call, write| change(call, write, None))
    }

    /// The answer, how many losses of the session had been accepted then, and the names of the others'
    /// fields.
    fn committed(
        &self,
        status: Status,
        reply: &mut Reply,
        seen: u64,
    ) -> Result<(Committed, u64, Bytes), Odd> {
        let now = reply.int()?;
        let first_seq = reply.number()?;
        let ends = reply.int()?;
        let accepted_losses = reply.number()?;
        let (events, bytes) = (reply.number()?, reply.number()?);
        let fields = reply.bytes()?;
        let mut others = Vec::with_capacity(reply.len());
        for seq in (seen + 1..first_seq).take(reply.len()) {
            let event = reply.bytes()?;
            others.push(StoredEvent { seq, event });
        }
        let committed = Committed {
            duplicate: status == Status::Duplicate,
            first_seq,
            others,
            lease_until_unix_ms: (ends >= 0).then_some(ends),
            now_unix_ms: self.servers.time.take(now),
            journal_permille: self.limits.journal_permille(events, bytes),
        };
        Ok((committed, accepted_losses, fields))
    }

    /// Tells this process' followers of new events; none is nothing to tell.
    pub(super) fn announce(&self, key: &SessionKey, first_seq: u64, events: &[Bytes]) {
        if !events.is_empty() {
            self.hub.appended(key, first_seq, events);
        }
    }
}

/// The session's last event after a transition.
fn last_event(commit: &Commit, committed: &Committed, seq: u64) -> Option<Fingerprint> {
    match (commit.events.last(), committed.others.last()) {
        // What is stored is what was sent first.
        (Some(_), _) if committed.duplicate => None,
        (Some(event), _) => Some(Fingerprint::of(seq, event)),
        (None, other) => other.map(|other| Fingerprint::of(other.seq, &other.event)),
    }
}

fn park(lease: LeaseChange) -> String {
    match lease {
        LeaseChange::Renew => String::new(),
        LeaseChange::Park { due_unix_ms: None } => "idle".to_owned(),
        LeaseChange::Park {
            due_unix_ms: Some(due),
        } => due.to_string(),
    }
}

/// A change of session memory, as the scripts read it. Without a time of its own it has that of `now`, and
/// else that of the script.
pub(super) fn change<'a>(call: Call<'a>, change: &MemoryWrite, now: Option<i64>) -> Call<'a> {
    let none = Metadata::new();
    let (kind, key, value, metadata, at) = match change {
        MemoryWrite::Set {
            key,
            value,
            metadata,
            at_unix_ms,
        } => ("set", key.as_str(), value.as_str(), metadata, *at_unix_ms),
        MemoryWrite::Remove { key } => ("remove", key.as_str(), "", &none, None),
        MemoryWrite::Clear => ("clear", "", "", &none, None),
    };
    let at = at.or(now).map(|at| at.to_string());
    call.arg(kind)
        .arg(key)
        .arg(value)
        .arg(to_text(metadata).unwrap_or_default())
        .arg(metadata::bytes(metadata))
        .arg(at.unwrap_or_default())
}
