//! How far calls are.

use futures::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Steps that wait for a slow follower; further ones are lost.
const MOST_STEPS: usize = 16;

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgressStep {
    /// Grows with each step.
    pub progress: f64,
    /// What it will be at the end; 0 if nobody knows.
    pub total: f64,
    /// May be empty.
    pub message: String,
}

/// Takes the steps of a call for its follower. The default has none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Arc<Shared>>);

/// The steps of a call, for its follower.
#[derive(Debug)]
pub struct Steps(Arc<Shared>);

/// Every call has this, and few have steps: it costs little until there is one.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<VecDeque<ProgressStep>>,
    follower: AtomicWaker,
}

impl Progress {
    /// Both ends, for a call with a follower.
    pub fn followed() -> (Self, Steps) {
        let shared = Arc::new(Shared::default());
        (Self(Some(shared.clone())), Steps(shared))
    }

    /// Reports a step. It is lost if the follower is behind.
    pub fn report(&self, step: ProgressStep) {
        let Some(shared) = &self.0 else { return };
        let mut waiting = shared.lock();
        if waiting.len() < MOST_STEPS {
            waiting.push_back(step);
            drop(waiting);
            shared.follower.wake();
        }
    }
}

impl Steps {
    /// The oldest step that nobody has taken.
    pub fn take(&self) -> Option<ProgressStep> {
        self.0.lock().pop_front()
    }

    /// The same, waiting for one.
    pub async fn next(&mut self) -> ProgressStep {
        poll_fn(|context| self.poll(context)).await
    }

    /// The same; the task is woken once there is one.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<ProgressStep> {
        self.0.follower.register(context.waker());
        self.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ProgressStep>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
