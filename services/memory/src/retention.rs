//! Which checkpoints of a session are kept: one rule for all stores.
//!
//! A checkpoint only saves time, because the journal has everything that it has. The newest ones serve
//! owners that resume. Older ones serve reads of an earlier state, which are rare, so they become
//! sparser with their distance from the end.

/// Returns the checkpoints to remove from those that a session has, in rising order of their numbers.
///
/// The newest two stay: if the newest is damaged, the other one saves most of the work. An older one
/// goes if its older neighbour is less than twice as far from the newest as its younger neighbour is.
/// A read of an earlier state therefore starts at the last checkpoint that was ever made for it, or less
/// than twice as far from the newest one as that state. Of a journal of `n` events about `2 · log2(n)`
/// stay.
pub(crate) fn superseded(checkpoints: &[u64]) -> Vec<u64> {
    let mut from_newest = checkpoints.iter().rev().copied();
    let (Some(newest), Some(second)) = (from_newest.next(), from_newest.next()) else {
        return Vec::new();
    };
    let age = |seq: u64| newest.saturating_sub(seq);
    let (mut removed, mut younger) = (Vec::new(), second);
    let mut older = from_newest.peekable();
    while let Some(seq) = older.next() {
        // A journal can be read from its beginning without any checkpoint.
        let next = older.peek().copied().unwrap_or(0);
        if age(next) < age(younger).saturating_mul(2) {
            removed.push(seq);
        } else {
            younger = seq;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::superseded;
    use proptest::prelude::*;

    /// The checkpoints that are left after each of these was added and the rule was applied.
    fn left(made: &[u64]) -> Vec<u64> {
        let mut kept: Vec<u64> = Vec::new();
        for seq in made {
            kept.push(*seq);
            let removed = superseded(&kept);
            kept.retain(|seq| !removed.contains(seq));
        }
        kept
    }

    fn at_or_before(checkpoints: &[u64], seq: u64) -> u64 {
        let found = checkpoints.iter().rev().find(|it| **it <= seq);
        found.copied().unwrap_or(0)
    }

    #[test]
    fn the_newest_two_stay_and_the_older_ones_become_sparse() {
        let made: Vec<u64> = (1..=20).map(|it| it * 10).collect();
        assert_eq!(left(&made[..2]), [10, 20]);
        assert_eq!(left(&made[..3]), [10, 20, 30]);
        assert_eq!(left(&made), [80, 120, 140, 160, 170, 180, 190, 200]);
        assert_eq!(superseded(&[]), [0; 0]);
    }

    proptest! {
        #[test]
        fn a_read_starts_at_most_twice_as_far_back(gaps in prop::collection::vec(1_u64..400, 1..300)) {
            let made: Vec<u64> = gaps.iter().scan(0, |seq, gap| { *seq += gap; Some(*seq) }).collect();
            let (kept, newest) = (left(&made), made[made.len() - 1]);
            prop_assert!(kept.ends_with(&made[made.len().saturating_sub(2)..]));
            prop_assert!(kept.len() <= 2 * newest.ilog2() as usize + 5, "{kept:?}");
            for seq in 1..newest {
                let start = at_or_before(&kept, seq);
                let is_last_made = start == at_or_before(&made, seq);
                prop_assert!(is_last_made || newest - start < 2 * (newest - seq), "{seq}: {kept:?}");
            }
        }
    }
}
