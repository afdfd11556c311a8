//! The owner's transition.

use super::claim_count::ClaimCount;
use super::memory::{MemoryPlan, MemorySize};
use super::operation::{Operation, Stop, Tx};
use super::pack::Packed;
use super::row::Session;
use super::schema::to_i64;
use super::{checkpoint, journal, memory, waiting};
use crate::checksum::of_checkpoint;
use crate::hub::Hub;
use crate::port::{
    Commit, Committed, LeaseChange, MemoryWriter, Room, SessionKey, StoreError, StoredEvent,
};
use rusqlite::params;

/// Touches no indexed column: the common transition changes two pages.
pub(super) const UPDATE: &str = "UPDATE session SET updated_ms = ?2, status = ?3, version = ?4, \
    last_seq = ?5, journal_bytes = ?6, handled_through = ?7, floor_seq = ?5, unseen_bytes = 0, \
    op_id = ?8, op_first_seq = ?9, lease_until_ms = ?10, claims = ?11, memory_keys = ?12, memory_bytes = ?13, \
    title = ?14, agent = ?15, tokens = ?16, cost_nano_usd = ?17 WHERE sid = ?1";

const LET_GO: &str = "UPDATE session SET owner = NULL, holder = NULL, lease_until_ms = 0, due_ms = ?2 WHERE sid = ?1";

/// See [`Store::commit`](crate::port::Store::commit).
pub(super) struct CommitOp {
    commit: Commit,
    packed: Packed,
    /// The checksum of the checkpoint.
    sum: u32,
    happened: Option<Happened>,
}

struct Happened {
    first_seq: u64,
    queued: bool,
}

impl CommitOp {
    pub(super) fn new(commit: Commit) -> Self {
        let packed = Packed::new(&commit.events);
        let sum = commit.checkpoint.as_ref().map_or(0, of_checkpoint);
        Self {
            commit,
            packed,
            sum,
            happened: None,
        }
    }

    fn check(&self, tx: &Tx<'_>, session: &Session) -> Result<(), Stop> {
        let commit = &self.commit;
        if session.version < commit.version {
            return Err(StoreError::WentBack {
                known: commit.version,
                stored: session.version,
            }
            .into());
        }
        if !session.is_owned_by(&commit.owner, commit.epoch) && !tx.takes_anybody() {
            return Err(StoreError::Fenced.into());
        }
        let folded = commit.checkpoint.as_ref().map_or(0, |c| c.through_seq);
        let known = session.floor_seq..=session.last_seq;
        let is_plausible = session.version == commit.version
            && known.contains(&commit.seen_seq)
            && commit.header.handled_through <= commit.seen_seq
            && folded <= commit.seen_seq;
        let is_possible = is_plausible || tx.takes_anybody() && commit.seen_seq <= session.last_seq;
        if !is_possible {
            return Err(StoreError::Conflict.into());
        }
        if self.packed.count == 0 {
            return Ok(());
        }
        let room = if commit.from_reserve {
            Room::Reserve
        } else {
            Room::Normal
        };
        let events = session.last_seq + self.packed.count;
        let bytes = session.journal_bytes + self.packed.bytes;
        tx.limits().check_journal(events, bytes, room)?;
        Ok(())
    }

    fn write(
        &mut self,
        tx: &Tx<'_>,
        session: &Session,
        size: MemorySize,
        park: bool,
    ) -> Result<i64, Stop> {
        let commit = &self.commit;
        let first_seq = session.last_seq + 1;
        journal::append(tx.conn, session.sid, first_seq, &mut self.packed)?;
        for change in &commit.memory_writes {
            memory::write(tx.conn, session.sid, change, tx.now)?;
        }
        if let Some(made) = &commit.checkpoint {
            checkpoint::keep(tx.conn, session.sid, made, self.sum)?;
        }
        let lease_until = tx.lease_until(commit.lease_ms);
        tx.conn.prepare_cached(UPDATE)?.execute(params![
            session.sid,
            tx.now,
            commit.header.status.number(),
            to_i64(session.version + 1),
            to_i64(session.last_seq + self.packed.count),
            to_i64(session.journal_bytes + self.packed.bytes),
            to_i64(commit.header.handled_through),
            commit.operation_id,
            to_i64(first_seq),
            lease_until,
            self.claims(session, park),
            to_i64(size.keys),
            to_i64(size.bytes),
            commit.header.title,
            commit.header.agent,
            to_i64(commit.header.tokens),
            to_i64(commit.header.cost_nano_usd),
        ])?;
        session.note_change(tx.conn, tx.now, Some(&commit.header))?;
        session.raise_needs(tx.conn, commit.header.needs)?;
        waiting::note(
            tx.conn,
            session.sid,
            &session.waits_for,
            &commit.header,
            tx.now,
        )?;
        Ok(lease_until)
    }

    /// The claims without progress after this transition.
    fn claims(&self, session: &Session, park: bool) -> ClaimCount {
        if self.packed.count > 0 && !self.commit.no_progress {
            return ClaimCount::default();
        }
        // Letting go on purpose is a clean end, not a crash.
        match park {
            true => session.claims.released(),
            false => session.claims.confirmed(),
        }
    }
}

impl Operation for CommitOp {
    type Answer = Committed;

    fn transition_of(&self) -> Option<&SessionKey> {
        Some(&self.commit.key)
    }

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Committed, Stop> {
        self.happened = None;
        let commit = &self.commit;
        let mut session = Session::living(tx.conn, &commit.key)?;
        let last = Some(session.version) == commit.version.checked_add(1)
            && session.op_id == commit.operation_id;
        if last && !tx.takes_again() {
            return duplicate(tx, commit, &session);
        }
        if last {
            (session.version, session.floor_seq) = (commit.version, commit.seen_seq);
        }
        self.check(tx, &session)?;
        let size = MemoryPlan::new(tx.conn, &session).after(
            &commit.memory_writes,
            tx.limits(),
            MemoryWriter::Owner,
        )?;
        let others = others(tx, &session, commit.seen_seq, session.last_seq)?;

        let unhandled = session.last_command_seq > commit.header.handled_through;
        let park = match commit.lease {
            LeaseChange::Park { due_unix_ms } if !unhandled => Some(due_unix_ms),
            LeaseChange::Park { .. } | LeaseChange::Renew => None,
        };
        let lease_until = self.write(tx, &session, size, park.is_some())?;
        if let Some(due) = park {
            tx.conn
                .prepare_cached(LET_GO)?
                .execute(params![session.sid, due])?;
        }
        tx.step();
        self.happened = Some(Happened {
            first_seq: session.last_seq + 1,
            queued: park.flatten().is_some(),
        });
        let events = session.last_seq + self.packed.count;
        let bytes = session.journal_bytes + self.packed.bytes;
        Ok(Committed {
            duplicate: false,
            first_seq: session.last_seq + 1,
            others,
            lease_until_unix_ms: park.is_none().then_some(lease_until),
            now_unix_ms: tx.now,
            journal_permille: tx.limits().journal_permille(events, bytes),
        })
    }

    fn announce(&self, hub: &Hub) {
        let Some(happened) = &self.happened else {
            return;
        };
        announce_events(
            hub,
            &self.commit.key,
            happened.first_seq,
            &self.commit.events,
        );
        if happened.queued {
            hub.work();
        }
    }
}

/// Tells followers of new events; the fold of none is nothing to tell.
pub(super) fn announce_events(
    hub: &Hub,
    key: &SessionKey,
    first_seq: u64,
    events: &[bytes::Bytes],
) {
    if !events.is_empty() {
        hub.appended(key, first_seq, events);
    }
}

/// The answer that the transition got when it happened, and whether its owner still is one.
fn duplicate(tx: &Tx<'_>, commit: &Commit, session: &Session) -> Result<Committed, Stop> {
    let owned = session.is_owned_by(&commit.owner, commit.epoch);
    let first_seq = session.op_first_seq;
    Ok(Committed {
        duplicate: true,
        first_seq,
        others: others(tx, session, commit.seen_seq, first_seq.saturating_sub(1))?,
        lease_until_unix_ms: owned.then_some(session.lease_until_ms),
        now_unix_ms: tx.now,
        journal_permille: tx
            .limits()
            .journal_permille(session.last_seq, session.journal_bytes),
    })
}

/// What others appended after `seen` and up to `last`. They fit in one answer, because nobody may
/// append more than a little above what an owner has seen.
fn others(tx: &Tx<'_>, session: &Session, seen: u64, last: u64) -> Result<Vec<StoredEvent>, Stop> {
    journal::read(
        tx.conn,
        session.sid,
        (seen + 1, last),
        usize::MAX,
        usize::MAX,
    )
}
