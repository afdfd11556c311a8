//! The calls that a connection has open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The open calls of a connection; shared with each of its requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OpenCalls(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// A call was admitted. Until then, the connection is unauthenticated.
    is_admitted: bool,
    /// When the last call ended, or when the connection began.
    idle_since: Instant,
}

/// A call that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenCall(OpenCalls);

impl OpenCalls {
    /// None yet: the connection begins now. The system may name who connects.
    pub(super) fn new(is_admitted: bool) -> Self {
        let idle_since = Instant::now();
        Self(Arc::new(Mutex::new(State {
            open: 0,
            is_admitted,
            idle_since,
        })))
    }

    /// One more call.
    pub(crate) fn open(&self) -> OpenCall {
        self.lock().open += 1;
        OpenCall(self.clone())
    }

    /// Whether a call was admitted.
    pub(super) fn is_admitted(&self) -> bool {
        self.lock().is_admitted
    }

    /// Since when no call has been open. None while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        (state.open == 0).then_some(state.idle_since)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenCall {
    /// Its caller is admitted, and so the connection is authenticated.
    pub(crate) fn admit(&self) {
        self.0.lock().is_admitted = true;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}
