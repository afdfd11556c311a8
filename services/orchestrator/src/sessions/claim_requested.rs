//! Sessions that are taken up because a client of this process started or resumed them, or sent a
//! command for them.

use super::Sessions;
use super::claim::{CLAIM_PAUSE, CLAIM_TIME, take_answer, wait_ms};
use crate::key::SessionKey;
use crate::store::within;
use cairn_proto::memory as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::collections::HashMap;
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
    new: Vec<SessionKey>,
    /// All sessions that are to be claimed.
    claims: HashMap<SessionKey, Claim>,
}

#[derive(Debug, Default)]
struct Claim {
    /// The session was owned here, and was not requested since it ended.
    is_over: bool,
    /// It was requested since the store was last asked for it.
    is_requested: bool,
}

impl ToClaim {
    /// From then on the session is claimed as soon as it can be.
    pub(super) fn add(&self, key: &SessionKey) {
        let mut requested = self.lock();
        let requested = &mut *requested;
        let claim = requested.claims.entry(key.clone()).or_insert_with(|| {
            requested.new.push(key.clone());
            self.added.notify_one();
            Claim::default()
        });
        claim.is_over = false;
        claim.is_requested = true;
    }

    /// The session was owned here, and needs no claim until it is requested again.
    pub(super) fn end(&self, key: &SessionKey) {
        if let Some(claim) = self.lock().claims.get_mut(key) {
            claim.is_over = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requested> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self) -> Vec<SessionKey> {
        loop {
            let new = std::mem::take(&mut self.lock().new);
            if !new.is_empty() {
                return new;
            }
            self.added.notified().await;
        }
    }

    /// The store is asked for the session. Returns whether it needs no claim, as far as is known here.
    fn ask(&self, key: &SessionKey) -> bool {
        let mut requested = self.lock();
        requested.claims.get_mut(key).is_some_and(|claim| {
            claim.is_requested = false;
            claim.is_over
        })
    }

    /// Ends the claim of a session, unless it was requested since the store was asked. Returns whether it
    /// did.
    fn leave(&self, key: &SessionKey) -> bool {
        let mut requested = self.lock();
        let claim = requested.claims.get(key);
        let leaves = claim.is_none_or(|claim| !claim.is_requested);
        if leaves {
            requested.claims.remove(key);
        }
        leaves
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
        // The question that follows finds a command that was stored before, and one that is stored later
        // is a request.
        let is_over = sessions.to_claim.ask(&key);
        let waits_ms = if is_over { 0 } else { longest_ms };
        match try_one(&sessions, &key, waits_ms).await {
            Ok(is_claimed) => {
                let needs_none = match is_claimed || sessions.has(&key) {
                    true => !sessions.deps.config.runs_steps(),
                    false => is_over,
                };
                if needs_none && sessions.to_claim.leave(&key) {
                    return;
                }
                longest_ms = wait_ms(&sessions);
            }
            // It was deleted.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if sessions.to_claim.leave(&key) {
                    return;
                }
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
    let store = &sessions.deps.store;
    let since = store.clock.now();
    let answer = store.ownership().claim_sessions(request).await?;
    let answer = answer.into_inner();
    store.clock.take(since, answer.store_time_unix_ms);
    take_answer(sessions, &answer)?;
    Ok(!answer.claims.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without that, a command would wait for an owner that no process looks for.
    #[tokio::test]
    async fn a_request_during_a_question_keeps_the_claim() {
        let to_claim = ToClaim::default();
        let key = SessionKey::new(&"space".parse().expect("a namespace"), "session");
        to_claim.add(&key);
        to_claim.add(&key);
        assert_eq!(to_claim.take().await, std::slice::from_ref(&key));
        assert!(!to_claim.ask(&key), "it was never owned here");
        to_claim.add(&key);
        assert!(!to_claim.leave(&key), "a command may wait");
        to_claim.end(&key);
        to_claim.add(&key);
        assert!(!to_claim.ask(&key), "it was requested after its end");
        to_claim.end(&key);
        assert!(to_claim.ask(&key));
        assert!(to_claim.leave(&key));
        // The next request begins a claim again.
        to_claim.add(&key);
        assert_eq!(to_claim.take().await, [key]);
    }
}
