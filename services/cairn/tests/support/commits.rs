//! Kills around the commits of a run.

use cairn_testkit::TestStore;
use futures::{StreamExt, stream};
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};

/// Where a sweep kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Before and after every commit.
    Every,
    /// At one of `every` points, from this one on.
    Sampled { first: usize, every: usize },
}

/// The usual sample has one of so many points. They alternate between before and after a commit, so an odd
/// number has both.
const SAMPLE_EVERY: usize = 3;

impl Sweep {
    /// Every commit in a file; a sample over servers of Redis, since only the store differs there.
    pub(crate) fn over(store: &TestStore) -> Self {
        if store.is_file() {
            return Self::Every;
        }
        Self::third()
    }

    /// The usual sample: a third of the points. The printed seed, 0 to 2, selects it.
    pub(crate) fn third() -> Self {
        Self::sampled(SAMPLE_EVERY)
    }

    /// A sample of one of so many points. The printed seed, below `every`, selects it.
    pub(crate) fn sampled(every: usize) -> Self {
        let given = std::env::var_os("CAIRN_SEED");
        let given = given.map(|seed| seed.to_str().and_then(|seed| seed.parse::<u64>().ok()));
        let given = given.map(|seed| seed.expect("CAIRN_SEED is a number"));
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(())) % every as u64;
        println!("CAIRN_SEED={seed} repeats this sample");
        Self::Sampled {
            first: usize::try_from(seed).expect("a small number"),
            every,
        }
    }

    fn includes(self, point: usize) -> bool {
        match self {
            Self::Every => true,
            Self::Sampled { first, every } => point % every == first,
        }
    }
}

/// The result of a sweep.
pub(crate) struct SweepResult<K> {
    /// The kills that were reached.
    pub(crate) killed: Vec<K>,
    /// How many the sweep was to reach.
    pub(crate) points: usize,
    sweep: Sweep,
}

impl<K> SweepResult<K> {
    /// Panics if more kills of a complete sweep than `may_miss` were not reached. A busy machine may make
    /// one commit of two.
    pub(crate) fn check_reached(&self, may_miss: usize) {
        let may_miss = match self.sweep {
            Sweep::Every => may_miss,
            Sweep::Sampled { every, .. } => may_miss.div_ceil(every),
        };
        let (killed, points) = (self.killed.len(), self.points);
        assert!(killed > 0, "no kill was reached");
        assert!(
            killed + may_miss >= points,
            "{killed} kills at {points} points"
        );
    }

    /// Whether the sweep has killed at every commit, so that each kind of moment was met.
    pub(crate) fn is_complete(&self) -> bool {
        self.sweep == Sweep::Every
    }
}

/// Calls `kill` for each side of the commits that the sweep includes, as many at the same time as `at_once`.
///
/// `commits` are those of a run that nothing disturbed. That is a guess, as a busy machine may make
/// one commit of two, in that run as in the others: so a complete sweep continues beyond them until a run
/// ends before its kill.
pub(crate) async fn kill_around_each<K, F>(
    commits: usize,
    at_once: usize,
    sweep: Sweep,
    kill: impl Fn(&'static str, usize) -> F,
) -> SweepResult<K>
where
    F: Future<Output = Option<K>>,
{
    let points = (1..=commits).flat_map(|commit| [("before", commit), ("after", commit)]);
    let points = points.enumerate().filter(|(at, _)| sweep.includes(*at));
    let kills: Vec<F> = points
        .map(|(_, (side, commit))| kill(side, commit))
        .collect();
    let points = kills.len();
    let kills: Vec<Option<K>> = stream::iter(kills)
        .buffer_unordered(at_once)
        .collect()
        .await;
    let mut killed: Vec<K> = kills.into_iter().flatten().collect();
    let beyond = (commits + 1..).take_while(|_| sweep == Sweep::Every);
    for commit in beyond {
        let (before, after) = futures::join!(kill("before", commit), kill("after", commit));
        if before.is_none() && after.is_none() {
            break;
        }
        killed.extend(before.into_iter().chain(after));
    }
    SweepResult {
        killed,
        points,
        sweep,
    }
}
