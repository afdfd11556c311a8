//! How an attempt waits for its slot, and what is reported while it waits.

use super::executors::{Executors, Shared};
use super::queue::{Asked, Held, Presence, Ticket};
use super::slot::Slot;
use cairn_engine::pool::{Missing, Need};
use futures::stream::{self, Stream};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// What a waiting attempt gets.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The pool lacks this. If no resource has it, the wait is over without a slot.
    Short {
        missing: Vec<Missing>,
        /// Of the attempt, if no resource has it.
        lack: Option<Lack>,
    },
    /// A slot, and nothing after it.
    Slot(Slot),
}

/// An attempt that waits, and is in no queue, because no resource has what it needs. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Lack {
    executors: Weak<Shared>,
    need: Arc<Need>,
}

impl Lack {
    fn begin(executors: &Arc<Shared>, need: &Arc<Need>) -> Self {
        executors.begin_lack(need);
        Self {
            executors: Arc::downgrade(executors),
            need: need.clone(),
        }
    }

    /// Of no pool.
    #[cfg(test)]
    pub(super) fn of_none() -> Self {
        Self {
            executors: Weak::new(),
            need: Arc::default(),
        }
    }
}

impl Drop for Lack {
    fn drop(&mut self) {
        if let Some(executors) = self.executors.upgrade() {
            executors.end_lack(&self.need);
        }
    }
}

impl Executors {
    /// An attempt waits for what no resource had when another process looked.
    pub(super) fn lack(&self, need: &Arc<Need>) -> Lack {
        Lack::begin(&self.0, need)
    }

    /// Waits for a slot, after a pause. That all resources are taken may have been reported before.
    pub(super) fn wait(
        &self,
        asked: Asked<Instant>,
        pause: Option<Duration>,
        is_reported: bool,
    ) -> impl Stream<Item = Waited> + Send + use<> {
        let waiter = Waiter {
            place: None,
            shortage: Shortage::new(&self.0, &asked, is_reported),
            executors: self.0.clone(),
            pause,
            asked,
        };
        stream::unfold(Some(waiter), |waiter| async {
            let mut waiter = waiter?;
            let waited = waiter.next().await;
            let is_over = match &waited {
                Waited::Slot(_) => true,
                Waited::Short { lack, .. } => lack.is_some(),
            };
            Some((waited, Some(waiter).filter(|_| !is_over)))
        })
    }

    /// Returns once the resources of an attempt have lacked a capability that it needs for `lost_after`.
    pub(super) fn lost(
        &self,
        held: Held,
        need: Arc<Need>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let executors = self.0.clone();
        let mut changes = executors.changes();
        async move {
            let serves = || executors.lock().queue.members.still_serves(&held, &need);
            loop {
                // Before it is looked at: a change in between is seen the next time.
                changes.mark_unchanged();
                if serves() {
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    continue;
                }
                let until = Instant::now() + executors.patience.lost_after;
                if stays_so(&mut changes, until, || !serves()).await {
                    return;
                }
            }
        }
    }
}

/// Whether it is so without a break until then.
async fn stays_so(
    changes: &mut watch::Receiver<u64>,
    until: Instant,
    is_so: impl Fn() -> bool,
) -> bool {
    loop {
        tokio::select! {
            biased;
            changed = changes.changed() => {
                if changed.is_err() || !is_so() {
                    return false;
                }
            }
            () = sleep_until(until) => return true,
        }
    }
}

/// An attempt that waits.
struct Waiter {
    executors: Arc<Shared>,
    asked: Asked<Instant>,
    pause: Option<Duration>,
    place: Option<Place>,
    /// None for a need that every executor meets.
    shortage: Option<Shortage>,
}

impl Waiter {
    async fn next(&mut self) -> Waited {
        if let Some(pause) = self.pause.take() {
            tokio::time::sleep(pause).await;
        }
        loop {
            let take = || Place::take(&self.executors, &self.asked);
            let place = self.place.get_or_insert_with(take);
            let slot = match &mut self.shortage {
                None => (&mut place.slot).await,
                Some(shortage) => tokio::select! {
                    biased;
                    slot = &mut place.slot => slot,
                    () = shortage.noticed(&self.executors, &self.asked) => {
                        if let Some(short) = shortage.report(&self.executors, &self.asked) {
                            if let Waited::Short { lack: Some(_), .. } = short {
                                self.place = None;
                            }
                            return short;
                        }
                        continue;
                    }
                },
            };
            self.place = None;
            // Without a slot, its executor has just left.
            if let Ok(slot) = slot {
                return Waited::Slot(slot);
            }
        }
    }
}

/// A place in the queue. Dropping it leaves the queue.
struct Place {
    executors: Arc<Shared>,
    asked: Asked<Instant>,
    ticket: Ticket<Instant>,
    slot: oneshot::Receiver<Slot>,
}

impl Place {
    fn take(executors: &Arc<Shared>, asked: &Asked<Instant>) -> Self {
        let (ticket, slot) = executors.enter(asked);
        Self {
            executors: executors.clone(),
            asked: asked.clone(),
            ticket,
            slot,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.executors.leave(&self.asked, self.ticket);
    }
}

/// Watches whether the pool lacks a need, for one attempt.
struct Shortage {
    changes: watch::Receiver<u64>,
    /// Since when no resource that can be reached has it; none while one has it.
    none_since: Option<Instant>,
    /// That all are taken was reported.
    is_reported: bool,
}

impl Shortage {
    fn new(executors: &Shared, asked: &Asked<Instant>, is_reported: bool) -> Option<Self> {
        let need = &asked.wants.need;
        let may_be_short = !need.capabilities.is_empty() || need.tool.is_some();
        may_be_short.then(|| Self {
            changes: executors.changes(),
            none_since: None,
            is_reported,
        })
    }

    /// Returns when something is to be reported, or the pool has changed.
    async fn noticed(&mut self, executors: &Shared, asked: &Asked<Instant>) {
        self.changes.mark_unchanged();
        let presence = executors.presence(&asked.wants.need);
        self.none_since = match presence {
            Presence::Reached => None,
            Presence::Lost | Presence::Absent => self.none_since.or_else(|| Some(Instant::now())),
        };
        let patience = executors.patience;
        let is_busy = presence == Presence::Reached && !asked.wants.need.capabilities.is_empty();
        let busy = (is_busy && !self.is_reported).then(|| asked.since + patience.stop_after);
        let none = self.none_since.map(|since| since + patience.none_after);
        let due = match (busy, none) {
            (Some(busy), Some(none)) => Some(busy.min(none)),
            (busy, none) => busy.or(none),
        };
        let due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Without a sender the process is ending.
            Ok(()) = self.changes.changed() => {}
            () = due => {}
        }
    }

    /// What is to be reported now, if anything is.
    fn report(&mut self, executors: &Arc<Shared>, asked: &Asked<Instant>) -> Option<Waited> {
        let (need, now) = (&asked.wants.need, Instant::now());
        let patience = executors.patience;
        let presence = executors.presence(need);
        let is_none = presence != Presence::Reached
            && (self.none_since).is_some_and(|since| now >= since + patience.none_after);
        let is_busy = !self.is_reported
            && presence == Presence::Reached
            && !need.capabilities.is_empty()
            && now >= asked.since + patience.stop_after;
        if !is_none && !is_busy {
            return None;
        }
        self.is_reported = true;
        // Before the attempt leaves the queue: its need is waited for without a break.
        let lack = is_none.then(|| Lack::begin(executors, need));
        let missing = executors.report_short(need, is_none);
        Some(Waited::Short { missing, lack })
    }
}
