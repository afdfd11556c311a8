//! Creation and deletion.

use super::commit::announce_events;
use super::idle;
use super::journal;
use super::operation::{Operation, Stop, Tx};
use super::pack::Packed;
use super::removal;
use super::row::{Session, find_request, keep_request};
use super::schema::to_i64;
use super::waiting;
use crate::hub::Hub;
use crate::port::{Create, Created, End, Lease, Room, SessionKey, StoreError, pending_text, tenth};
use rusqlite::{Connection, params};

const INSERT: &str = "INSERT INTO session (namespace, id, created_ms, updated_ms, status, \
    last_seq, journal_bytes, handled_through, last_command_seq, floor_seq, op_id, op_first_seq, \
    epoch, owner, holder, lease_until_ms, due_ms, title, agent, tokens, cost_nano_usd, pending, \
    changed, needs) \
    VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?5, ?9, 1, ?10, ?11, ?12, ?13, ?14, ?15, \
    ?16, ?17, ?18, ?19, ?20, ?21)";

pub(super) const FORGET: &str = "DELETE FROM session WHERE sid IN \
    (SELECT sid FROM session WHERE deleted_ms IS NOT NULL AND deleted_ms < ?1 \
    AND sid NOT IN (SELECT sid FROM removal) LIMIT 64)";

/// The same where rows of the session are left: its name is free, and its row goes with them.
pub(super) const FREE: &str = "UPDATE session SET namespace = '', id = '/' || sid, \
    updated_ms = 9223372036854775807 WHERE sid IN \
    (SELECT sid FROM session WHERE deleted_ms IS NOT NULL AND deleted_ms < ?1 AND namespace <> '' \
    AND sid IN (SELECT sid FROM removal) LIMIT 64)";

/// How long a deleted session is remembered.
const TOMBSTONE_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// See [`Store::create`](crate::port::Store::create).
pub(super) struct CreateOp {
    create: Create,
    packed: Packed,
    happened: bool,
}

impl CreateOp {
    pub(super) fn new(create: Create) -> Self {
        let packed = Packed::new(&create.events);
        Self {
            create,
            packed,
            happened: false,
        }
    }

    /// What a repeat is answered, and what somebody else who wants the same id.
    fn existing(&self, tx: &Tx<'_>, session: &Session) -> Result<Created, Stop> {
        if let Some(end) = session.end {
            return Err(StoreError::Terminal(end).into());
        }
        let request = &self.create.request;
        let known = find_request(tx.conn, session.sid, &request.id)?;
        if known.is_none_or(|(digest, _)| digest != request.digest) {
            return Err(StoreError::RequestMismatch.into());
        }
        // Until the first transition the operation noted is the creation.
        let same = session.version == 0 && session.op_id == self.create.operation_id;
        let lease = self
            .create
            .lease
            .as_ref()
            .filter(|lease| same && session.is_owned_by(&lease.owner, session.epoch))
            .map(|_| session.lease());
        Ok(Created {
            duplicate: true,
            lease,
            now_unix_ms: tx.now,
        })
    }

    fn insert(&self, tx: &Tx<'_>) -> rusqlite::Result<Option<Lease>> {
        let Create { key, header, .. } = &self.create;
        let lease = self.create.lease.as_ref();
        let granted = lease.map(|lease| Lease {
            epoch: 1,
            until_unix_ms: tx.lease_until(lease.lease_ms),
        });
        let waits = granted.is_none() && self.create.last_command_seq > header.handled_through;
        tx.conn.prepare_cached(INSERT)?.execute(params![
            key.namespace(),
            key.session(),
            tx.now,
            header.status.number(),
            to_i64(self.packed.count),
            to_i64(self.packed.bytes),
            to_i64(header.handled_through),
            to_i64(self.create.last_command_seq),
            self.create.operation_id,
            to_i64(granted.map_or(0, |lease| lease.epoch)),
            lease.map(|lease| &lease.owner),
            lease.and_then(|lease| tx.holder_of(&lease.owner)),
            granted.map_or(0, |lease| lease.until_unix_ms),
            waits.then_some(tx.now),
            header.title,
            header.agent,
            to_i64(header.tokens),
            to_i64(header.cost_nano_usd),
            pending_text(&header.pending),
            to_i64(tenth(tx.now)),
            header.needs.number(),
        ])?;
        Ok(granted)
    }
}

impl Operation for CreateOp {
    type Answer = Created;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Created, Stop> {
        self.happened = false;
        let create = &self.create;
        if let Some(session) = Session::find(tx.conn, &create.key)? {
            return self.existing(tx, &session);
        }
        let (count, bytes) = (self.packed.count, self.packed.bytes);
        tx.limits().check_journal(count, bytes, Room::Normal)?;
        let lease = self.insert(tx)?;
        let sid = tx.conn.last_insert_rowid();
        journal::append(tx.conn, sid, 1, &mut self.packed)?;
        idle::enter(tx.conn, sid, create.time_to_live_ms, tx.now)?;
        waiting::note(tx.conn, sid, "", &create.header, tx.now)?;
        let seq = create.last_command_seq;
        keep_request(
            tx.conn,
            sid,
            &create.request.id,
            &create.request.digest,
            seq,
        )?;
        tx.step();
        self.happened = true;
        Ok(Created {
            duplicate: false,
            lease,
            now_unix_ms: tx.now,
        })
    }

    fn announce(&self, hub: &Hub) {
        if self.happened {
            announce_events(hub, &self.create.key, 1, &self.create.events);
            hub.work();
        }
    }
}

/// See [`Store::delete`](crate::port::Store::delete) and
/// [`Store::delete_unchanged`](crate::port::Store::delete_unchanged).
pub(super) struct DeleteOp {
    key: SessionKey,
    /// The last event of a session that must be idle and unchanged.
    unchanged: Option<u64>,
    end: End,
    happened: bool,
}

impl DeleteOp {
    pub(super) fn new(key: &SessionKey, unchanged: Option<u64>, end: End) -> Self {
        Self {
            key: key.clone(),
            unchanged,
            end,
            happened: false,
        }
    }
}

impl Operation for DeleteOp {
    type Answer = bool;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<bool, Stop> {
        let Some(session) = Session::find(tx.conn, &self.key)? else {
            return Err(StoreError::NotFound.into());
        };
        self.happened = false;
        if session.end.is_some() {
            return Ok(false);
        }
        if let Some(last_seq) = self.unchanged
            && (session.last_seq != last_seq || !idle::is_idle(tx.conn, &session)?)
        {
            return Ok(false);
        }
        let sid = session.sid;
        removal::begin(tx, sid)?;
        tx.conn
            .prepare_cached(
                "UPDATE session SET deleted_ms = ?2, updated_ms = ?2, epoch = epoch + 1, \
                 status = ?3, title = '', last_seq = 0, journal_bytes = 0, op_id = '', owner = NULL, \
                 holder = NULL, lease_until_ms = 0, due_ms = NULL WHERE sid = ?1",
            )?
            .execute(params![sid, tx.now, self.end.number()])?;
        idle::leave(tx.conn, sid)?;
        waiting::leave(tx.conn, sid)?;
        forget_tombstones(tx.conn, tx.now)?;
        tx.step();
        self.happened = true;
        Ok(true)
    }

    fn announce(&self, hub: &Hub) {
        if self.happened {
            hub.deleted(&self.key);
        }
    }
}

/// Removes the marks of sessions that were deleted long ago; a few at a time, so that nobody
/// waits for it.
pub(super) fn forget_tombstones(conn: &Connection, now: i64) -> rusqlite::Result<()> {
    for sql in [FREE, FORGET] {
        conn.prepare_cached(sql)?.execute([now - TOMBSTONE_MS])?;
    }
    Ok(())
}
