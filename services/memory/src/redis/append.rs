//! What is appended without ownership: commands, and changes of session memory by clients.

use super::answer::Status;
use super::claim::MAX_CLAIMS;
use super::commit::change;
use super::failure::Effect;
use super::inner::Inner;
use super::journal;
use super::keys::Session;
use super::script::{Call, Odd, Reply};
use super::witness::Mark;
use crate::fingerprint::Fingerprint;
use crate::memory_event::memory_event;
use crate::port::{
    AppendCommand, Appended, Lease, MemoryWrite, MemoryWriter, Room, SessionKey, StoreResult, Taken,
};
use bytes::Bytes;
use cairn_rpc::Principal;
use std::slice::from_ref;

/// Who is to be told of a command: `owner`, whoever claims (`work`), or `nobody`.
struct Wake {
    word: String,
    owner: String,
}

impl Inner {
    /// See [`Store::append_command`](crate::port::Store::append_command).
    pub(super) async fn append_command(&self, command: AppendCommand) -> StoreResult<Appended> {
        self.limits.check_command(&command)?;
        let names = self.names.session(&command.key);
        let partition = names.partition.number;
        let call = self.append_call(&names, &command);
        let (appended, accepted_losses, wake) = self
            .run_commit(partition, call, |status, reply| {
                self.appended(status, reply)
            })
            .await?;
        let AppendCommand { key, event, .. } = command;
        // What a repeat brings may be another event than what is stored.
        let is_stored = wake.is_some() && appended.seq > 0;
        let mark = mark_at(accepted_losses, appended.seq, is_stored.then_some(&event));
        self.servers.witness.saw(partition, &names.member, mark);
        match &wake {
            Some(Wake { word, owner }) if word == "owner" => self.hub.wake(owner, &key),
            Some(Wake { word, .. }) if word == "work" => self.queue.mark(&self.hub, partition),
            _ => {}
        }
        if is_stored {
            self.hub.accepted(&key, accepted_losses);
            self.announce(&key, appended.seq, &[event]);
        }
        Ok(appended)
    }

    fn append_call(&self, names: &Session, command: &AppendCommand) -> Call<'_> {
        let (partition, namespace) = (&names.partition, command.key.namespace());
        let keys = [
            names.hash(),
            names.journal(),
            names.requests(),
            partition.due(),
            names.followers(),
            partition.work(),
            partition.changed(namespace),
            partition.leases(),
            partition.newer(),
        ];
        // A session that is known to lack something is not to be worked on.
        let known_loss = self.servers.witness.known_loss(&command.key);
        let lease = command.lease.as_ref().filter(|_| known_loss.is_none());
        let (most_events, most_bytes) = self.limits.journal_room(Room::Command);
        (self.scripts.append.call(&keys))
            .arg(&names.member)
            .arg(&self.process)
            .arg(&command.request.id)
            .arg(&command.request.digest[..])
            .arg(&command.event[..])
            .arg(most_events)
            .arg(most_bytes)
            .arg(self.limits.unseen_bytes)
            .arg(u8::from(command.repeat_only))
            .arg(journal::sums(from_ref(&command.event)))
            .arg(lease.map_or("", |lease| lease.owner.as_str()))
            .arg(lease.map_or(0, |lease| lease.lease_ms))
            .arg(&command.operation_id)
            .arg(MAX_CLAIMS)
            .arg(command.needs.number())
            .arg(command.level.number())
    }

    /// The answer, how many losses had been accepted, and who is to be told, which a repeat does not say.
    fn appended(
        &self,
        status: Status,
        reply: &mut Reply,
    ) -> Result<(Appended, u64, Option<Wake>), Odd> {
        let duplicate = status == Status::Duplicate;
        let (seq, quarantined) = (reply.number()?, reply.int()? == 1);
        let accepted_losses = reply.number()?;
        let now = reply.int()?;
        let appended = Appended {
            duplicate,
            seq,
            quarantined,
            taken: taken(reply)?,
            now_unix_ms: self.servers.time.take(now),
        };
        let wake = match duplicate {
            true => None,
            false => Some(Wake {
                word: reply.text()?,
                owner: reply.text()?,
            }),
        };
        Ok((appended, accepted_losses, wake))
    }

    /// See [`Store::write_memory`](crate::port::Store::write_memory).
    pub(super) async fn write_memory(
        &self,
        key: &SessionKey,
        write: &MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64> {
        self.limits.check_memory(write)?;
        let names = self.names.session(key);
        let keys = [
            names.hash(),
            names.journal(),
            names.memory(),
            names.followers(),
            names.partition.changed(key.namespace()),
        ];
        let (most_keys, most_memory) = self.limits.memory_room(MemoryWriter::Client);
        let (most_events, most_bytes) = self.limits.journal_room(Room::Normal);
        let now = match self.servers.time.estimate() {
            Some(now) => now,
            None => self.now().await?,
        };
        let event = Bytes::from(memory_event(write, by, now));
        let call = self.scripts.memory.call(&keys);
        let call = call
            .arg(&self.process)
            .arg(&event[..])
            .arg(journal::sums(from_ref(&event)))
            .arg(most_keys)
            .arg(most_memory)
            .arg(most_events)
            .arg(most_bytes)
            .arg(self.limits.unseen_bytes)
            .arg(&names.member);
        let call = change(call, write, Some(now));
        let (seq, accepted_losses, now) = self
            .run(names.partition.number, call, Effect::Writes, |_, reply| {
                Ok((reply.number()?, reply.number()?, reply.int()?))
            })
            .await?;
        self.servers.time.take(now);
        let mark = mark_at(accepted_losses, seq, Some(&event));
        let partition = names.partition.number;
        self.servers.witness.saw(partition, &names.member, mark);
        self.hub.accepted(key, accepted_losses);
        self.announce(key, seq, &[event]);
        Ok(seq)
    }
}

/// The lease that a command took, if it did. On Redis no holder is ever proven dead.
fn taken(reply: &mut Reply) -> Result<Option<Taken>, Odd> {
    let (epoch, until_unix_ms) = (reply.int()?, reply.int()?);
    Ok(u64::try_from(epoch).ok().map(|epoch| Taken {
        lease: Lease {
            epoch,
            until_unix_ms,
        },
        previous_holder_dead: false,
    }))
}

/// Somebody is told of an event.
fn mark_at(accepted_losses: u64, seq: u64, event: Option<&Bytes>) -> Mark {
    Mark {
        accepted_losses,
        seq,
        event: event.map(|event| Fingerprint::of(seq, event)),
        ..Mark::default()
    }
}
