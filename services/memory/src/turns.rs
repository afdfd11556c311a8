//! Whose turn it is among the sessions that are due: one of each tenant after the other, so that
//! nobody waits for all that somebody else has queued.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// So many of the sessions of a queue that are due first are looked at. What stands behind them has
/// no turn yet: a bound to what a claim costs, however long a queue is.
pub(crate) const WINDOW: usize = 256;

/// Namespaces of which is known when they had their turn last.
const MOST: usize = 10_000;

/// Who had a turn when, from claim to claim of a process: one that has room for a single session takes
/// that of the namespace which has waited longest for its turn.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Served>);

#[derive(Debug, Default)]
struct Served {
    /// Sessions that had a turn.
    turns: u64,
    /// Which of them was the last of a namespace.
    last: HashMap<String, u64>,
}

impl Turns {
    /// Takes sessions in the order in which they are due, and gives as many as there is room for: the
    /// first of each namespace before the second of any, and so on; among the first, that of the
    /// namespace whose last turn is the longest ago.
    pub(crate) fn take<T>(
        &self,
        due: Vec<T>,
        room: usize,
        namespace: impl Fn(&T) -> &str,
    ) -> Vec<T> {
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before: HashMap<&str, usize> = HashMap::new();
        let places = due.iter().map(|session| {
            let namespace = namespace(session);
            let count = before.entry(namespace).or_default();
            *count += 1;
            (*count, served.last.get(namespace).copied().unwrap_or(0))
        });
        let places: Vec<(usize, u64)> = places.collect();
        let mut sessions: Vec<_> = places.into_iter().zip(due).collect();
        // Stable: of those that are alike, whoever has waited longest comes first.
        sessions.sort_by_key(|(place, _)| *place);
        sessions.truncate(room);
        let sessions: Vec<T> = sessions.into_iter().map(|(_, session)| session).collect();
        served.note(sessions.iter().map(namespace));
        sessions
    }
}

impl Served {
    fn note<'a>(&mut self, namespaces: impl Iterator<Item = &'a str>) {
        for namespace in namespaces {
            self.turns += 1;
            match self.last.get_mut(namespace) {
                Some(last) => *last = self.turns,
                None => {
                    // Everybody begins anew then, which keeps nobody waiting for long.
                    if self.last.len() >= MOST {
                        self.last.clear();
                    }
                    self.last.insert(namespace.to_owned(), self.turns);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(turns: &Turns, due: &[&'static str], room: usize) -> Vec<&'static str> {
        turns.take(due.to_vec(), room, |session| &session[..1])
    }

    #[test]
    fn each_namespace_has_its_turn_and_within_one_the_oldest_is_first() {
        let due = ["a1", "a2", "a3", "b1", "a4", "c1", "b2"];
        let turns = take(&Turns::default(), &due, 7);
        assert_eq!(turns, ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
    }

    #[test]
    fn a_tenant_alone_is_served_in_order() {
        let due = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
        assert_eq!(take(&Turns::default(), &due, 9), due);
    }

    #[test]
    fn turns_go_on_from_claim_to_claim() {
        let turns = Turns::default();
        assert_eq!(take(&turns, &["a1", "a2", "b1", "c1"], 1), ["a1"]);
        assert_eq!(take(&turns, &["a2", "b1", "c1"], 1), ["b1"]);
        assert_eq!(take(&turns, &["a2", "b2", "c1"], 2), ["c1", "a2"]);
        assert_eq!(take(&turns, &["a3", "b2"], 1), ["b2"]);
    }
}
