//! Whose turn it is among the sessions that are due: one of each tenant after the other, so that
//! nobody waits for all that somebody else has queued.

use std::collections::HashMap;

/// So many of the sessions of a queue that are due first are looked at. What stands behind them has
/// no turn yet: a bound to what a claim costs, however long a queue is.
pub(crate) const WINDOW: usize = 256;

/// Takes sessions in the order in which they are due, and puts the first of each namespace before
/// the second of any, and so on.
pub(crate) fn in_turn<T>(due: Vec<T>, namespace: impl Fn(&T) -> &str) -> Vec<T> {
    let mut before: HashMap<&str, usize> = HashMap::new();
    let turns = due.iter().map(|session| {
        let count = before.entry(namespace(session)).or_default();
        *count += 1;
        *count
    });
    let turns: Vec<usize> = turns.collect();
    let mut sessions: Vec<(usize, T)> = turns.into_iter().zip(due).collect();
    // Stable: within a turn, whoever has waited longest comes first.
    sessions.sort_by_key(|(turn, _)| *turn);
    sessions.into_iter().map(|(_, session)| session).collect()
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn each_namespace_has_its_turn_and_within_one_the_oldest_is_first() {
        let due = vec!["a1", "a2", "a3", "b1", "a4", "c1", "b2"];
        let turns = in_turn(due, |session| &session[..1]);
        assert_eq!(turns, ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
    }

    #[test]
    fn a_tenant_alone_is_served_in_order() {
        let due: Vec<String> = (0..9).map(|number| format!("a{number}")).collect();
        assert_eq!(in_turn(due.clone(), |session| &session[..1]), due);
    }
}
