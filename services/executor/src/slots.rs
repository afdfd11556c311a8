//! The slots of this executor, and what owners see of them.

use crate::config::Config;
use cairn_proto::executor::{DeclaredCapability, ExecutorState, WatchStatusResponse};
use futures::{Stream, stream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Least time between two reports of one stream.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// Slots for attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    /// What stays the same in all reports.
    profile: WatchStatusResponse,
    usage: Mutex<Usage>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    taken: usize,
    is_draining: bool,
    version: u64,
}

/// A slot that an attempt holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    /// The version of the reports that count it.
    pub(crate) version: u64,
}

impl Slots {
    /// The slots of an executor with these settings, all free.
    pub(crate) fn new(config: &Config) -> Self {
        Self(Arc::new(Shared {
            most: config.max_attempts,
            profile: profile(config),
            usage: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Takes a slot; none if all are taken, or while the process drains.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut usage = self.usage();
        if usage.is_draining || usage.taken == self.0.most {
            return None;
        }
        usage.taken += 1;
        usage.version += 1;
        let version = usage.version;
        drop(usage);
        self.0.changed.notify_waiters();
        Some(Slot {
            slots: self.clone(),
            version,
        })
    }

    /// The same, waiting a moment for a slot: that of an attempt whose owner has let go may not be free yet.
    pub(crate) async fn take_soon(&self) -> Option<Slot> {
        if let Some(slot) = self.take() {
            return Some(slot);
        }
        let end = Instant::now() + REPORT_EVERY;
        let is_free = |usage: Usage| usage.is_draining || usage.taken < self.0.most;
        while tokio::time::timeout_at(end, self.until(is_free))
            .await
            .is_ok()
        {
            let slot = self.take();
            if slot.is_some() || self.usage().is_draining {
                return slot;
            }
        }
        None
    }

    /// Gives no further slots, and waits until all are free.
    pub(crate) async fn drain(&self) {
        self.usage().is_draining = true;
        self.0.changed.notify_waiters();
        self.until(|usage| usage.taken == 0).await;
    }

    /// Waits until no further slots are given.
    pub(crate) async fn draining(&self) {
        self.until(|usage| usage.is_draining).await;
    }

    /// What is free now, and then after changes. Only a drain ends it: a stream that stays open would hold
    /// up a process that stops.
    pub(crate) fn reports(&self) -> impl Stream<Item = WatchStatusResponse> + Send + use<> {
        let begin = Some((self.clone(), None, Instant::now()));
        stream::unfold(begin, |state| async move {
            let (slots, known, earliest) = state?;
            sleep_until(earliest).await;
            let is_new = |usage: Usage| known != Some((usage.version, usage.is_draining));
            let now = slots.until(is_new).await;
            let (known, report) = ((now.version, now.is_draining), slots.0.report(now));
            let next = (slots, Some(known), Instant::now() + REPORT_EVERY);
            Some((report, Some(next).filter(|_| !now.is_draining)))
        })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `holds` is true of the usage.
    async fn until(&self, holds: impl Fn(Usage) -> bool) -> Usage {
        loop {
            // Made before the look, so that no change is missed.
            let changed = self.0.changed.notified();
            let usage = *self.usage();
            if holds(usage) {
                return usage;
            }
            changed.await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut usage = self.slots.usage();
        usage.taken -= 1;
        usage.version += 1;
        drop(usage);
        self.slots.0.changed.notify_waiters();
    }
}

impl Shared {
    fn report(&self, usage: Usage) -> WatchStatusResponse {
        let slots = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let (free, state) = match usage.is_draining {
            true => (0, ExecutorState::Draining),
            false => (self.most - usage.taken, ExecutorState::Accepting),
        };
        WatchStatusResponse {
            slots: slots(self.most),
            free_slots: slots(free),
            state: state.into(),
            version: usage.version,
            ..self.profile.clone()
        }
    }
}

/// What the executor is and can do, for the pool.
fn profile(config: &Config) -> WatchStatusResponse {
    let capabilities = config.capabilities.iter();
    let capabilities = capabilities.map(|(name, &level)| DeclaredCapability {
        name: name.clone(),
        level,
    });
    let labels = config.labels.iter();
    WatchStatusResponse {
        level: config.level(),
        name: config.name.clone(),
        tools: config.tools.clone(),
        capabilities: capabilities.collect(),
        labels: labels
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        ..WatchStatusResponse::default()
    }
}
