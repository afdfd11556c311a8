//! The sessions that this process owns: claimed, renewed, given back.

mod capacity;
mod claim;
mod claim_requested;
mod give_back;
mod renew;
mod wake;

use crate::config::Mode;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::owner::{End, Notice, Ownership, own};
use crate::state_bytes::StateBytes;
use crate::store::NEWER_VERSION;
use cairn_rpc::RpcError;
use cairn_rpc::metrics::{self, counter};
use capacity::Capacity;
use claim_requested::ToClaim;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

pub(crate) use capacity::{Bound, Reservation};
pub(crate) use claim::{begin_claimed, claim};
pub(crate) use renew::renew;
pub(crate) use wake::wake;

/// Errors of owners that wait for a watcher to read them; older ones are lost.
const STALLED_ROOM: usize = 64;

/// The owners of this process, by session.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) deps: Arc<Deps>,
    capacity: Mutex<Capacity>,
    /// Capacity may have become free.
    freed: Notify,
    tasks: TaskTracker,
    to_claim: ToClaim,
    /// Cancelled when this process begins to drain.
    pub(crate) draining: CancellationToken,
    /// Sessions whose owner had to give up, with the reason, for those who watch.
    pub(crate) stalled: broadcast::Sender<(SessionKey, RpcError)>,
}

#[derive(Debug)]
struct Running {
    epoch: u64,
    to_owner: mpsc::UnboundedSender<Notice>,
}

/// Ends the renewal of an owner's lease, however the owner's task ends.
struct OwnerGuard {
    sessions: Arc<Sessions>,
    key: SessionKey,
    epoch: u64,
    /// The session needs no claim until it is requested again.
    is_over: bool,
}

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(session = %self.key, "owner panicked; its lease is left to run out");
        }
        self.sessions.ended(&self.key, self.epoch, self.is_over);
    }
}

impl Sessions {
    pub(crate) fn new(deps: Arc<Deps>) -> Self {
        let capacity = Capacity::new(Arc::clone(&deps.owned));
        Self {
            deps,
            capacity: Mutex::new(capacity),
            freed: Notify::new(),
            tasks: TaskTracker::new(),
            to_claim: ToClaim::default(),
            draining: CancellationToken::new(),
            stalled: broadcast::channel(STALLED_ROOM).0,
        }
    }

    /// Spawns a task that continues when its caller is gone, and that a drain waits for.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(task.in_current_span())
    }

    /// Begins to own a session, in a task of its own.
    pub(crate) fn begin(self: &Arc<Self>, ownership: Ownership) {
        let (to_owner, notices) = mpsc::unbounded_channel();
        let (key, epoch) = (ownership.key.clone(), ownership.epoch);
        let state = self.insert(key.clone(), Running { epoch, to_owner });
        // It may park until a time, and is then to be claimed again.
        self.on_request(&key);
        let sessions = Arc::clone(self);
        let mut guard = OwnerGuard {
            sessions: Arc::clone(self),
            key: key.clone(),
            epoch,
            is_over: false,
        };
        // Boxed, so that it is not moved on its way into the task.
        let owning = Box::pin(own(self.deps.clone(), ownership, notices, state));
        self.tasks.spawn(async move {
            let end = owning.await;
            match &end {
                End::Stalled(error) if error.reason_name() == NEWER_VERSION => {
                    give_back::leave_to_newer(&sessions, &key, epoch, error).await;
                }
                End::NoRoom => give_back::leave_for_capacity(&sessions, &key, epoch).await,
                End::Parked { is_over } => guard.is_over = *is_over,
                _ => {}
            }
            drop(guard);
            match end {
                End::Stalled(error) => {
                    // What is left to a newer version has nothing wrong with it.
                    if error.reason_name() != NEWER_VERSION {
                        let cause = error.causes();
                        tracing::error!(session = %key, %error, cause, "session cannot continue");
                    }
                    // Without a watcher nobody receives it.
                    let _ = sessions.stalled.send((key, error));
                }
                End::Fenced => {
                    counter!(metrics::LEASES_LOST).increment(1);
                    tracing::info!(session = %key, epoch, "session is not owned here any more");
                }
                End::Parked { .. } | End::Released | End::NoRoom => {}
            }
        });
    }

    fn insert(&self, key: SessionKey, running: Running) -> StateBytes {
        let mut capacity = self.lock();
        if capacity.is_draining {
            // The owner has not begun, and holds the receiver.
            let _ = running.to_owner.send(Notice::Stop);
        }
        let state = capacity.begin_state();
        // An owner of an earlier epoch loses its entry, and with it the sender of its notices.
        capacity.running.insert(key, running);
        capacity.publish();
        state
    }

    /// The process is about to end, and begins nothing.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().is_draining
    }

    /// Sends to the owner of a session, if it is here.
    pub(crate) fn notify(&self, key: &SessionKey, notice: Notice) {
        if let Some(running) = self.lock().running.get(key) {
            let _ = running.to_owner.send(notice);
        }
    }

    /// A command for the session has been stored. Its owner reads it; if it has none, this process may
    /// claim the session.
    pub(crate) fn on_command(&self, key: &SessionKey) {
        // The store wakes the owner wherever it is; this only saves the way there and back.
        self.notify(key, Notice::Woken);
        // An owner that is here may have let go of the session just before.
        if self.deps.config.mode != Mode::ClaimAny {
            self.to_claim.add(key);
        }
    }

    /// A client of this process asks for work on the session. A process that claims any session finds
    /// it by itself.
    pub(crate) fn on_request(&self, key: &SessionKey) {
        if self.deps.config.mode == Mode::ClaimRequested {
            self.to_claim.add(key);
        }
    }

    /// Whether this process may own one more session.
    fn has_capacity(&self) -> bool {
        self.lock().free(&self.deps.config).is_ok()
    }

    /// Whether the owner of a session is here.
    pub(crate) fn has(&self, key: &SessionKey) -> bool {
        self.lock().running.contains_key(key)
    }

    /// Sends to the owner of a session, if it still is the owner of that epoch.
    fn notify_epoch(&self, key: &SessionKey, epoch: u64, notice: Notice) {
        let capacity = self.lock();
        let running = capacity.running.get(key);
        if let Some(running) = running.filter(|running| running.epoch == epoch) {
            let _ = running.to_owner.send(notice);
        }
    }

    fn ended(&self, key: &SessionKey, epoch: u64, is_over: bool) {
        let mut capacity = self.lock();
        let owner = capacity.running.get(key);
        if owner.is_some_and(|owner| owner.epoch == epoch) {
            capacity.running.remove(key);
            capacity.publish();
            // Under the lock: a later owner, which comes with a request, has not begun.
            if is_over {
                self.to_claim.end(key);
            }
            self.freed.notify_one();
        }
    }

    fn all(&self) -> Vec<(SessionKey, u64)> {
        let capacity = self.lock();
        let running = capacity.running.iter();
        running
            .map(|(key, owner)| (key.clone(), owner.epoch))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Capacity> {
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_all(&self) {
        self.draining.cancel();
        let mut capacity = self.lock();
        capacity.is_draining = true;
        for running in capacity.running.values() {
            // The receiver of one that has just ended is gone.
            let _ = running.to_owner.send(Notice::Stop);
        }
    }

    /// Asks all owners to let go, and waits until they have.
    pub(crate) async fn drain(&self) {
        self.stop_all();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
