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
    sessions: Mutex<HashSet<SessionKey>>,
    added: Notify,
}

impl ToClaim {
    /// From then on the session is claimed as soon as it can be.
    pub(super) fn add(&self, key: &SessionKey) {
        self.lock().insert(key.clone());
        self.added.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionKey>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self) -> HashSet<SessionKey> {
        loop {
            let taken = std::mem::take(&mut *self.lock());
            if !taken.is_empty() {
                return taken;
            }
            self.added.notified().await;
        }
    }
}

/// Claims what is requested, each session for itself, until stopped.
pub(super) async fn claim(sessions: Arc<Sessions>, stop: CancellationToken) {
    let mut claims = JoinSet::new();
    let mut under_way = HashSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            requested = sessions.to_claim.take() => {
                let new = requested.into_iter().filter(|key| under_way.insert(key.clone()));
                for key in new.collect::<Vec<_>>() {
                    claims.spawn(claim_one(sessions.clone(), key));
                }
            }
            Some(Ok(key)) = claims.join_next() => {
                under_way.remove(&key);
            }
        }
    }
}

/// Asks for the session until it has been claimed, or is owned here and needs no claim; where steps are
/// carried out, again and again, because the session may park until a time. One that cannot be claimed,
/// because it is quarantined for example, is asked for as long as it is there and this process lives: a
/// person may release it.
async fn claim_one(sessions: Arc<Sessions>, key: SessionKey) -> SessionKey {
    let (mut waits_ms, mut is_logged) = (0, false);
    loop {
        // Claimed now, it would be given back at once, over and over.
        while !sessions.has(&key) && !sessions.has_capacity() {
            tokio::time::sleep(CLAIM_PAUSE).await;
        }
        match try_one(&sessions, &key, waits_ms).await {
            Ok(is_claimed) => {
                let is_here = is_claimed || sessions.has(&key);
                if is_here && !sessions.deps.config.runs_steps() {
                    return key;
                }
                waits_ms = wait_ms(&sessions);
            }
            // It was deleted.
            Err(error) if error.kind() == ErrorKind::NotFound => return key,
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
