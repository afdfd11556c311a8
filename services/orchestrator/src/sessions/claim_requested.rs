//! Sessions that are taken up because a client of this process started or resumed them, or sent a
//! command for them.

use super::Sessions;
use super::claim::{CLAIM_PAUSE, CLAIM_TIME, take_answer, wait_ms};
use crate::key::SessionKey;
use crate::store::within;
use cairn_proto::memory as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Request;

/// What is still to be claimed.
#[derive(Debug, Default)]
pub(super) struct ToClaim {
    requested: Mutex<Requested>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Requested {
    /// Sessions that are not asked for yet.
    new: HashSet<SessionKey>,
    /// Sessions that are asked for.
    claiming: HashSet<SessionKey>,
    /// Those of both that need no claim. Each leaves with the next request for it.
    over: HashSet<SessionKey>,
}

impl ToClaim {
    /// From then on the session is claimed as soon as it can be.
    pub(super) fn add(&self, key: &SessionKey) {
        let mut requested = self.lock();
        requested.over.remove(key);
        if !requested.claiming.contains(key) {
            requested.new.insert(key.clone());
            self.added.notify_one();
        }
    }

    /// The session was owned here, and needs no claim until it is requested again.
    pub(super) fn end(&self, key: &SessionKey) {
        let mut requested = self.lock();
        if requested.claiming.contains(key) || requested.new.contains(key) {
            requested.over.insert(key.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requested> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self) -> HashSet<SessionKey> {
        loop {
            {
                let mut requested = self.lock();
                let new = std::mem::take(&mut requested.new);
                if !new.is_empty() {
                    requested.claiming.extend(new.iter().cloned());
                    return new;
                }
            }
            self.added.notified().await;
        }
    }

    fn is_over(&self, key: &SessionKey) -> bool {
        self.lock().over.contains(key)
    }

    /// Whether a session that is asked for still needs no claim. It is then not asked for any more.
    fn take_end(&self, key: &SessionKey) -> bool {
        let mut requested = self.lock();
        requested.over.remove(key) && requested.claiming.remove(key)
    }

    /// A session is not asked for any more.
    fn leave(&self, key: &SessionKey) {
        let mut requested = self.lock();
        requested.over.remove(key);
        requested.claiming.remove(key);
    }
}

/// Claims what is requested, each session for itself, until stopped.
pub(super) async fn claim(sessions: Arc<Sessions>, stop: CancellationToken) {
    let mut claims = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            requested = sessions.to_claim.take() => {
                for key in requested {
                    claims.spawn(claim_one(sessions.clone(), key));
                }
            }
            Some(_) = claims.join_next() => {}
        }
    }
}

/// Asks for the session until it has been claimed, or is owned here and needs no claim. Where steps are
/// carried out, it is asked for again and again until no run of it is active, because it may park until a
/// time. One that cannot be claimed, because it is quarantined for example, is asked for as long as it is
/// there and this process lives: a person may release it.
async fn claim_one(sessions: Arc<Sessions>, key: SessionKey) {
    let (mut longest_ms, mut is_logged) = (0, false);
    loop {
        // Claimed now, it would be given back at once, over and over.
        while !sessions.has(&key) && !sessions.has_capacity() {
            tokio::time::sleep(CLAIM_PAUSE).await;
        }
        // A command that was stored before this is found by the question that follows, and one that is stored
        // later is a request.
        let is_over = sessions.to_claim.is_over(&key);
        let waits_ms = if is_over { 0 } else { longest_ms };
        match try_one(&sessions, &key, waits_ms).await {
            Ok(is_claimed) => {
                let is_here = is_claimed || sessions.has(&key);
                if is_here && !sessions.deps.config.runs_steps() {
                    return sessions.to_claim.leave(&key);
                }
                if is_over && !is_here && sessions.to_claim.take_end(&key) {
                    return;
                }
                longest_ms = wait_ms(&sessions);
            }
            // It was deleted.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return sessions.to_claim.leave(&key);
            }
            Err(error) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(%error, session = %key, "the session cannot be claimed");
                }
                tokio::time::sleep(CLAIM_PAUSE).await;
            }
        }
    }
}

/// Says whether it was claimed.
async fn try_one(
    sessions: &Arc<Sessions>,
    key: &SessionKey,
    wait_ms: u32,
) -> Result<bool, RpcError> {
    let request = pb::ClaimSessionsRequest {
        owner: sessions.deps.config.owner.clone(),
        max_sessions: 1,
        lease_ms: sessions.deps.config.lease_ms(),
        wait_ms,
        only: Some(key.to_ref()),
        level: sessions.deps.config.level(),
    };
    let request = within(CLAIM_TIME, Request::new(request));
    let since = sessions.deps.store.clock.now();
    let answer = sessions
        .deps
        .store
        .ownership()
        .claim_sessions(request)
        .await?;
    let answer = answer.into_inner();
    sessions
        .deps
        .store
        .clock
        .take(since, answer.store_time_unix_ms);
    take_answer(sessions, &answer)?;
    Ok(!answer.claims.is_empty())
}
