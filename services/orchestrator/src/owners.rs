//! The sessions that this process owns: claimed, renewed, given back.

mod back;
mod claim;
mod places;
mod unsure;
mod wanted;

use crate::catalogue::Catalogue;
use crate::config::TakesUp;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::session::{End, Notice, Ownership, own};
use crate::store::{NEWER_VERSION, within};
use cairn_proto::memory as pb;
use cairn_rpc::metrics::{self, counter};
use cairn_rpc::{Link, RpcError};
use places::Places;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Request;
use tracing::Instrument as _;
use wanted::Wanted;

pub(crate) use claim::claim;
pub(crate) use places::{Bound, Slot, StateBytes};
pub(crate) use unsure::{Known, Unsure};

/// Most leases renewed with one request.
const RENEW_BATCH: usize = 1024;
/// How old the catalogue of tools may become.
const CATALOGUE_AGE: Duration = Duration::from_secs(10);

/// The owners of this process, by session.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    places: Mutex<Places>,
    /// There may be room again.
    freed: Notify,
    tasks: TaskTracker,
    wanted: Wanted,
    /// What owners knew that ended while the store did not answer.
    pub(crate) unsure: Unsure,
}

#[derive(Debug)]
struct Running {
    epoch: u64,
    to_owner: mpsc::UnboundedSender<Notice>,
}

/// An owner's place among the others. However its task ends, the lease is renewed no longer.
struct Place {
    deps: Arc<Deps>,
    key: SessionKey,
    epoch: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(session = %self.key, "owner panicked; its lease is left to run out");
        }
        self.deps.owners.ended(&self.key, self.epoch);
    }
}

impl Owners {
    /// Spawns a task that continues when its caller is gone, and that a drain waits for.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(task.in_current_span())
    }

    /// Begins to own a session, in a task of its own.
    pub(crate) fn begin(&self, deps: &Arc<Deps>, ownership: Ownership) {
        let (to_owner, notices) = mpsc::unbounded_channel();
        let (key, epoch) = (ownership.key.clone(), ownership.epoch);
        // It may park until a time, and is then to be claimed again.
        self.requested(deps, &key);
        let running = Running { epoch, to_owner };
        let state = self.insert(key.clone(), running);
        let deps = deps.clone();
        let place = Place {
            deps: deps.clone(),
            key: key.clone(),
            epoch,
        };
        self.tasks.spawn(async move {
            let end = own(deps.clone(), ownership, notices, state).await;
            match &end {
                End::Stalled(error) if error.reason_name() == NEWER_VERSION => {
                    back::leave_to_newer(&deps, &key, epoch, error).await;
                }
                End::NoRoom => back::leave_for_room(&deps, &key, epoch).await,
                _ => {}
            }
            drop(place);
            match end {
                End::Stalled(error) => {
                    let cause = error.causes();
                    tracing::error!(session = %key, %error, cause, "session cannot continue");
                    // Nobody may be watching.
                    let _ = deps.stalled.send((key, error));
                }
                End::Fenced => {
                    counter!(metrics::LEASES_LOST).increment(1);
                    tracing::info!(session = %key, epoch, "session is not owned here any more");
                }
                End::Parked | End::Released | End::NoRoom => {}
            }
        });
    }

    fn insert(&self, key: SessionKey, running: Running) -> StateBytes {
        let mut places = self.lock();
        if places.is_draining {
            // The owner has not begun, and holds the receiver.
            let _ = running.to_owner.send(Notice::Stop);
        }
        let state = places.begin_state();
        // An owner of an earlier epoch loses its place, and so knows that it is none any more.
        places.running.insert(key, running);
        places.tell();
        state
    }

    /// The process is about to end: nothing is to be begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().is_draining
    }

    /// Sends to the owner of a session, if it is here.
    pub(crate) fn tell(&self, key: &SessionKey, notice: Notice) {
        if let Some(running) = self.lock().running.get(key) {
            let _ = running.to_owner.send(notice);
        }
    }

    /// A command for the session has been stored: its owner, wherever it is, is to know, and if it
    /// has none this process may become it.
    pub(crate) fn commanded(&self, deps: &Deps, key: &SessionKey) {
        // The store wakes the owner wherever it is; this only saves the way there and back.
        self.tell(key, Notice::Woken);
        // An owner that is here may have let go of the session just before.
        if deps.config.takes_up != TakesUp::Any {
            self.wanted.add(key);
        }
    }

    /// A client of this process wants the session to be worked on. A process that takes up any session
    /// finds it by itself.
    pub(crate) fn requested(&self, deps: &Deps, key: &SessionKey) {
        if deps.config.takes_up == TakesUp::Requested {
            self.wanted.add(key);
        }
    }

    /// Whether this process may own one more session.
    fn has_room(&self, deps: &Deps) -> bool {
        self.lock().room(&deps.config).is_ok()
    }

    /// Whether the owner of a session is here.
    pub(crate) fn has(&self, key: &SessionKey) -> bool {
        self.lock().running.contains_key(key)
    }

    /// Sends to the owner of a session, if it still is the owner of that epoch.
    fn tell_epoch(&self, key: &SessionKey, epoch: u64, notice: Notice) {
        if let Some(running) = self
            .lock()
            .running
            .get(key)
            .filter(|running| running.epoch == epoch)
        {
            let _ = running.to_owner.send(notice);
        }
    }

    fn ended(&self, key: &SessionKey, epoch: u64) {
        let mut places = self.lock();
        let owner = places.running.get(key);
        if owner.is_some_and(|owner| owner.epoch == epoch) {
            places.running.remove(key);
            places.tell();
            self.freed.notify_one();
        }
    }

    fn all(&self) -> Vec<(SessionKey, u64)> {
        self.lock()
            .running
            .iter()
            .map(|(key, owner)| (key.clone(), owner.epoch))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_all(&self) {
        let mut places = self.lock();
        places.is_draining = true;
        for running in places.running.values() {
            // One that has just ended hears nothing.
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

/// Renews the leases of all owners, three times in each lease, until stopped.
pub(crate) async fn renew(deps: Arc<Deps>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(deps.config.lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        for owned in deps.owners.all().chunks(RENEW_BATCH) {
            if let Err(error) = renew_batch(&deps, owned).await {
                tracing::warn!(%error, "leases could not be renewed");
            }
        }
    }
}

/// What a renewal brought.
struct Renewal {
    lost: HashSet<SessionKey>,
    /// Their leases run on to the end that they had.
    unanswered: HashSet<SessionKey>,
    woken: Vec<SessionKey>,
    /// End of the renewed leases by the store's clock.
    lease_until: i64,
}

async fn ask_for_renewal(deps: &Deps, owned: &[(SessionKey, u64)]) -> Result<Renewal, RpcError> {
    let sessions = owned.iter().map(|(key, epoch)| pb::OwnedSession {
        session: Some(key.to_ref()),
        epoch: *epoch,
    });
    let request = pb::RenewLeasesRequest {
        owner: deps.config.owner.clone(),
        sessions: sessions.collect(),
        lease_ms: deps.config.lease_ms(),
    };
    // The next renewal is a third of a lease away.
    let request = within(deps.config.lease / 3, Request::new(request));
    let asked = deps.store.clock.now();
    let answer = deps.store.ownership().renew_leases(request).await?;
    let answer = answer.into_inner();
    deps.store.clock.take(asked, answer.store_time_unix_ms);
    let lost = answer.lost.iter().map(SessionKey::from_ref);
    let unanswered = answer.unanswered.iter().map(SessionKey::from_ref);
    let woken = answer.woken.iter().map(SessionKey::from_ref);
    Ok(Renewal {
        lost: lost.collect::<Result<_, _>>()?,
        unanswered: unanswered.collect::<Result<_, _>>()?,
        woken: woken.collect::<Result<_, _>>()?,
        lease_until: answer.lease_until_unix_ms,
    })
}

async fn renew_batch(deps: &Arc<Deps>, owned: &[(SessionKey, u64)]) -> Result<(), RpcError> {
    let renewal = ask_for_renewal(deps, owned).await?;
    if !renewal.unanswered.is_empty() {
        let sessions = renewal.unanswered.len();
        tracing::warn!(
            sessions,
            "leases could not be renewed: a server of the store is away"
        );
    }
    let answered = owned.iter();
    let answered = answered.filter(|(key, _)| !renewal.unanswered.contains(key));
    for (key, epoch) in answered {
        let notice = if renewal.lost.contains(key) {
            Notice::Lost
        } else {
            Notice::Renewed(renewal.lease_until)
        };
        deps.owners.tell_epoch(key, *epoch, notice);
    }
    for key in &renewal.woken {
        deps.owners.tell(key, Notice::Woken);
    }
    Ok(())
}

/// Keeps the catalogue of tools fresh, until stopped.
pub(crate) async fn refresh_catalogue(deps: Arc<Deps>, tools: Link, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CATALOGUE_AGE) => {}
        }
        match Catalogue::read(&tools).await {
            Ok(catalogue) => deps.set_catalogue(catalogue),
            Err(error) => tracing::warn!(%error, "the catalogue of tools could not be read"),
        }
    }
}
