//! Fail points around commits: debug builds only, for tests of crashes.
//!
//! A commit is what makes owners' transitions, creations, commands and documents durable, one or a group of them:
//! a COMMIT of the embedded store, a script of the shared one. A script that turns out to repeat
//! something, or is refused, has a number, too.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gets the number of the commit, from 1, and whether it is about to happen or has just happened.
/// Nobody has been answered yet in either case.
pub type CommitHook = Arc<dyn Fn(u64, When) + Send + Sync>;

/// The two sides of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing of it is durable.
    Before,
    /// All of it is durable.
    After,
}

/// What is told of commits, and how many there were.
pub(crate) struct FailPoint {
    hook: Option<CommitHook>,
    commits: AtomicU64,
}

impl FailPoint {
    pub(crate) fn new(hook: Option<CommitHook>) -> Self {
        Self {
            hook,
            commits: AtomicU64::new(0),
        }
    }

    /// Tells that a commit is about to happen, and returns its number.
    pub(crate) fn before(&self) -> u64 {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(number, When::Before);
        number
    }

    /// Tells that the commit of this number has happened.
    pub(crate) fn after(&self, number: u64) {
        self.tell(number, When::After);
    }

    fn tell(&self, number: u64, when: When) {
        if let Some(hook) = &self.hook {
            hook(number, when);
        }
    }
}

impl fmt::Debug for FailPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailPoint")
            .field("commits", &self.commits)
            .finish_non_exhaustive()
    }
}
