//! A session's row, as far as operations look at it.

use super::claim_count::ClaimCount;
use super::memory::MemorySize;
use super::operation::Stop;
use super::schema::{to_i64, to_u64};
use crate::port::{
    End, Header, Lease, Level, Quarantine, SessionKey, SessionStatus, StoreError, pending_of,
    pending_text, tenth, waits_of,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) const LOAD: &str = "SELECT sid, iif(deleted_ms IS NULL, NULL, status), status, version, last_seq, journal_bytes, \
    handled_through, last_command_seq, floor_seq, unseen_bytes, op_id, op_first_seq, epoch, owner, \
    lease_until_ms, claims, quarantined, memory_keys, memory_bytes, blob_bytes, title, \
    agent, tokens, cost_nano_usd, pending, changed, \
    holder_dead, taken, needs, (SELECT waits_for FROM waiting WHERE waiting.sid = session.sid) \
    FROM session WHERE namespace = ?1 AND id = ?2";

/// What `session` holds of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) sid: i64,
    /// How it ended, if it is no more.
    pub(super) end: Option<End>,
    pub(super) status: SessionStatus,
    pub(super) version: u64,
    pub(super) last_seq: u64,
    pub(super) journal_bytes: u64,
    pub(super) handled_through: u64,
    pub(super) last_command_seq: u64,
    /// An owner has seen everything up to here: its last transition, or what there was when it
    /// claimed.
    pub(super) floor_seq: u64,
    /// Bytes that others appended above the floor.
    pub(super) unseen_bytes: u64,
    pub(super) op_id: String,
    pub(super) op_first_seq: u64,
    pub(super) epoch: u64,
    pub(super) owner: Option<String>,
    pub(super) lease_until_ms: i64,
    pub(super) claims: ClaimCount,
    pub(super) quarantined: Option<Quarantine>,
    pub(super) memory: MemorySize,
    pub(super) blob_bytes: u64,
    title: String,
    agent: String,
    tokens: u64,
    cost_nano_usd: u64,
    /// As [`pending_text`] writes it.
    pending: String,
    /// The tenth of a second of the last change.
    changed: u64,
    /// The last holder is proven dead, and nobody has owned it since.
    pub(super) holder_dead: bool,
    /// How the lease was taken with a command, if one ever was.
    pub(super) taking: Option<Taking>,
    /// The level of an owner that can read it.
    pub(super) needs: Level,
    /// As [`waits_text`](crate::port::waits_text) writes it.
    pub(super) waits_for: String,
}

/// A lease that was taken with a command.
#[derive(Debug)]
pub(super) struct Taking {
    /// The epoch that it began.
    pub(super) epoch: u64,
    /// The owner's transitions before it.
    pub(super) version: u64,
    /// What was answered of the holder before.
    pub(super) holder_dead: bool,
    pub(super) operation_id: String,
}

impl Taking {
    /// As the column has it.
    pub(super) fn text(&self) -> String {
        let Self {
            epoch,
            version,
            holder_dead,
            operation_id,
        } = self;
        format!(
            "{epoch} {version} {} {operation_id}",
            u8::from(*holder_dead)
        )
    }

    fn of(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        Some(Self {
            epoch: parts.next()?.parse().ok()?,
            version: parts.next()?.parse().ok()?,
            holder_dead: parts.next()? == "1",
            operation_id: parts.next()?.to_owned(),
        })
    }
}

impl Session {
    /// A session, deleted or not.
    pub(super) fn find(conn: &Connection, key: &SessionKey) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(LOAD)?
            .query_row(params![key.namespace(), key.session()], Self::from_row)
            .optional()
    }

    /// A session that was not deleted.
    pub(super) fn living(conn: &Connection, key: &SessionKey) -> Result<Self, Stop> {
        match Self::find(conn, key)? {
            None => Err(StoreError::NotFound.into()),
            Some(session) => match session.end {
                Some(end) => Err(StoreError::Terminal(end).into()),
                None => Ok(session),
            },
        }
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |index| row.get(index).map(to_u64);
        Ok(Self {
            sid: row.get(0)?,
            end: row.get::<_, Option<i64>>(1)?.map(End::of_number),
            status: SessionStatus::of_number(row.get(2)?),
            version: number(3)?,
            last_seq: number(4)?,
            journal_bytes: number(5)?,
            handled_through: number(6)?,
            last_command_seq: number(7)?,
            floor_seq: number(8)?,
            unseen_bytes: number(9)?,
            op_id: row.get(10)?,
            op_first_seq: number(11)?,
            epoch: number(12)?,
            owner: row.get(13)?,
            lease_until_ms: row.get(14)?,
            claims: row.get(15)?,
            quarantined: Quarantine::of_number(row.get(16)?),
            memory: MemorySize {
                keys: number(17)?,
                bytes: number(18)?,
            },
            blob_bytes: number(19)?,
            title: row.get(20)?,
            agent: row.get(21)?,
            tokens: number(22)?,
            cost_nano_usd: number(23)?,
            pending: row.get(24)?,
            changed: number(25)?,
            holder_dead: row.get(26)?,
            taking: row
                .get::<_, Option<String>>(27)?
                .as_deref()
                .and_then(Taking::of),
            needs: Level::of_stored(row.get(28)?),
            waits_for: row.get::<_, Option<String>>(29)?.unwrap_or_default(),
        })
    }

    pub(super) fn is_owned_by(&self, owner: &str, epoch: u64) -> bool {
        self.epoch == epoch && self.owner.as_deref() == Some(owner)
    }

    pub(super) fn into_header(self) -> Header {
        Header {
            status: self.status,
            handled_through: self.handled_through,
            title: self.title,
            agent: self.agent,
            tokens: self.tokens,
            cost_nano_usd: self.cost_nano_usd,
            pending: pending_of(&self.pending),
            needs: self.needs,
            waits_for: waits_of(&self.waits_for),
        }
    }

    /// Keeps for listings when the session changed, and its open questions if there is a new header.
    pub(super) fn note_change(
        &self,
        conn: &Connection,
        now: i64,
        header: Option<&Header>,
    ) -> rusqlite::Result<()> {
        let pending = match header {
            Some(header) => pending_text(&header.pending),
            None => self.pending.clone(),
        };
        let changed = tenth(now);
        if changed == self.changed && pending == self.pending {
            return Ok(());
        }
        conn.prepare_cached("UPDATE session SET changed = ?2, pending = ?3 WHERE sid = ?1")?
            .execute(params![self.sid, to_i64(changed), pending])?;
        Ok(())
    }

    /// Raises the level that the session needs; nothing lowers it.
    pub(super) fn raise_needs(&self, conn: &Connection, needs: Level) -> rusqlite::Result<()> {
        if needs > self.needs {
            conn.prepare_cached("UPDATE session SET needs = ?2 WHERE sid = ?1")?
                .execute(params![self.sid, needs.number()])?;
        }
        Ok(())
    }

    pub(super) fn lease(&self) -> Lease {
        Lease {
            epoch: self.epoch,
            until_unix_ms: self.lease_until_ms,
        }
    }

    pub(super) fn has_unhandled(&self) -> bool {
        self.last_command_seq > self.handled_through
    }
}

/// A request that was made of a session before: its digest and the number that it got.
pub(super) fn find_request(
    conn: &Connection,
    sid: i64,
    id: &str,
) -> rusqlite::Result<Option<(Vec<u8>, u64)>> {
    conn.prepare_cached("SELECT digest, seq FROM request WHERE sid = ?1 AND id = ?2")?
        .query_row(params![sid, id], |row| {
            Ok((row.get(0)?, to_u64(row.get(1)?)))
        })
        .optional()
}

/// Remembers a request for the session's life.
pub(super) fn keep_request(
    conn: &Connection,
    sid: i64,
    id: &str,
    digest: &[u8],
    seq: u64,
) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO request (sid, id, digest, seq) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![sid, id, digest, to_i64(seq)])?;
    Ok(())
}

/// No request has this name. Losses that were accepted are counted under it, so that files of before
/// need no other table.
const ACCEPTED_LOSSES: &str = "";

/// How often somebody has accepted that acknowledged writes of a session are lost.
pub(super) fn accepted_losses(conn: &Connection, sid: i64) -> rusqlite::Result<u64> {
    let found = find_request(conn, sid, ACCEPTED_LOSSES)?;
    Ok(found.map_or(0, |(_, losses)| losses))
}

/// Somebody has once more.
pub(super) fn count_accepted_loss(conn: &Connection, sid: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO request (sid, id, digest, seq) VALUES (?1, ?2, x'', 1) \
         ON CONFLICT (sid, id) DO UPDATE SET seq = seq + 1",
    )?
    .execute(params![sid, ACCEPTED_LOSSES])?;
    Ok(())
}
