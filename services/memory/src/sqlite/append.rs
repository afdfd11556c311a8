//! What is appended without ownership: commands, and changes of session memory by clients.

use super::journal;
use super::operation::{Operation, Stop, Tx};
use super::pack::Packed;
use super::row::{Session, Taking, find_request, keep_request};
use super::schema::to_i64;
use crate::hub::Hub;
use crate::port::{AppendCommand, Appended, Lease, Limit, Room, StoreError, Taken, at_most};
use bytes::Bytes;
use rusqlite::params;

/// As a claim does, for a session whose last event is the command.
const TAKE: &str = "UPDATE session SET owner = ?2, holder = ?3, epoch = ?4, lease_until_ms = ?5, \
    due_ms = NULL, claims = ?6, holder_dead = 0, floor_seq = ?7, unseen_bytes = 0, taken = ?8 \
    WHERE sid = ?1";

/// An event that was appended.
pub(super) struct Appending {
    pub(super) seq: u64,
    pub(super) event: Bytes,
}

/// Checks the limits and appends one event. The last check of its operation.
pub(super) fn append_unowned(
    tx: &Tx<'_>,
    session: &Session,
    event: Bytes,
    room: Room,
) -> Result<Appending, Stop> {
    let mut packed = Packed::new(std::slice::from_ref(&event));
    let seq = session.last_seq + 1;
    let bytes = session.journal_bytes + packed.bytes;
    tx.limits().check_journal(seq, bytes, room)?;
    let unseen = session.unseen_bytes + packed.bytes;
    if session.owner.is_some() {
        at_most(unseen, tx.limits().unseen_bytes, Limit::UnseenBytes)?;
    }
    journal::append(tx.conn, session.sid, seq, &mut packed)?;
    tx.conn
        .prepare_cached(
            "UPDATE session SET updated_ms = ?2, last_seq = ?3, journal_bytes = ?4, \
             unseen_bytes = ?5 WHERE sid = ?1",
        )?
        .execute(params![
            session.sid,
            tx.now,
            to_i64(seq),
            to_i64(bytes),
            to_i64(unseen)
        ])?;
    session.note_change(tx.conn, tx.now, None)?;
    Ok(Appending { seq, event })
}

/// See [`Store::append_command`](crate::port::Store::append_command).
pub(super) struct AppendOp {
    command: AppendCommand,
    happened: Option<Happened>,
}

struct Happened {
    seq: u64,
    wake: Wake,
}

/// Who is to be told of a command.
enum Wake {
    /// The owner, whose lease runs.
    Owner(String),
    /// Whoever claims.
    Claimers,
    /// Nobody: the session is quarantined, or the caller's.
    Nobody,
}

impl AppendOp {
    pub(super) fn new(command: AppendCommand) -> Self {
        Self {
            command,
            happened: None,
        }
    }

    /// What is answered where nothing is appended.
    fn nothing_new(&self, tx: &Tx<'_>, session: &Session, seq: Option<u64>) -> Appended {
        Appended {
            duplicate: seq.is_some(),
            seq: seq.unwrap_or(0),
            quarantined: session.quarantined.is_some(),
            taken: seq.and_then(|_| self.taken_before(session)),
            now_unix_ms: tx.now,
        }
    }

    /// The lease that this very attempt took, if it is the caller's and no transition came since.
    fn taken_before(&self, session: &Session) -> Option<Taken> {
        let owner = &self.command.lease.as_ref()?.owner;
        let taking = session.taking.as_ref()?;
        let is_same = taking.operation_id == self.command.operation_id
            && taking.version == session.version
            && session.is_owned_by(owner, taking.epoch);
        is_same.then(|| Taken {
            lease: session.lease(),
            previous_holder_dead: taking.holder_dead,
        })
    }

    /// Takes the lease if it is asked for, none runs, and the caller can read the session.
    fn take(&self, tx: &Tx<'_>, session: &Session, seq: u64) -> rusqlite::Result<Option<Taken>> {
        let runs = session.owner.is_some() && session.lease_until_ms > tx.now;
        let Some(asked) = &self.command.lease else {
            return Ok(None);
        };
        let needs = session.needs.max(self.command.needs);
        let is_beyond = needs > self.command.level;
        if runs || is_beyond || session.quarantined.is_some() || session.claims.is_full() {
            return Ok(None);
        }
        let lease = Lease {
            epoch: session.epoch + 1,
            until_unix_ms: tx.lease_until(asked.lease_ms),
        };
        let taking = Taking {
            epoch: lease.epoch,
            version: session.version,
            holder_dead: session.holder_dead,
            operation_id: self.command.operation_id.clone(),
        };
        tx.conn.prepare_cached(TAKE)?.execute(params![
            session.sid,
            asked.owner,
            tx.holder_of(&asked.owner),
            to_i64(lease.epoch),
            lease.until_unix_ms,
            session.claims.claimed(),
            to_i64(seq),
            taking.text(),
        ])?;
        Ok(Some(Taken {
            lease,
            previous_holder_dead: session.holder_dead,
        }))
    }
}

impl Operation for AppendOp {
    type Answer = Appended;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Appended, Stop> {
        self.happened = None;
        let command = &self.command;
        let request = &command.request;
        let session = Session::living(tx.conn, &command.key)?;
        if let Some((digest, seq)) = find_request(tx.conn, session.sid, &request.id)? {
            if digest != request.digest {
                return Err(StoreError::RequestMismatch.into());
            }
            return Ok(self.nothing_new(tx, &session, Some(seq)));
        }
        if command.repeat_only {
            return Ok(self.nothing_new(tx, &session, None));
        }
        let seq = append_unowned(tx, &session, command.event.clone(), Room::Command)?.seq;
        keep_request(tx.conn, session.sid, &request.id, &request.digest, seq)?;
        note_command(tx, &session, seq)?;
        session.raise_needs(tx.conn, command.needs)?;
        let taken = self.take(tx, &session, seq)?;
        let wake = match taken {
            Some(_) => Wake::Nobody,
            None => wake(tx, &session)?,
        };
        tx.step();
        self.happened = Some(Happened { seq, wake });
        Ok(Appended {
            duplicate: false,
            seq,
            quarantined: session.quarantined.is_some(),
            taken,
            now_unix_ms: tx.now,
        })
    }

    fn hint(&self, hub: &Hub) {
        match self.happened.as_ref().map(|happened| &happened.wake) {
            Some(Wake::Owner(owner)) => hub.wake(owner, &self.command.key),
            Some(Wake::Claimers) => hub.work(),
            Some(Wake::Nobody) | None => {}
        }
    }

    fn announce(&self, hub: &Hub) {
        let AppendCommand { key, event, .. } = &self.command;
        if let Some(happened) = &self.happened {
            hub.appended(key, happened.seq, std::slice::from_ref(event));
        }
    }
}

fn note_command(tx: &Tx<'_>, session: &Session, seq: u64) -> rusqlite::Result<()> {
    tx.conn
        .prepare_cached("UPDATE session SET last_command_seq = ?2 WHERE sid = ?1")?
        .execute(params![session.sid, to_i64(seq)])?;
    Ok(())
}

/// Queues the session unless somebody owns it: then it is its owner's, or claimable as soon as the
/// lease has run out.
fn wake(tx: &Tx<'_>, session: &Session) -> rusqlite::Result<Wake> {
    if session.quarantined.is_some() {
        return Ok(Wake::Nobody);
    }
    match &session.owner {
        Some(owner) if session.lease_until_ms > tx.now => Ok(Wake::Owner(owner.clone())),
        Some(_) => Ok(Wake::Claimers),
        None => {
            tx.conn
                .prepare_cached(
                    "UPDATE session SET due_ms = ?2 WHERE sid = ?1 \
                     AND (due_ms IS NULL OR due_ms > ?2)",
                )?
                .execute(params![session.sid, tx.now])?;
            Ok(Wake::Claimers)
        }
    }
}
