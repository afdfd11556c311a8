//! Kills around the commits of a run.

use cairn_testkit::TestStore;
use futures::{StreamExt, stream};
use std::future::Future;
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};

/// Where a sweep kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Before and after every commit.
    Every,
    /// At one of three of these points, by a seed that is printed. `CAIRN_SEED` repeats it.
    Sampled { seed: u64 },
}

/// A sampled sweep takes one point of so many.
const ONE_OF: u64 = 3;

impl Sweep {
    /// Every commit in a file, where a kill costs least; a sample over servers of Redis, whose commits
    /// differ from those in a file in the store alone.
    pub(crate) fn over(store: &TestStore) -> Self {
        if store.is_file() {
            return Self::Every;
        }
        let given = std::env::var_os("CAIRN_SEED");
        let given = given.and_then(|seed| seed.to_str()?.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(()));
        println!("CAIRN_SEED={seed} repeats this sample");
        Self::Sampled { seed }
    }

    fn takes(self, point: (&str, usize)) -> bool {
        let Self::Sampled { seed } = self else {
            return true;
        };
        let mut hasher = DefaultHasher::new();
        (seed, point).hash(&mut hasher);
        hasher.finish().is_multiple_of(ONE_OF)
    }
}

/// What came of a sweep.
pub(crate) struct Swept<K> {
    /// Those of the kills that were reached.
    pub(crate) killed: Vec<K>,
    sweep: Sweep,
    points: usize,
}

impl<K> Swept<K> {
    /// Panics if fewer points were reached than a busy machine explains, which may make one commit of two.
    pub(crate) fn check_reached(&self) {
        let (killed, points) = (self.killed.len(), self.points);
        assert!(
            killed * 4 + 4 >= points * 3,
            "{killed} kills at {points} points"
        );
    }

    /// Whether the sweep has killed at every commit, so that each kind of moment was met.
    pub(crate) fn is_complete(&self) -> bool {
        self.sweep == Sweep::Every
    }
}

/// Calls `kill` for each side of the commits that the sweep takes, as many at the same time as `at_once`.
///
/// `commits` are those of a run that nobody disturbed. That is a guess, as a busy machine may make
/// one commit of two, in that run as in the others: so a complete sweep continues beyond them until a run
/// ends before its kill.
pub(crate) async fn kill_around_each<K, F>(
    commits: usize,
    at_once: usize,
    sweep: Sweep,
    kill: impl Fn(&'static str, usize) -> F,
) -> Swept<K>
where
    F: Future<Output = Option<K>>,
{
    let points = (1..=commits).flat_map(|commit| [("before", commit), ("after", commit)]);
    let points = points.filter(|point| sweep.takes(*point));
    let kills: Vec<F> = points.map(|(side, commit)| kill(side, commit)).collect();
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
    Swept {
        killed,
        sweep,
        points,
    }
}
