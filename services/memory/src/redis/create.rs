//! Creation and deletion.

use super::answer::Status;
use super::failure::Effect;
use super::inner::Inner;
use super::journal;
use super::keys::Session;
use super::notes::notes;
use super::witness::Mark;
use crate::fingerprint::Fingerprint;
use crate::port::{Create, Created, End, Lease, Room, SessionKey, StoreResult, waits_text};
use bytes::Bytes;

/// How long a deleted session is remembered, by the server's clock.
const TOMBSTONE_MS: i64 = 30 * 24 * 60 * 60 * 1000;

fn keys_of(names: &Session, create: &Create) -> [String; 12] {
    [
        names.hash(),
        names.journal(),
        names.requests(),
        names.partition.leases(),
        names.partition.due(),
        names.partition.living(create.key.namespace()),
        names.partition.work(),
        names.partition.resting(),
        names.partition.ending(),
        names.partition.changed(create.key.namespace()),
        names.partition.asking(create.key.namespace()),
        names.partition.waiting(),
    ]
}

impl Inner {
    /// See [`Store::create`](crate::port::Store::create).
    pub(super) async fn create(&self, create: Create) -> StoreResult<Created> {
        self.limits.check_create(&create)?;
        let names = self.names.session(&create.key);
        let partition = names.partition.number;
        let keys = keys_of(&names, &create);
        let (most_events, most_bytes) = self.limits.journal_room(Room::Normal);
        let lease = create.lease.as_ref();
        let call = self.scripts.create.call(&keys);
        let call = call
            .arg(&names.member)
            .arg(&self.process)
            .arg(&create.request.id)
            .arg(&create.request.digest[..])
            .arg(&create.operation_id)
            .arg(lease.map_or("", |lease| lease.owner.as_str()))
            .arg(lease.map_or(0, |lease| lease.lease_ms))
            .arg(create.header.status.number())
            .arg(create.header.handled_through)
            .arg(&create.header.title)
            .arg(create.last_command_seq)
            .arg(size(&create))
            .arg(most_events)
            .arg(most_bytes)
            .arg(create.events.len())
            .arg(time_to_live(&create))
            .arg(journal::sums(&create.events))
            .arg(notes(&create.header))
            .arg(create.header.needs.number())
            .arg(waits_text(&create.header.waits_for))
            .all(&create.events);
        let (created, queued, made) = self
            .run_commit(partition, call, |status, reply| {
                let now = reply.int()?;
                let (epoch, until_unix_ms) = (reply.int()?, reply.int()?);
                let lease = u64::try_from(epoch).ok().map(|epoch| Lease {
                    epoch,
                    until_unix_ms,
                });
                let created = Created {
                    duplicate: status == Status::Duplicate,
                    lease,
                    now_unix_ms: self.servers.time.take(now),
                };
                let queued = status == Status::Ok && reply.int()? == 1;
                Ok((created, queued, now))
            })
            .await?;
        if !created.duplicate {
            self.saw_creation(&names, &create.events, made);
        }
        if queued {
            self.queue.mark(&self.hub, partition);
        }
        Ok(created)
    }

    fn saw_creation(&self, names: &Session, events: &[Bytes], made_unix_ms: i64) {
        let seq = events.len() as u64;
        let mark = Mark {
            seq,
            event: events.last().map(|event| Fingerprint::of(seq, event)),
            made_unix_ms: Some(made_unix_ms),
            ..Mark::default()
        };
        let partition = names.partition.number;
        self.servers.witness.saw_new(partition, &names.member, mark);
    }

    /// See [`Store::delete`](crate::port::Store::delete), and with the last event of a session
    /// that must not have changed
    /// [`Store::delete_unchanged`](crate::port::Store::delete_unchanged).
    pub(super) async fn delete(
        &self,
        key: &SessionKey,
        unchanged: Option<u64>,
        end: End,
    ) -> StoreResult<bool> {
        let names = self.names.session(key);
        let keys = [
            names.hash(),
            names.journal(),
            names.requests(),
            names.memory(),
            names.blobs(),
            names.checkpoints(),
            names.checkpoint_numbers(),
            names.partition.leases(),
            names.partition.due(),
            names.partition.aside(),
            names.partition.living(key.namespace()),
            names.partition.resting(),
            names.partition.ending(),
            names.partition.changed(key.namespace()),
            names.partition.asking(key.namespace()),
            names.partition.newer(),
            names.partition.waiting(),
            names.followers(),
        ];
        let call = self.scripts.delete.call(&keys);
        let unchanged = unchanged.map(|last| last.to_string());
        let call = call
            .arg(&names.member)
            .arg(&self.process)
            .arg(TOMBSTONE_MS)
            .arg(end.name())
            .arg(unchanged.as_deref().unwrap_or_default());
        let (deleted, accepted_losses) = self
            .run(names.partition.number, call, Effect::Writes, |_, reply| {
                Ok((reply.int()? == 1, reply.number()?))
            })
            .await?;
        // Told by whoever did it; a session that stays continues.
        if deleted || unchanged.is_none() {
            let mark = Mark {
                accepted_losses,
                is_deleted: true,
                ..Mark::default()
            };
            let partition = names.partition.number;
            self.servers.witness.saw(partition, &names.member, mark);
            self.hub.deleted(key);
        }
        Ok(deleted)
    }
}

/// As the script takes it: empty for none.
fn time_to_live(create: &Create) -> String {
    let ttl = create.time_to_live_ms.map(|ttl| ttl.to_string());
    ttl.unwrap_or_default()
}

/// Bytes of the events.
fn size(create: &Create) -> usize {
    create.events.iter().map(|event| event.len()).sum()
}
