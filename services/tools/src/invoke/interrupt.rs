//! Calls that run, by their keys, so that their owner can interrupt them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Keys that are kept of interrupts that came before their calls. The owner and the executor that sends the
/// call are different processes, so an interrupt may overtake its call.
const MOST_EARLY: usize = 1024;

/// The calls that run. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// A retry has the key of the call that it repeats.
    calls: HashMap<String, Vec<Entry>>,
    next: u64,
    /// The oldest first.
    early: VecDeque<String>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    interrupt: CancellationToken,
}

impl Running {
    /// Enters a call. A call without a key cannot be interrupted.
    pub(super) fn enter(&self, key: &str) -> Entered {
        let interrupt = CancellationToken::new();
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        if !key.is_empty() {
            if state.early.iter().any(|early| early == key) {
                interrupt.cancel();
            }
            let entry = Entry {
                id,
                interrupt: interrupt.clone(),
            };
            state.calls.entry(key.to_owned()).or_default().push(entry);
        }
        drop(state);
        Entered {
            running: self.clone(),
            key: key.to_owned(),
            id,
            interrupt,
        }
    }

    /// Interrupts the calls of this key, also those that come later. Returns whether one runs now.
    pub(super) fn interrupt(&self, key: &str) -> bool {
        if key.is_empty() {
            return false;
        }
        let mut state = self.lock();
        let mut is_running = false;
        for entry in state.calls.get(key).into_iter().flatten() {
            entry.interrupt.cancel();
            is_running = true;
        }
        if !state.early.iter().any(|early| early == key) {
            if state.early.len() == MOST_EARLY {
                state.early.pop_front();
            }
            state.early.push_back(key.to_owned());
        }
        is_running
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    running: Running,
    key: String,
    id: u64,
    interrupt: CancellationToken,
}

impl Entered {
    /// Waits until the owner interrupts the call.
    pub(super) async fn interrupted(&self) {
        self.interrupt.cancelled().await;
    }

    /// Whether the owner has interrupted the call.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_cancelled()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = self.running.lock();
        if let Some(calls) = state.calls.get_mut(&self.key) {
            calls.retain(|entry| entry.id != self.id);
            if calls.is_empty() {
                state.calls.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_reaches_each_call_of_its_key_and_no_other() {
        let running = Running::default();
        let (first, retry, other) = (running.enter("a"), running.enter("a"), running.enter("b"));
        assert!(running.interrupt("a"));
        assert!(first.is_interrupted() && retry.is_interrupted() && !other.is_interrupted());
        drop((first, retry));
        assert!(!running.interrupt("a"));
        assert_eq!(running.lock().calls.len(), 1);
    }

    #[test]
    fn an_interrupt_may_come_before_its_call() {
        let running = Running::default();
        assert!(!running.interrupt("a"));
        assert!(running.enter("a").is_interrupted());
        assert!(!running.enter("b").is_interrupted());
        for n in 0..MOST_EARLY {
            running.interrupt(&n.to_string());
        }
        assert_eq!(running.lock().early.len(), MOST_EARLY);
        assert!(
            !running.enter("a").is_interrupted(),
            "the oldest was forgotten"
        );
    }

    #[test]
    fn a_call_without_a_key_is_not_interrupted() {
        let running = Running::default();
        let call = running.enter("");
        assert!(!running.interrupt(""));
        assert!(!call.is_interrupted());
    }
}
