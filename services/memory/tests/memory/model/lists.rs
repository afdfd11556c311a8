//! Listings, in both orders and with a filter.

use super::Run;
use cairn_memory::port::*;

impl Run {
    /// The listings are as the reference has them; these are all sessions, newest first.
    pub(super) async fn compare_lists(&self, mut listed: Vec<SessionEntry>) {
        let store = self.store();
        let list = async |query: ListQuery| store.list("space", &query).await.unwrap().sessions;
        assert_eq!(list(ListQuery::newest(10)).await, listed);
        let mut asking = ListQuery::newest(10);
        asking.filter.has_pending = true;
        let with_questions = listed.iter().filter(|entry| !entry.pending.is_empty());
        let with_questions: Vec<_> = with_questions.cloned().collect();
        assert_eq!(list(asking).await, with_questions);
        let last = ListQuery {
            order: ListOrder::Changed,
            ..ListQuery::newest(10)
        };
        let place = |entry: &SessionEntry| (entry.updated_unix_ms / 100, entry.session.clone());
        listed.sort_by_key(|entry| std::cmp::Reverse(place(entry)));
        assert_eq!(list(last).await, listed);
    }
}

/// The open questions after a transition.
pub(super) fn open_questions(number: u64) -> Vec<PendingKind> {
    let open = PendingKind {
        kind: 3,
        since_unix_ms: 1_800_000_000_000,
        count: 1,
    };
    vec![open; usize::from(number.is_multiple_of(4))]
}
