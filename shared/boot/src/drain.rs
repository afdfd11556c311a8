//! Lets running work end, but not for ever.

use std::time::Duration;
use tokio_util::task::TaskTracker;

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// Everything has ended.
    Completely,
    /// Time was up, and this many tasks were still running.
    Late {
        /// How many.
        running: usize,
    },
}

/// Waits until the tracked tasks have ended, for at most `limit`.
///
/// The tasks must have been told to stop already; this only waits. What still runs afterwards is
/// left alone: the process is about to leave it behind.
pub async fn drain(tasks: &TaskTracker, limit: Duration) -> Drained {
    tasks.close();
    if tokio::time::timeout(limit, tasks.wait()).await.is_ok() {
        return Drained::Completely;
    }
    let running = tasks.len();
    tracing::warn!(
        running,
        ?limit,
        "leaving tasks behind that did not end in time"
    );
    Drained::Late { running }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::sync::CancellationToken;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn tasks_that_end_are_waited_for() {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        for _ in 0..3 {
            tasks.spawn(stop.clone().cancelled_owned());
        }
        let told = async {
            tokio::task::yield_now().await;
            stop.cancel();
        };
        let (drained, ()) = tokio::join!(drain(&tasks, LONG), told);
        assert_eq!(drained, Drained::Completely);
        assert_eq!(drain(&tasks, LONG).await, Drained::Completely);
    }

    #[tokio::test]
    async fn tasks_that_do_not_end_are_left_behind() {
        let tasks = TaskTracker::new();
        tasks.spawn(async {});
        tasks.spawn(std::future::pending::<()>());
        let drained = drain(&tasks, Duration::from_millis(20)).await;
        assert_eq!(drained, Drained::Late { running: 1 });
    }
}
