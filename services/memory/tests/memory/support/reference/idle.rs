//! Sessions that may go.

use super::{Reference, Session};
use cairn_memory::port::*;

impl Session {
    fn is_idle(&self) -> bool {
        self.end.is_none()
            && self.header.status == SessionStatus::Idle
            && self.owner.is_none()
            && self.due.is_none()
            && !self.quarantined
            && !self.unhandled()
    }
}

impl Reference {
    pub(super) fn end(&mut self, key: &SessionKey, end: End) -> StoreResult<bool> {
        match self.living(key) {
            Err(StoreError::Terminal(_)) => Ok(false),
            Err(error) => Err(error),
            Ok(session) => {
                *session = Session {
                    end: Some(end),
                    ..Session::default()
                };
                Ok(true)
            }
        }
    }

    pub(crate) fn last_seq(&mut self, key: &SessionKey) -> u64 {
        self.living(key).map_or(1, |session| session.last())
    }

    pub(crate) fn delete_unchanged(
        &mut self,
        key: &SessionKey,
        last_seq: u64,
        end: End,
    ) -> StoreResult<bool> {
        match self.living(key) {
            Ok(session) if !session.is_idle() || session.last() != last_seq => Ok(false),
            _ => self.end(key, end),
        }
    }

    /// The sessions that may go, by key.
    pub(crate) fn idle(&self, after: Option<i64>) -> Vec<IdleSession> {
        let now = self.now;
        let may_go = |session: &Session| match (session.time_to_live, after) {
            (Some(ttl), _) => session.updated_at + ttl <= now,
            (None, Some(after)) => session.updated_at < now - after,
            (None, None) => false,
        };
        let sessions = self.sessions.iter();
        let idle = sessions.filter(|(_, session)| session.is_idle() && may_go(session));
        let idle = idle.map(|(id, session)| IdleSession {
            key: SessionKey::new("space", id.as_str()),
            last_seq: session.last(),
            updated_unix_ms: session.updated_at,
        });
        idle.collect()
    }
}
