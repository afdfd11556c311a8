//! Leases that go on, end cleanly, or are taken up again after quarantine.

use super::operation::{Operation, Stop, Tx};
use super::row::{Session, accepted_losses, count_accepted_loss};
use crate::aside;
use crate::hub::Hub;
use crate::port::{Quarantine, ReleaseRequest, RenewRequest, Renewed, SessionKey, StoreError};
use rusqlite::params;

/// Lets all leases last longer.
pub(super) const EXTEND: &str =
    "UPDATE session SET lease_until_ms = lease_until_ms + ?1 WHERE owner IS NOT NULL";

/// See [`Store::renew`](crate::port::Store::renew).
pub(super) struct RenewOp(pub(super) RenewRequest);

impl Operation for RenewOp {
    type Answer = Renewed;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Renewed, Stop> {
        let request = &self.0;
        let until = tx.lease_until(request.lease_ms);
        let mut renewed = Renewed {
            lease_until_unix_ms: until,
            now_unix_ms: tx.now,
            ..Renewed::default()
        };
        for owned in &request.sessions {
            let session = Session::find(tx.conn, &owned.key)?;
            let mine = |session: &Session| session.is_owned_by(&request.owner, owned.epoch);
            let Some(session) = session.filter(mine) else {
                renewed.lost.push(owned.key.clone());
                continue;
            };
            tx.conn
                .prepare_cached(
                    "UPDATE session SET lease_until_ms = ?2, claims = ?3 WHERE sid = ?1",
                )?
                .execute(params![session.sid, until, session.claims.confirmed()])?;
            if session.has_unhandled() {
                renewed.woken.push(owned.key.clone());
            }
        }
        Ok(renewed)
    }
}

/// See [`Store::release`](crate::port::Store::release).
pub(super) struct ReleaseOp(pub(super) ReleaseRequest);

impl Operation for ReleaseOp {
    type Answer = ();

    fn apply(&mut self, tx: &Tx<'_>) -> Result<(), Stop> {
        let ReleaseRequest {
            key,
            owner,
            epoch,
            delay_ms,
        } = &self.0;
        let session = Session::living(tx.conn, key)?;
        if session.epoch == *epoch && session.owner.is_none() {
            return Ok(());
        }
        if !session.is_owned_by(owner, *epoch) {
            return Err(StoreError::Fenced.into());
        }
        tx.conn
            .prepare_cached(
                "UPDATE session SET owner = NULL, holder = NULL, lease_until_ms = 0, \
                 due_ms = ?2, claims = ?3 WHERE sid = ?1",
            )?
            .execute(params![
                session.sid,
                tx.now + i64::from(*delay_ms),
                session.claims.released()
            ])?;
        Ok(())
    }

    fn announce(&self, hub: &Hub) {
        hub.work();
    }
}

/// See [`Store::quarantine`](crate::port::Store::set_aside).
pub(super) struct SetAsideOp {
    key: SessionKey,
    accepted_losses: Option<u64>,
    /// It was not quarantine for this before.
    is_new: bool,
}

impl SetAsideOp {
    pub(super) fn new(key: &SessionKey, accepted_losses: Option<u64>) -> Self {
        Self {
            key: key.clone(),
            accepted_losses,
            is_new: false,
        }
    }
}

impl Operation for SetAsideOp {
    type Answer = bool;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<bool, Stop> {
        let session = Session::living(tx.conn, &self.key)?;
        let accepted = accepted_losses(tx.conn, session.sid)?;
        self.is_new = false;
        if self.accepted_losses.is_some_and(|known| known < accepted) {
            return Ok(false);
        }
        tx.conn
            .prepare_cached(
                "UPDATE session SET owner = NULL, holder = NULL, lease_until_ms = 0, \
                 due_ms = NULL, quarantined = ?2 WHERE sid = ?1",
            )?
            .execute(params![session.sid, Quarantine::WritesLost.number()])?;
        self.is_new = session.quarantined != Some(Quarantine::WritesLost);
        Ok(true)
    }

    fn announce(&self, _hub: &Hub) {
        if self.is_new {
            aside::tell(&self.key, Quarantine::WritesLost);
        }
    }
}

/// See [`Store::release_quarantine`](crate::port::Store::release_quarantine).
pub(super) struct ReleaseQuarantineOp {
    pub(super) key: SessionKey,
    pub(super) accept_loss: bool,
}

impl Operation for ReleaseQuarantineOp {
    type Answer = ();

    fn apply(&mut self, tx: &Tx<'_>) -> Result<(), Stop> {
        let session = Session::living(tx.conn, &self.key)?;
        if session.quarantined == Some(Quarantine::WritesLost) && !self.accept_loss {
            return Err(StoreError::WritesLost.into());
        }
        if session.quarantined == Some(Quarantine::WritesLost) {
            count_accepted_loss(tx.conn, session.sid)?;
        }
        if session.quarantined.is_some() {
            tx.conn
                .prepare_cached(
                    "UPDATE session SET quarantined = 0, claims = 0, due_ms = ?2 WHERE sid = ?1",
                )?
                .execute(params![session.sid, tx.now])?;
        }
        Ok(())
    }

    fn announce(&self, hub: &Hub) {
        hub.work();
    }
}
