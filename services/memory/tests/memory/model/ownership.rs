//! Claims and renewals.

use super::Run;
use crate::support::ops::{LEASE, SESSIONS, key, level, name};
use cairn_memory::port::*;
use std::time::Duration;

impl Run {
    pub(super) async fn claim(&mut self, owner: u8) {
        let request = ClaimRequest {
            owner: name(owner),
            max_sessions: 100,
            lease_ms: LEASE,
            wait: Duration::ZERO,
            only: None,
            level: level(owner),
        };
        let want = self.reference.claim(&name(owner), LEASE, level(owner));
        let mut got = self.store().claim(request).await.unwrap();
        got.claims.sort_by(|a, b| a.key.cmp(&b.key));
        got.woken.sort();
        assert_eq!(got, want);
        for claim in got.claims {
            let page = self.store().read(&claim.key, u64::MAX, 1).await.unwrap();
            let session = claim.key.session().trim_start_matches('s').parse().unwrap();
            let belief = self.belief((owner, session));
            belief.epoch = claim.lease.epoch;
            (belief.version, belief.seen) = (page.version, page.last_seq);
        }
    }

    pub(super) async fn renew(&mut self, owner: u8) {
        let mut sessions = Vec::new();
        for session in 0..SESSIONS {
            let epoch = self.belief((owner, session)).epoch;
            sessions.push(OwnedSession {
                key: key(session),
                epoch,
            });
        }
        let request = RenewRequest {
            owner: name(owner),
            sessions,
            lease_ms: LEASE,
        };
        let want = self.reference.renew(&request);
        assert_eq!(self.store().renew(request).await, Ok(want));
    }

    pub(super) async fn wake(&mut self, session: u8) {
        let want = self.reference.wake(&key(session));
        assert_eq!(self.store().wake(&key(session)).await, want);
    }

    /// Those that wait are as the reference has them, the longest waiting first.
    pub(super) async fn compare_waiting(&self) {
        let mut got = self.store().waiting(100).await.unwrap();
        assert!(got.is_sorted_by_key(|it| it.since_unix_ms), "{got:?}");
        got.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(got, self.reference.waiting());
    }

    pub(super) async fn release(&mut self, session: u8, owner: u8) {
        let request = ReleaseRequest {
            key: key(session),
            owner: name(owner),
            epoch: self.belief((owner, session)).epoch,
            delay_ms: 0,
        };
        let want = self.reference.release(&request);
        assert_eq!(self.store().release(request).await, want);
    }
}
