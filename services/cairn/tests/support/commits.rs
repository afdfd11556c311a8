//! Kills around each commit of a run.

use futures::{StreamExt, stream};
use std::future::Future;

/// Calls `kill` for each side of each commit, as many at the same time as `at_once`, and returns what
/// came of those that were reached.
///
/// `commits` are those of a run that nobody disturbed. That is a guess, as a busy machine may make
/// one commit of two, in that run as in the others: so it continues beyond them until a run ends
/// before its kill.
pub(crate) async fn kill_around_each<K, F>(
    commits: usize,
    at_once: usize,
    kill: impl Fn(&'static str, usize) -> F,
) -> Vec<K>
where
    F: Future<Output = Option<K>>,
{
    let points = (1..=commits).flat_map(|commit| [("before", commit), ("after", commit)]);
    let kills: Vec<F> = points.map(|(side, commit)| kill(side, commit)).collect();
    let kills: Vec<Option<K>> = stream::iter(kills)
        .buffer_unordered(at_once)
        .collect()
        .await;
    let mut killed: Vec<K> = kills.into_iter().flatten().collect();
    for commit in commits + 1.. {
        let (before, after) = futures::join!(kill("before", commit), kill("after", commit));
        if before.is_none() && after.is_none() {
            break;
        }
        killed.extend(before.into_iter().chain(after));
    }
    killed
}
