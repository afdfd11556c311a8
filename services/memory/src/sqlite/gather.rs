//! Whether the next group is worth waiting for.
//!
//! During one sync only a few transitions arrive, so with many sessions at work groups would stay
//! small, and the processor would be busy with what a transaction costs whatever it holds. When
//! many sessions were at work just now, the thread gives them a moment to join. A session that is
//! alone, or one of a few, never waits: its time per step would only grow.

use crate::port::SessionKey;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// Transitions that are looked back at.
const LOOK_BACK: usize = 32;

/// Fewer sessions than this at work are not waited for.
const FEWEST: usize = 8;

/// One moment of waiting; the system makes it about twice as long.
pub(super) const MOMENT: Duration = Duration::from_micros(50);

/// Most moments that a group is waited for.
pub(super) const MOST_MOMENTS: u32 = 4;

/// How long the thread stays awake for the next operation.
pub(super) const AWAKE: Duration = Duration::from_micros(200);

/// Pauses of the processor between two looks; one takes some ten nanoseconds.
pub(super) const LOOK_EVERY: u32 = 16;

/// A pause of this length between operations says that nobody is at work any more.
pub(super) const QUIET: Duration = Duration::from_millis(2);

/// Which sessions made the last transitions.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<u64>);

impl Recent {
    /// A session makes a transition.
    pub(super) fn note(&mut self, session: &SessionKey) {
        if self.0.len() == LOOK_BACK {
            self.0.pop_front();
        }
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        self.0.push_back(hasher.finish());
    }

    /// What was seen says nothing any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// How many operations the next group is to have: half of the sessions at work, so that the
    /// other half works meanwhile.
    pub(super) fn wanted(&self) -> usize {
        let seen = &self.0;
        let is_first = |at: usize| !seen.iter().take(at).any(|other| *other == seen[at]);
        let sessions = (0..seen.len()).filter(|at| is_first(*at)).count();
        if sessions < FEWEST { 1 } else { sessions / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted_after(sessions: usize, transitions: usize) -> usize {
        let mut recent = Recent::default();
        for at in 0..transitions {
            let session = (at % sessions).to_string();
            recent.note(&SessionKey::new("n", session));
        }
        recent.wanted()
    }

    #[test]
    fn nobody_waits_for_itself_or_for_a_few() {
        assert_eq!(wanted_after(1, 0), 1);
        assert_eq!(wanted_after(1, 1000), 1);
        assert_eq!(wanted_after(FEWEST - 1, 1000), 1);
    }

    #[test]
    fn half_of_many_sessions_are_waited_for() {
        assert_eq!(wanted_after(8, 1000), 4);
        assert_eq!(wanted_after(20, 1000), 10);
        assert_eq!(wanted_after(500, 1000), LOOK_BACK / 2);
    }

    #[test]
    fn after_a_pause_nobody_is_waited_for() {
        let mut recent = Recent::default();
        for at in 0..100 {
            recent.note(&SessionKey::new("n", at.to_string()));
        }
        recent.forget();
        assert_eq!(recent.wanted(), 1);
    }
}
