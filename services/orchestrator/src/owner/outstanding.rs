//! What a state leaves to be done, computed once for each transition.

use cairn_engine::outstanding::Work;
use cairn_engine::session::Session;
use std::collections::BTreeSet;

/// What is to be done next.
pub(super) struct Outstanding(BTreeSet<Work>);

impl Outstanding {
    /// Of a state, for an owner that has begun this work and has not just heard of it.
    pub(super) fn of(session: &Session, is_under_way: impl Fn(&Work) -> bool) -> Self {
        let has_begun = |name| is_under_way(&Work::RunStep(name));
        Self(session.outstanding_beside(has_begun).into_iter().collect())
    }

    pub(super) fn contains(&self, work: &Work) -> bool {
        self.0.contains(work)
    }

    /// Steps in the order of their plan.
    pub(super) fn iter(&self) -> impl Iterator<Item = Work> {
        self.0.iter().copied()
    }

    /// Nothing is to be done before a time to come, if at all: the session may sleep.
    pub(super) fn is_done(&self) -> bool {
        self.iter().all(|work| matches!(work, Work::Wake { .. }))
    }

    /// When the state has to be looked at again, in milliseconds since 1970 by the store's clock.
    pub(super) fn wakes_at(&self) -> Option<u64> {
        self.iter().find_map(|work| match work {
            Work::Wake { at } => Some(at),
            _ => None,
        })
    }
}
