//! The slots of this executor, and what owners see of them.

use cairn_proto::executor::{ExecutorState, WatchStatusResponse};
use futures::{Stream, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Least time between two reports of one stream.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// Slots for attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    most: usize,
    usage: Arc<watch::Sender<Usage>>,
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
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            usage: Arc::new(watch::Sender::new(Usage::default())),
        }
    }

    /// Takes a slot; none if all are taken, or while the process drains.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut taken = None;
        self.usage.send_if_modified(|usage| {
            let is_free = !usage.is_draining && usage.taken < self.most;
            if is_free {
                usage.taken += 1;
                usage.version += 1;
                taken = Some(usage.version);
            }
            is_free
        });
        taken.map(|version| Slot {
            slots: self.clone(),
            version,
        })
    }

    /// The same, waiting a moment for a slot: that of an attempt whose owner has let go may not be free yet.
    pub(crate) async fn take_soon(&self) -> Option<Slot> {
        if let Some(slot) = self.take() {
            return Some(slot);
        }
        let mut usage = self.usage.subscribe();
        let wait = async {
            loop {
                let free = |usage: &Usage| usage.is_draining || usage.taken < self.most;
                // The sender lives as long as this does.
                let usage = usage.wait_for(free).await.ok()?;
                if usage.is_draining {
                    return None;
                }
                drop(usage);
                if let Some(slot) = self.take() {
                    return Some(slot);
                }
            }
        };
        tokio::time::timeout(REPORT_EVERY, wait).await.ok()?
    }

    /// Gives no further slots, and waits until all are free.
    pub(crate) async fn drain(&self) {
        self.usage.send_modify(|usage| usage.is_draining = true);
        let mut usage = self.usage.subscribe();
        // The sender lives as long as this does.
        let _ = usage.wait_for(|usage| usage.taken == 0).await;
    }

    /// What is free now, and then after changes, until the executor drains: a stream that stays open
    /// would hold up a process that stops.
    pub(crate) fn reports(&self) -> impl Stream<Item = WatchStatusResponse> + Send + use<> {
        let mut usage = self.usage.subscribe();
        usage.mark_changed();
        let begin = Some((usage, Instant::now(), self.most));
        stream::unfold(begin, |state| async move {
            let (mut usage, earliest, most) = state?;
            sleep_until(earliest).await;
            usage.changed().await.ok()?;
            let now = *usage.borrow_and_update();
            let next = (usage, Instant::now() + REPORT_EVERY, most);
            Some((report(now, most), Some(next).filter(|_| !now.is_draining)))
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.usage.send_modify(|usage| {
            usage.taken -= 1;
            usage.version += 1;
        });
    }
}

fn report(usage: Usage, most: usize) -> WatchStatusResponse {
    let slots = |count| u32::try_from(count).unwrap_or(u32::MAX);
    let (free, state) = match usage.is_draining {
        true => (0, ExecutorState::Draining),
        false => (most - usage.taken, ExecutorState::Accepting),
    };
    WatchStatusResponse {
        slots: slots(most),
        free_slots: slots(free),
        state: state.into(),
        version: usage.version,
    }
}
