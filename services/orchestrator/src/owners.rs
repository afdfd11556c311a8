//! The sessions that this process owns: claimed, renewed, given back.

use crate::catalogue::Catalogue;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::session::{End, Message, Owner, Ownership};
use cairn_engine::decide::Input;
use cairn_proto::memory as pb;
use cairn_rpc::{Link, RpcError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long one question for work waits at the store.
const CLAIM_WAIT_MS: u32 = 10_000;
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
    to_owner: mpsc::UnboundedSender<Message>,
}

impl Owners {
    /// Begins to own a session, in a task of its own.
    pub(crate) fn begin(&self, deps: &Arc<Deps>, ownership: Ownership, first: Option<Input>) {
        let (to_owner, inbox) = mpsc::unbounded_channel();
        let (key, epoch) = (ownership.key.clone(), ownership.epoch);
        if self.is_draining.load(Ordering::SeqCst) {
            // The receiver is right here.
            let _ = to_owner.send(Message::Stop);
        }
        let running = Running { epoch, to_owner };
        // An owner of an earlier epoch finds out by itself that it is none any more.
        self.lock().insert(key.clone(), running);
        let owner = Owner::new(deps.clone(), ownership, inbox);
        let deps = deps.clone();
        self.tasks.spawn(async move {
            let end = owner.run(first).await;
            deps.owners.ended(&key, epoch);
            if let End::Stalled(error) = end {
                tracing::error!(session = %key, %error, "session cannot go on");
                // Nobody may be watching.
                let _ = deps.stalled.send((key, error));
            }
        });
    }

    /// Sends to the owner of a session, if it is here.
    pub(crate) fn tell(&self, key: &SessionKey, message: Message) {
        if let Some(running) = self.lock().get(key) {
            let _ = running.to_owner.send(message);
        }
    }

    /// Sends to the owner of a session, if it still is the owner of that epoch.
    fn tell_epoch(&self, key: &SessionKey, epoch: u64, message: Message) {
        if let Some(running) = self
            .lock()
            .get(key)
            .filter(|running| running.epoch == epoch)
        {
            let _ = running.to_owner.send(message);
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
            self.tell(&key, Message::Stop);
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
        let taken = match answer {
            Ok(answer) => take_answer(&deps, answer).await,
            Err(error) => Err(error),
        };
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
    Ok(deps
        .store
        .ownership()
        .claim_sessions(request)
        .await?
        .into_inner())
}

async fn take_answer(deps: &Arc<Deps>, answer: pb::ClaimSessionsResponse) -> Result<(), RpcError> {
    deps.store.clock.take(answer.store_time_unix_ms);
    for session in &answer.woken {
        deps.owners
            .tell(&SessionKey::from_ref(session)?, Message::Woken);
    }
    for claim in answer.claims {
        take_over(deps, claim).await;
    }
    Ok(())
}

/// Folds a claimed session and goes on with it. One that cannot be folded is left to its lease:
/// after five claims without progress the store sets it aside.
async fn take_over(deps: &Arc<Deps>, claim: pb::Claim) {
    let Some(Ok(key)) = claim.session.as_ref().map(SessionKey::from_ref) else {
        return;
    };
    let loaded = match deps.store.load(&key, None).await {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!(session = %key, %error, "session cannot be read");
            let _ = deps.stalled.send((key, error));
            return;
        }
    };
    let ownership = Ownership {
        key,
        epoch: claim.epoch,
        lease_until: claim.lease_until_unix_ms,
        loaded,
    };
    let first = Input::TakenOver {
        holder_dead: claim.previous_holder_dead,
    };
    deps.owners.begin(deps, ownership, Some(first));
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
    let answer = deps
        .store
        .ownership()
        .renew_leases(request)
        .await?
        .into_inner();
    deps.store.clock.take(answer.store_time_unix_ms);
    let lost: Result<Vec<_>, _> = answer.lost.iter().map(SessionKey::from_ref).collect();
    let lost = lost?;
    for (key, epoch) in owned {
        let message = if lost.contains(key) {
            Message::Lost
        } else {
            Message::Renewed(answer.lease_until_unix_ms)
        };
        deps.owners.tell_epoch(key, *epoch, message);
    }
    for session in &answer.woken {
        deps.owners
            .tell(&SessionKey::from_ref(session)?, Message::Woken);
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
