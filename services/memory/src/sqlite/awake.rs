//! Waiting for an answer without falling asleep.
//!
//! A processor that has nothing to do sleeps. In a virtual machine it wakes up late and with cold
//! caches: after a sync of 0.1 ms a transition's own work takes three times as long as it does
//! awake. So whoever waits for the only operation under way stays awake, as the writer's thread
//! does for the next one (`gather`), and lets every other task run between two looks. Where several
//! wait there is work meanwhile, and nobody does that.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

/// The longest that is waited awake. A disk that takes longer is slept for, until it is fast again.
const LONGEST: Duration = Duration::from_micros(500);

/// Who waits.
#[derive(Debug, Default)]
pub(super) struct Awake {
    waiting: AtomicUsize,
    is_slow: AtomicBool,
}

/// Somebody waits as long as this is there, also if it is dropped in the middle.
struct Waiting<'a>(&'a AtomicUsize);

impl Awake {
    /// Waits for an answer; `None` if whoever owes it is gone.
    pub(super) async fn wait<T>(&self, mut answer: Receiver<T>) -> Option<T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        let began = Instant::now();
        while self.stays_awake(began) {
            match answer.try_recv() {
                Err(TryRecvError::Empty) => tokio::task::yield_now().await,
                answered => return answered.ok(),
            }
        }
        let answer = answer.await;
        self.is_slow
            .store(began.elapsed() > LONGEST, Ordering::Relaxed);
        drop(waiting);
        answer.ok()
    }

    fn stays_awake(&self, began: Instant) -> bool {
        self.waiting.load(Ordering::Relaxed) == 1
            && !self.is_slow.load(Ordering::Relaxed)
            && began.elapsed() < LONGEST
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::sync::oneshot;

    /// How often a task that waits is looked at by itself, of so many looks.
    fn polls<T>(mut wait: std::pin::Pin<&mut impl Future<Output = T>>, looks: usize) -> usize {
        let flag = std::sync::Arc::new(Flag(AtomicUsize::new(0)));
        let waker = Waker::from(flag.clone());
        let mut context = Context::from_waker(&waker);
        for _ in 0..looks {
            assert!(wait.poll_unpin(&mut context).is_pending());
        }
        flag.0.load(Ordering::SeqCst)
    }

    struct Flag(AtomicUsize);

    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn one_alone_stays_awake_and_several_sleep() {
        let awake = Awake::default();
        let (_first, answer) = oneshot::channel::<()>();
        let mut first = pin!(awake.wait(answer));
        assert_eq!(polls(first.as_mut(), 3), 3);
        let (_second, answer) = oneshot::channel::<()>();
        {
            let mut second = pin!(awake.wait(answer));
            assert_eq!(polls(second.as_mut(), 3), 0);
            assert_eq!(polls(first.as_mut(), 3), 0);
        }
        // One that gives up does not count any more.
        assert_eq!(awake.waiting.load(Ordering::SeqCst), 1);
        assert_eq!(polls(first.as_mut(), 1), 0, "it sleeps by now");
    }

    #[test]
    fn a_slow_disk_is_slept_for_until_it_is_fast_again() {
        let awake = Awake::default();
        awake.is_slow.store(true, Ordering::SeqCst);
        let (sender, answer) = oneshot::channel();
        let mut wait = pin!(awake.wait(answer));
        assert_eq!(polls(wait.as_mut(), 3), 0);
        sender.send(7).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(wait.poll_unpin(&mut context), Poll::Ready(Some(7)));
    }

    #[tokio::test]
    async fn an_answer_comes_and_so_does_its_loss() {
        let awake = Awake::default();
        let (sender, answer) = oneshot::channel();
        let send = async { sender.send(1).unwrap() };
        let (answered, ()) = tokio::join!(awake.wait(answer), send);
        assert_eq!(answered, Some(1));
        let (sender, answer) = oneshot::channel::<()>();
        let lose = async { drop(sender) };
        let (answered, ()) = tokio::join!(awake.wait(answer), lose);
        assert_eq!(answered, None);
        assert_eq!(awake.waiting.load(Ordering::SeqCst), 0);
    }
}
