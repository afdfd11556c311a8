//! Lets running work end, but not for ever.

use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What takes longer than this is explained to whoever waits for the end of the process.
const QUIET: Duration = Duration::from_millis(700);

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// Everything has ended.
    Completely,
    /// Time was up before that.
    Late,
}

/// Waits until the work has ended, for at most `limit`, and warns when that takes a while.
///
/// The work must have been told to stop, or be what tells it. What still runs when time is up is
/// left alone: the process is about to leave it behind.
pub async fn drain(work: impl Future<Output = ()>, limit: Duration) -> Drained {
    let explained = async {
        let mut work = pin!(work);
        tokio::select! {
            () = &mut work => return,
            () = sleep(QUIET) => {}
        }
        tracing::warn!(
            ?limit,
            "letting running calls end; a second Ctrl-C stops at once"
        );
        work.await;
    };
    match timeout(limit, explained).await {
        Ok(()) => Drained::Completely,
        Err(_) => {
            tracing::warn!(?limit, "left work behind that did not end in time");
            Drained::Late
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_is_waited_for() {
        for needs in [Duration::ZERO, QUIET * 2] {
            let drained = drain(sleep(needs), QUIET * 3).await;
            assert_eq!(drained, Drained::Completely, "{needs:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_left_behind_in_time() {
        for limit in [Duration::ZERO, QUIET / 2, QUIET * 3] {
            let start = tokio::time::Instant::now();
            assert_eq!(drain(pending(), limit).await, Drained::Late);
            assert!(start.elapsed() <= limit + Duration::from_millis(2));
        }
    }
}
