//! Results that a model reads in pieces.

use crate::event::ResultHandle;
use crate::limits::MAX_HANDLES;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The results of a session that are longer than a model gets at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handles {
    /// How many there have been.
    made: u32,
    /// The newest of them, oldest first.
    kept: VecDeque<ResultHandle>,
}

impl Handles {
    /// The result of that name, unless too many have come after it.
    pub fn get(&self, handle: &str) -> Option<&ResultHandle> {
        self.kept.iter().rev().find(|kept| kept.handle == handle)
    }

    /// The names that can be used, oldest first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept.iter().map(|kept| kept.handle.as_str())
    }

    /// The name of the next one.
    pub(crate) fn next_name(&self) -> String {
        format!("result-{}", self.made + 1)
    }

    pub(crate) fn keep(&mut self, whole: &ResultHandle) {
        self.made += 1;
        self.kept.push_back(whole.clone());
        if self.kept.len() > MAX_HANDLES {
            self.kept.pop_front();
        }
    }
}
