//! Waiting for what other processes do, where nothing tells that it happened.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The longest that anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until there is a result, and returns it.
///
/// # Panics
/// With `what` if there is none within [`PATIENCE`].
pub fn eventually<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = look() {
            return result;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The same for a look that waits itself; other tasks of the runtime continue between two looks.
///
/// # Panics
/// With `what` if there is no result within [`PATIENCE`].
pub async fn eventually_async<T>(
    what: impl Display,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = look().await {
            return result;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
