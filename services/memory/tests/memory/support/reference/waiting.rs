//! Sessions that wait for capabilities.

use super::{Reference, Session};
use cairn_memory::port::*;

impl Session {
    /// Parked and not due, for a need that its owner named.
    fn waits(&self, now: i64) -> bool {
        !self.header.waits_for.is_empty()
            && self.end.is_none()
            && self.owner.is_none()
            && !self.quarantined
            && self.due.is_none_or(|due| due > now)
    }
}

impl Reference {
    /// The sessions that wait, by key.
    pub(crate) fn waiting(&self) -> Vec<WaitingSession> {
        let sessions = self.sessions.iter();
        let waiting = sessions.filter(|(_, session)| session.waits(self.now));
        let waiting = waiting.map(|(id, session)| WaitingSession {
            key: SessionKey::new("space", id.as_str()),
            since_unix_ms: session.waiting_since,
            waits_for: session.header.waits_for.clone(),
        });
        waiting.collect()
    }

    pub(crate) fn wake(&mut self, key: &SessionKey) -> StoreResult<bool> {
        let now = self.now;
        let session = self.living(key)?;
        let waits = session.waits(now);
        if waits {
            session.due = Some(now);
        }
        Ok(waits)
    }
}
