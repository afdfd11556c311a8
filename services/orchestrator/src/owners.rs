//! The sessions that this process owns: claimed, renewed, given back.

use crate::catalogue::Catalogue;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::session::{Beginning, End, Notice, Ownership, own};
use crate::store::within;
use cairn_proto::memory as pb;
use cairn_rpc::{Link, RpcError};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Request;

/// How long one question for work waits at the store.
const CLAIM_WAIT_MS: u32 = 10_000;
/// How long the answer to it is waited for.
const CLAIM_TIME: Duration = Duration::from_secs(15);
/// Most sessions claimed with one question.
const CLAIM_BATCH: u32 = 32;
/// Most leases renewed with one request.
const RENEW_BATCH: usize = 1024;
/// Pause after a question that failed.
const CLAIM_PAUSE: Duration = Duration::from_millis(500);
/// How old the catalogue of tools may become.
const CATALOGUE_AGE: Duration = Duration::from_secs(10);

/// The owners of this process, by session.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    running: Mutex<HashMap<SessionKey, Running>>,
    /// The process is about to end: whoever begins now is told so at once.
    is_draining: AtomicBool,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Running {
    epoch: u64,
    to_owner: mpsc::UnboundedSender<Notice>,
}

impl Owners {
    /// Begins to own a session, in a task of its own.
    pub(crate) fn begin(&self, deps: &Arc<Deps>, ownership: Ownership) {
        let (to_owner, notices) = mpsc::unbounded_channel();
        let (key, epoch) = (ownership.key.clone(), ownership.epoch);
        if self.is_draining.load(Ordering::SeqCst) {
            // The receiver is right here.
            let _ = to_owner.send(Notice::Stop);
        }
        let running = Running { epoch, to_owner };
        // An owner of an earlier epoch loses its place, and so knows that it is none any more.
        self.lock().insert(key.clone(), running);
        let deps = deps.clone();
        self.tasks.spawn(async move {
            let end = own(deps.clone(), ownership, notices).await;
            deps.owners.ended(&key, epoch);
            if let End::Stalled(error) = end {
                tracing::error!(session = %key, %error, "session cannot go on");
                // Nobody may be watching.
                let _ = deps.stalled.send((key, error));
            }
        });
    }

    /// Sends to the owner of a session, if it is here.
    pub(crate) fn tell(&self, key: &SessionKey, notice: Notice) {
        if let Some(running) = self.lock().get(key) {
            let _ = running.to_owner.send(notice);
        }
    }

    /// Whether the owner of a session is here.
    pub(crate) fn has(&self, key: &SessionKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Sends to the owner of a session, if it still is the owner of that epoch.
    fn tell_epoch(&self, key: &SessionKey, epoch: u64, notice: Notice) {
        if let Some(running) = self
            .lock()
            .get(key)
            .filter(|running| running.epoch == epoch)
        {
            let _ = running.to_owner.send(notice);
        }
    }

    fn ended(&self, key: &SessionKey, epoch: u64) {
        let mut running = self.lock();
        if running.get(key).is_some_and(|owner| owner.epoch == epoch) {
            running.remove(key);
        }
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    fn all(&self) -> Vec<(SessionKey, u64)> {
        self.lock()
            .iter()
            .map(|(key, owner)| (key.clone(), owner.epoch))
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionKey, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all owners to let go, and waits until they have.
    pub(crate) async fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        for (key, _) in self.all() {
            self.tell(&key, Notice::Stop);
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Claims sessions that need an owner, until stopped. What was claimed is taken over, whatever
/// happens: nobody else may before the lease ends.
pub(crate) async fn claim(deps: Arc<Deps>, stop: CancellationToken) {
    loop {
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = ask_for_claims(&deps) => answer,
        };
        let taken = answer.and_then(|answer| take_answer(&deps, &answer));
        if let Err(error) = taken {
            tracing::warn!(%error, "no sessions could be claimed");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CLAIM_PAUSE) => {}
            }
        }
    }
}

async fn ask_for_claims(deps: &Arc<Deps>) -> Result<pb::ClaimSessionsResponse, RpcError> {
    let room = loop {
        let room = deps.config.max_sessions.saturating_sub(deps.owners.count());
        if room > 0 {
            break u32::try_from(room).unwrap_or(CLAIM_BATCH).min(CLAIM_BATCH);
        }
        tokio::time::sleep(CLAIM_PAUSE).await;
    };
    let request = pb::ClaimSessionsRequest {
        owner: deps.config.owner.clone(),
        max_sessions: room,
        lease_ms: deps.config.lease_ms(),
        wait_ms: CLAIM_WAIT_MS,
    };
    let request = within(CLAIM_TIME, Request::new(request));
    let answer = deps.store.ownership().claim_sessions(request).await?;
    Ok(answer.into_inner())
}

/// Takes over what was claimed. An owner reads its session itself: one that takes long keeps no
/// other waiting, and its lease is renewed meanwhile.
fn take_answer(deps: &Arc<Deps>, answer: &pb::ClaimSessionsResponse) -> Result<(), RpcError> {
    deps.store.clock.take(answer.store_time_unix_ms);
    for claim in &answer.claims {
        let session = claim.session.as_ref();
        let ownership = Ownership {
            key: SessionKey::from_ref(session.ok_or_else(|| RpcError::missing("session"))?)?,
            epoch: claim.epoch,
            lease_until: claim.lease_until_unix_ms,
            beginning: Beginning::TakenOver {
                holder_dead: claim.previous_holder_dead,
            },
        };
        deps.owners.begin(deps, ownership);
    }
    for session in &answer.woken {
        deps.owners
            .tell(&SessionKey::from_ref(session)?, Notice::Woken);
    }
    Ok(())
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

async fn renew_batch(deps: &Arc<Deps>, owned: &[(SessionKey, u64)]) -> Result<(), RpcError> {
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
    let answer = deps.store.ownership().renew_leases(request).await?;
    let answer = answer.into_inner();
    deps.store.clock.take(answer.store_time_unix_ms);
    let lost: Result<HashSet<_>, _> = answer.lost.iter().map(SessionKey::from_ref).collect();
    let lost = lost?;
    for (key, epoch) in owned {
        let notice = if lost.contains(key) {
            Notice::Lost
        } else {
            Notice::Renewed(answer.lease_until_unix_ms)
        };
        deps.owners.tell_epoch(key, *epoch, notice);
    }
    for session in &answer.woken {
        deps.owners
            .tell(&SessionKey::from_ref(session)?, Notice::Woken);
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
