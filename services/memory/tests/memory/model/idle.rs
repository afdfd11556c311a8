//! Sessions that may go, and their end.

use super::Run;
use crate::support::ops::{ends, key};

impl Run {
    /// What may go is named, and nothing else; but for sessions that were named before and not
    /// taken, because no time has passed since.
    pub(super) async fn idle(&mut self, after: Option<u16>) {
        let want = self.reference.idle(after.map(i64::from));
        let mut got = self.store().idle(after.map(u64::from), 100).await.unwrap();
        got.sort_by(|a, b| a.key.cmp(&b.key));
        if self.looked == self.reference.now {
            assert!(got.iter().all(|idle| want.contains(idle)), "{got:?}");
        } else {
            assert_eq!(got, want);
        }
        self.looked = self.reference.now;
    }

    pub(super) async fn end(&mut self, session: u8, is_current: bool, end: u8) {
        let (key, end) = (key(session), ends()[usize::from(end)]);
        let last = self.reference.last_seq(&key) - u64::from(!is_current);
        let want = self.reference.delete_unchanged(&key, last, end);
        let got = self.store().delete_unchanged(&key, last, end).await;
        assert_eq!(got, want);
    }
}
