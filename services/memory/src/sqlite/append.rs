//! What is appended without ownership: commands, and changes of session memory by clients.

use super::journal;
use super::operation::{Operation, Stop, Tx};
use super::pack::Packed;
use super::row::{Session, find_request, keep_request};
use super::schema::to_i64;
use crate::hub::Hub;
use crate::port::{AppendCommand, Appended, Limit, Room, StoreError, at_most};
use bytes::Bytes;
use rusqlite::params;

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
    /// Nobody: the session is set aside.
    Nobody,
}

impl AppendOp {
    pub(super) fn new(command: AppendCommand) -> Self {
        Self {
            command,
            happened: None,
        }
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
            return Ok(Appended {
                duplicate: true,
                seq,
                quarantined: session.quarantined.is_some(),
            });
        }
        if command.repeat_only {
            return Ok(Appended {
                duplicate: false,
                seq: 0,
                quarantined: session.quarantined.is_some(),
            });
        }
        let seq = append_unowned(tx, &session, command.event.clone(), Room::Command)?.seq;
        keep_request(tx.conn, session.sid, &request.id, &request.digest, seq)?;
        let wake = wake(tx, &session, seq)?;
        tx.step();
        self.happened = Some(Happened { seq, wake });
        Ok(Appended {
            duplicate: false,
            seq,
            quarantined: session.quarantined.is_some(),
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

/// Notes the command, and queues the session unless somebody owns it: then it is its owner's, or
/// claimable as soon as the lease has run out.
fn wake(tx: &Tx<'_>, session: &Session, seq: u64) -> rusqlite::Result<Wake> {
    tx.conn
        .prepare_cached("UPDATE session SET last_command_seq = ?2 WHERE sid = ?1")?
        .execute(params![session.sid, to_i64(seq)])?;
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
