//! What a state leaves to be done, computed once for each transition.

use cairn_engine::outstanding::Work;
use cairn_engine::state::Session;
use std::collections::BTreeSet;

/// What is to be done next.
pub(super) struct Outstanding {
    wanted: BTreeSet<Work>,
    ends: BTreeSet<Work>,
}

impl Outstanding {
    /// Of a state, and of the work that is under way and has not just reported.
    pub(super) fn of(session: &Session, under_way: impl Iterator<Item = Work>) -> Self {
        let wanted: BTreeSet<Work> = session.outstanding().into_iter().collect();
        let ends = |work: &Work| match work {
            Work::RunStep(name) => !wanted.contains(work) && session.asks_model(*name),
            _ => false,
        };
        let ends = under_way.filter(ends).collect();
        Self { wanted, ends }
    }

    pub(super) fn contains(&self, work: &Work) -> bool {
        self.wanted.contains(work)
    }

    /// It is not to go on, but to end what it has begun: the answer of a model is on its way.
    pub(super) fn ends(&self, work: &Work) -> bool {
        self.ends.contains(work)
    }

    /// Steps in the order of their plan.
    pub(super) fn iter(&self) -> impl Iterator<Item = Work> {
        self.wanted.iter().copied()
    }

    /// Nothing is to be done before a time to come, if at all: the session may sleep.
    pub(super) fn is_done(&self) -> bool {
        self.ends.is_empty() && self.iter().all(|work| matches!(work, Work::Wake { .. }))
    }

    /// When the state has to be looked at again, in milliseconds since 1970 by the store's clock.
    pub(super) fn wakes_at(&self) -> Option<u64> {
        self.iter().find_map(|work| match work {
            Work::Wake { at } => Some(at),
            _ => None,
        })
    }
}
