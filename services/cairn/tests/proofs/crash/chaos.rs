//! What is done to the processes, as a pure function of a seed.

use std::time::Duration;

/// Between two actions.
const PAUSE_MS: (u64, u64) = (50, 500);
/// How long what was killed stays away.
const DOWN_MS: (u64, u64) = (0, 500);
/// How long a process is frozen; leases are shorter than most of this.
const FROZEN_MS: (u64, u64) = (1000, 4000);

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    /// Since the action before.
    pub(crate) after: Duration,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Kill -9 of a service's process, which is started again after that time.
    Kill { victim: usize, down: Duration },
    /// A process is stopped in the middle of whatever it does, and continues after that time.
    Freeze { victim: usize, span: Duration },
    /// Kill -9 of the store's server, which is started again after that time: at once, or at a
    /// moment when something is on its way to the disk.
    KillStore { is_aimed: bool, down: Duration },
}

/// Actions without end.
#[derive(Debug)]
pub(crate) struct Chaos {
    state: u64,
    victims: usize,
    store_kills: u64,
}

impl Chaos {
    /// The actions of a seed against so many processes.
    pub(crate) fn new(seed: u64, victims: usize) -> Self {
        Self {
            state: seed,
            victims,
            store_kills: 0,
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn time(&mut self, (from, to): (u64, u64)) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    fn victim(&mut self) -> usize {
        self.below(self.victims as u64) as usize
    }

    /// Sixteen kills of services to six freezes and five kills of the store, every second of which
    /// is aimed.
    pub(crate) fn action(&mut self) -> Action {
        let after = self.time(PAUSE_MS);
        let what = match self.below(27) {
            0..16 => What::Kill {
                victim: self.victim(),
                down: self.time(DOWN_MS),
            },
            16..22 => What::Freeze {
                victim: self.victim(),
                span: self.time(FROZEN_MS),
            },
            _ => {
                self.store_kills += 1;
                What::KillStore {
                    is_aimed: self.store_kills % 2 == 1,
                    down: self.time(DOWN_MS),
                }
            }
        };
        Action { after, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn actions(seed: u64) -> Vec<Action> {
        let mut chaos = Chaos::new(seed, 9);
        (0..2000).map(|_| chaos.action()).collect()
    }

    #[test]
    fn a_seed_always_gives_the_same_actions() {
        assert_eq!(actions(7), actions(7));
        assert_ne!(actions(7), actions(8));
    }

    #[test]
    fn everything_happens_and_to_everybody() {
        let actions = actions(1);
        let times = actions.iter().map(|action| action.after.as_millis());
        assert!(times.clone().all(|time| (50..=500).contains(&time)));
        let mut killed = BTreeSet::new();
        let mut frozen = BTreeSet::new();
        let mut aimed = [0_usize; 2];
        for action in &actions {
            match action.what {
                What::Kill { victim, .. } => _ = killed.insert(victim),
                What::Freeze { victim, span } => {
                    assert!((1000..=4000).contains(&span.as_millis()));
                    frozen.insert(victim);
                }
                What::KillStore { is_aimed, .. } => aimed[usize::from(is_aimed)] += 1,
            }
        }
        let everybody: BTreeSet<usize> = (0..9).collect();
        assert_eq!((&killed, &frozen), (&everybody, &everybody));
        assert!(aimed[0].abs_diff(aimed[1]) <= 1, "{aimed:?}");
        assert!(aimed[0] > 100, "{aimed:?}");
    }
}
