//! Work that many wait for, and that one task does.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// At most one piece of work at a time: whoever comes meanwhile waits for its outcome.
///
/// The work has a task of its own, which a lock around it would not give. A call over a local link
/// runs in its caller's task, and a stream that nobody reads for a while is not polled: what such a
/// call holds, or is given by a fair lock whose turn comes, everybody else waits for. Whoever waits
/// here holds nothing, may go away at any time, and ends nothing by that.
pub struct SingleFlight<T> {
    /// That of the last work. It is under way until it has one, as long as there is somebody to send it.
    outcome: Mutex<watch::Receiver<Option<T>>>,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Nothing is under way.
    pub fn new() -> Self {
        let (_, ended) = watch::channel(None);
        Self {
            outcome: Mutex::new(ended),
        }
    }

    /// What comes of the work that is under way, which may have begun earlier, or else of `work`. `None`
    /// if it panicked, or the runtime ends.
    pub async fn join<F>(&self, work: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut outcome = self.start(work);
        let outcome = outcome.wait_for(Option::is_some).await;
        outcome.ok().and_then(|outcome| outcome.clone())
    }

    /// Begins the work, unless there is some under way, for whoever comes next. Has to be called within
    /// a tokio runtime.
    pub fn begin<F>(&self, work: impl FnOnce() -> F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.start(work);
    }

    fn start<F>(&self, work: impl FnOnce() -> F) -> watch::Receiver<Option<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let is_under_way = outcome.has_changed().is_ok() && outcome.borrow().is_none();
        if !is_under_way {
            let (sender, receiver) = watch::channel(None);
            let work = work();
            tokio::spawn(async move {
                // Nobody may wait for it any more.
                sender.send_replace(Some(work.await));
            });
            *outcome = receiver;
        }
        outcome.clone()
    }
}

impl<T: Clone + Send + Sync + 'static> Default for SingleFlight<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    #[tokio::test]
    async fn anyone_comes_then_gets_the_same_outcome_and_the_next_another() {
        let flight = SingleFlight::new();
        let (begun, go_on) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let work = || {
            let (begun, go_on) = (begun.clone(), go_on.clone());
            async move {
                let number = begun.fetch_add(1, Ordering::SeqCst);
                go_on.notified().await;
                number
            }
        };
        flight.begin(work);
        let both = futures::future::join(flight.join(work), flight.join(work));
        go_on.notify_one();
        assert_eq!(both.await, (Some(0), Some(0)));
        go_on.notify_one();
        assert_eq!(flight.join(work).await, Some(1));
    }

    #[tokio::test]
    async fn who_is_not_polled_or_goes_away_keeps_nobody_waiting() {
        let flight = SingleFlight::new();
        let go_on = Arc::new(Notify::new());
        let work = || {
            let go_on = go_on.clone();
            async move { go_on.notified().await }
        };
        let mut first = Box::pin(flight.join(work));
        let mut second = Box::pin(flight.join(work));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        let third = flight.join(work);
        drop(first);
        go_on.notify_one();
        assert_eq!(third.await, Some(()));
        assert_eq!(second.await, Some(()));
    }

    #[tokio::test]
    async fn work_that_panicked_has_no_outcome_and_keeps_nothing_else_back() {
        let flight = SingleFlight::new();
        let panics = flight.join(|| async { std::panic::resume_unwind(Box::new("on purpose")) });
        assert_eq!(panics.await, None);
        assert_eq!(flight.join(|| async { 7 }).await, Some(7));
    }
}
