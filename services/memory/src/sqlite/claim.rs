//! Claiming sessions.

use super::SqliteStore;
use super::claim_count::ClaimCount;
use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use super::schema::{to_i64, to_u64};
use crate::aside;
use crate::hub::{Hub, Listener};
use crate::port::{
    Claim, ClaimRequest, Claims, Lease, Level, Quarantine, SessionKey, StoreError, StoreResult,
};
use crate::turns::WINDOW;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which a claimer relies on hints: a lease that was taken meanwhile may
/// run out before any other.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) const EXPIRED: &str = "SELECT sid, namespace, id, epoch, claims, holder_dead FROM session \
    WHERE owner IS NOT NULL AND lease_until_ms <= ?1 AND needs <= ?3 ORDER BY lease_until_ms LIMIT ?2";

pub(super) const DUE: &str = "SELECT sid, namespace, id, epoch, claims, holder_dead FROM session \
    WHERE due_ms IS NOT NULL AND due_ms <= ?1 AND needs <= ?3 ORDER BY due_ms LIMIT ?2";

pub(super) const NEXT_DUE: &str =
    "SELECT min(due_ms) FROM session WHERE due_ms IS NOT NULL AND needs <= ?1";

pub(super) const NEXT_END: &str =
    "SELECT min(lease_until_ms) FROM session WHERE owner IS NOT NULL AND needs <= ?1";

const ONLY: &str = "SELECT sid, namespace, id, epoch, claims, holder_dead FROM session \
    WHERE namespace = ?2 AND id = ?3 AND needs <= ?4 \
    AND ((owner IS NOT NULL AND lease_until_ms <= ?1) OR (due_ms IS NOT NULL AND due_ms <= ?1))";

const QUEUED: &str = "SELECT \
    (SELECT count(*) FROM session WHERE owner IS NOT NULL AND lease_until_ms <= ?1 AND needs <= ?2) \
    + (SELECT count(*) FROM session WHERE due_ms IS NOT NULL AND due_ms <= ?1 AND needs <= ?2)";

/// The sessions that a claimer of this level could claim now.
pub(super) fn queued(conn: &Connection, now: i64, level: Level) -> Result<u64, Stop> {
    let mut select = conn.prepare_cached(QUEUED)?;
    let count: i64 = select.query_row(params![now, level.number()], |row| row.get(0))?;
    Ok(to_u64(count))
}

impl SqliteStore {
    /// See [`Store::claim`](crate::port::Store::claim).
    pub(super) async fn claim_waiting(&self, request: ClaimRequest) -> StoreResult<Claims> {
        let deadline = Instant::now() + request.wait;
        let mut listener = Listener::new(&self.shared.hub, &request.owner);
        loop {
            let woken = listener.take();
            let operation = ClaimOp {
                owner: request.owner.clone(),
                max_sessions: request.max_sessions,
                lease_ms: request.lease_ms,
                only: request.only.clone(),
                level: request.level,
                woken,
                quarantine: Vec::new(),
            };
            let Attempt {
                claims,
                next_unix_ms,
            } = self.write(operation).await?;
            let nothing = claims.claims.is_empty() && claims.woken.is_empty();
            if !nothing || Instant::now() >= deadline {
                return Ok(claims);
            }
            // Who wants no session is not woken by those that are due.
            let next = next_unix_ms.filter(|_| request.max_sessions > 0);
            let next = next.map_or(i64::MAX, |next| next - claims.now_unix_ms);
            let pause = Duration::from_millis(u64::try_from(next).unwrap_or(0).max(1));
            let until = deadline.min(Instant::now() + pause.min(LOOK_AGAIN));
            // Looks again whether something happened or the time has come.
            let _ = tokio::time::timeout_at(until, listener.changed()).await;
        }
    }
}

/// One attempt of [`Store::claim`](crate::port::Store::claim), without waiting.
pub(super) struct ClaimOp {
    pub(super) owner: String,
    pub(super) max_sessions: usize,
    pub(super) lease_ms: u32,
    pub(super) only: Option<SessionKey>,
    /// Sessions that need more are passed over.
    pub(super) level: Level,
    /// Sessions of the owner that may have unhandled commands.
    pub(super) woken: Vec<SessionKey>,
    /// Those that were quarantined.
    pub(super) quarantine: Vec<SessionKey>,
}

/// What an attempt brought.
pub(super) struct Attempt {
    pub(super) claims: Claims,
    /// Nothing can be claimed before this time, unless something happens.
    pub(super) next_unix_ms: Option<i64>,
}

struct Candidate {
    sid: i64,
    key: SessionKey,
    epoch: u64,
    claims: ClaimCount,
    holder_dead: bool,
}

impl Candidate {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (namespace, id): (String, String) = (row.get(1)?, row.get(2)?);
        Ok(Self {
            sid: row.get(0)?,
            key: SessionKey::new(namespace, id),
            epoch: to_u64(row.get(3)?),
            claims: row.get(4)?,
            holder_dead: row.get(5)?,
        })
    }
}

impl Operation for ClaimOp {
    type Answer = Attempt;

    /// A caller that hung up would keep the sessions from everybody else for a whole lease.
    const ONLY_IF_AWAITED: bool = true;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Attempt, Stop> {
        let mut claims = Vec::new();
        self.quarantine.clear();
        if let Some(key) = self.only.clone() {
            let attempt = self.claim_only(&key, tx)?;
            follow_time_of_day(tx)?;
            return Ok(attempt);
        }
        if tx.lease_floor.get() <= tx.now {
            self.claim_from(EXPIRED, 0, tx, &mut claims)?;
        }
        follow_time_of_day(tx)?;
        self.claim_from(DUE, WINDOW, tx, &mut claims)?;
        let due: Option<i64> = tx
            .conn
            .prepare_cached(NEXT_DUE)?
            .query_row([self.level.number()], |row| row.get(0))?;
        Ok(Attempt {
            next_unix_ms: due.into_iter().chain(self.next_end(tx)?).min(),
            claims: Claims {
                claims,
                woken: self.woken(tx.conn)?,
                now_unix_ms: tx.now,
            },
        })
    }

    fn announce(&self, _hub: &Hub) {
        for key in &self.quarantine {
            aside::tell(key, Quarantine::Claims);
        }
    }
}

impl ClaimOp {
    /// When a lease ends at the earliest that this claimer can take over.
    fn next_end(&self, tx: &Tx<'_>) -> rusqlite::Result<Option<i64>> {
        match tx.lease_floor.get() {
            i64::MAX => Ok(None),
            end if end > tx.now => Ok(Some(end)),
            // It has ended, and is left to a claimer of a higher level.
            _ => earliest_end(tx.conn, self.level),
        }
    }

    /// Claims one session, if it needs an owner.
    fn claim_only(&mut self, key: &SessionKey, tx: &Tx<'_>) -> Result<Attempt, Stop> {
        let mut select = tx.conn.prepare_cached(ONLY)?;
        let most = self.level.number();
        let named = params![tx.now, key.namespace(), key.session(), most];
        let candidate = select.query_row(named, Candidate::from_row).optional()?;
        let mut claims = Vec::new();
        if let Some(candidate) = candidate.filter(|_| self.max_sessions > 0) {
            claims.extend(self.take_or_set_aside(tx, candidate)?);
        } else if let Some(end) = Session::find(tx.conn, key)?.and_then(|it| it.end) {
            return Err(StoreError::Terminal(end).into());
        }
        Ok(Attempt {
            next_unix_ms: None,
            claims: Claims {
                claims,
                woken: self.woken(tx.conn)?,
                now_unix_ms: tx.now,
            },
        })
    }

    /// Claims from a queue; with a window, one session of each namespace after the other from as
    /// many as that.
    fn claim_from(
        &mut self,
        select: &str,
        window: usize,
        tx: &Tx<'_>,
        claims: &mut Vec<Claim>,
    ) -> Result<(), Stop> {
        while claims.len() < self.max_sessions {
            let missing = self.max_sessions - claims.len();
            let looked_at = i64::try_from(missing.max(window)).unwrap_or(i64::MAX);
            let wanted = params![tx.now, looked_at, self.level.number()];
            let candidates: Vec<_> = tx
                .conn
                .prepare_cached(select)?
                .query_map(wanted, Candidate::from_row)?
                .collect::<Result<_, _>>()?;
            if candidates.is_empty() {
                break;
            }
            let turns = &tx.shared.turns;
            let candidates = match window {
                0 => candidates,
                _ => turns.take(candidates, missing, |candidate| candidate.key.namespace()),
            };
            for candidate in candidates.into_iter().take(missing) {
                claims.extend(self.take_or_set_aside(tx, candidate)?);
            }
        }
        Ok(())
    }

    fn take_or_set_aside(
        &mut self,
        tx: &Tx<'_>,
        candidate: Candidate,
    ) -> rusqlite::Result<Option<Claim>> {
        if !candidate.claims.is_full() {
            return self.take(tx, candidate).map(Some);
        }
        quarantine(tx.conn, candidate.sid)?;
        self.quarantine.push(candidate.key);
        Ok(None)
    }

    fn take(&self, tx: &Tx<'_>, candidate: Candidate) -> rusqlite::Result<Claim> {
        let lease = Lease {
            epoch: candidate.epoch + 1,
            until_unix_ms: tx.lease_until(self.lease_ms),
        };
        tx.conn
            .prepare_cached(
                "UPDATE session SET owner = ?2, holder = ?3, epoch = ?4, lease_until_ms = ?5, \
                 due_ms = NULL, claims = ?6, holder_dead = 0, floor_seq = last_seq, \
                 unseen_bytes = 0 WHERE sid = ?1",
            )?
            .execute(params![
                candidate.sid,
                self.owner,
                tx.holder_of(&self.owner),
                to_i64(lease.epoch),
                lease.until_unix_ms,
                candidate.claims.claimed(),
            ])?;
        Ok(Claim {
            key: candidate.key,
            lease,
            previous_holder_dead: candidate.holder_dead,
        })
    }

    /// Those of the hinted sessions that are still the owner's and still have something to do.
    fn woken(&self, conn: &Connection) -> rusqlite::Result<Vec<SessionKey>> {
        let mut woken = Vec::new();
        for key in &self.woken {
            let session = Session::find(conn, key)?;
            let waits = |session: &Session| {
                session.owner.as_deref() == Some(self.owner.as_str()) && session.has_unhandled()
            };
            if session.as_ref().is_some_and(waits) {
                woken.push(key.clone());
            }
        }
        Ok(woken)
    }
}

/// While nobody holds a lease, time follows the time of day.
fn follow_time_of_day(tx: &Tx<'_>) -> rusqlite::Result<()> {
    if tx.lease_floor.get() <= tx.now {
        tx.lease_floor
            .set(earliest_end(tx.conn, Level::HIGHEST)?.unwrap_or(i64::MAX));
    }
    if tx.lease_floor.get() == i64::MAX {
        tx.shared.time.set();
    }
    Ok(())
}

/// The first end of a lease of those sessions that need no more than this level.
fn earliest_end(conn: &Connection, level: Level) -> rusqlite::Result<Option<i64>> {
    let end = conn
        .prepare_cached(NEXT_END)?
        .query_row([level.number()], |row| row.get(0))
        .optional()?;
    Ok(end.flatten())
}

fn quarantine(conn: &Connection, sid: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE session SET quarantined = 1, owner = NULL, holder = NULL, lease_until_ms = 0, \
         due_ms = NULL WHERE sid = ?1",
    )?
    .execute([sid])?;
    Ok(())
}
