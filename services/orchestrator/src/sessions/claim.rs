//! Claiming the sessions that this process is to own.

use super::renew::ask_for_renewal;
use super::{Reservation, Sessions, claim_requested, give_back};
use crate::config::Mode;
use crate::key::SessionKey;
use crate::owner::{Beginning, Notice, Ownership};
use crate::store::within;
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use cairn_rpc::metrics::{self, counter};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::Request;

/// How long one question for work waits at the store at most.
const CLAIM_WAIT_MS: u32 = 10_000;
/// How long the answer to it is waited for.
pub(super) const CLAIM_TIME: Duration = Duration::from_secs(15);
/// Most sessions claimed with one question.
pub(super) const CLAIM_BATCH: u32 = 32;
/// Pause after a question that failed.
pub(super) const CLAIM_PAUSE: Duration = Duration::from_millis(500);

/// Claims sessions that need an owner, until stopped: whichever there are, or those that clients of this
/// process asked for.
pub(crate) async fn claim(sessions: Arc<Sessions>, stop: CancellationToken) {
    match sessions.deps.config.mode {
        Mode::ClaimAny => claim_any(sessions, stop).await,
        Mode::ClaimRequested | Mode::AnswerOnly => claim_requested::claim(sessions, stop).await,
    }
}

/// What was claimed is taken over, whatever happens: nobody else may before the lease ends.
async fn claim_any(sessions: Arc<Sessions>, stop: CancellationToken) {
    let mut is_logged = false;
    loop {
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = ask_for_claims(&sessions) => answer,
        };
        let taken = answer.and_then(|answer| match answer {
            Some(answer) => take_answer(&sessions, &answer),
            None => Ok(()),
        });
        let was_logged = std::mem::replace(&mut is_logged, taken.is_err());
        if let Err(error) = taken {
            if !was_logged {
                tracing::warn!(%error, "no sessions can be claimed until the store answers");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CLAIM_PAUSE) => {}
            }
        }
    }
}

/// How long one question for work waits at the store: no longer than a lease, because the store still
/// gives sessions to a process that has been frozen meanwhile.
pub(super) fn wait_ms(sessions: &Sessions) -> u32 {
    sessions.deps.config.lease_ms().min(CLAIM_WAIT_MS)
}

/// Asks for as many sessions as this process has room for. Without room, it asks only for commands of
/// sessions that are here. `None` if there is room before one comes.
async fn ask_for_claims(
    sessions: &Arc<Sessions>,
) -> Result<Option<pb::ClaimSessionsResponse>, RpcError> {
    let free = sessions.lock().free(&sessions.deps.config).unwrap_or(0);
    let free = u32::try_from(free).unwrap_or(CLAIM_BATCH).min(CLAIM_BATCH);
    let request = pb::ClaimSessionsRequest {
        owner: sessions.deps.config.owner.clone(),
        max_sessions: free,
        lease_ms: sessions.deps.config.lease_ms(),
        wait_ms: wait_ms(sessions),
        only: None,
        level: sessions.deps.config.level(),
    };
    let request = within(CLAIM_TIME, Request::new(request));
    let store = &sessions.deps.store;
    let mut ownership = store.ownership();
    let since = store.clock.now();
    let asked = ownership.claim_sessions(request);
    let answer = match free {
        // The call that is given up has claimed nothing, and renewals report commands as well.
        0 => tokio::select! {
            answer = asked => answer,
            () = sessions.freed.notified() => return Ok(None),
        },
        _ => asked.await,
    };
    let answer = answer?.into_inner();
    store.clock.take(since, answer.store_time_unix_ms);
    Ok(Some(answer))
}

/// Takes over what was claimed, and gives back the sessions that there is no room for any more: runs may
/// have been started here while the store was asked.
pub(super) fn take_answer(
    sessions: &Arc<Sessions>,
    answer: &pb::ClaimSessionsResponse,
) -> Result<(), RpcError> {
    counter!(metrics::CLAIMS).increment(answer.claims.len() as u64);
    let mut claimed = Vec::new();
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
        match Reservation::new(sessions) {
            Ok(slot) => claimed.push((slot, ownership)),
            Err(_) => give_back::give_back(sessions, ownership),
        }
    }
    if !claimed.is_empty() {
        begin_claimed(sessions, claimed);
    }
    for session in &answer.woken {
        sessions.notify(&SessionKey::from_ref(session)?, Notice::Woken);
    }
    Ok(())
}

/// Takes over sessions that were claimed here, in a task. A drain waits for it, so that the sessions are
/// given back.
pub(crate) fn begin_claimed(sessions: &Arc<Sessions>, claimed: Vec<(Reservation, Ownership)>) {
    sessions.tasks.spawn(take_over(sessions.clone(), claimed));
}

/// Confirms the claims and begins to own the sessions. An owner reads its session itself: one that takes
/// long delays no other, and its lease is renewed meanwhile.
async fn take_over(sessions: Arc<Sessions>, claimed: Vec<(Reservation, Ownership)>) {
    for (_slot, ownership) in confirm(&sessions, claimed).await {
        sessions.begin(ownership);
    }
}

/// Renews the leases of claimed sessions before anything else is done with them.
///
/// The store counts a claim without progress only once its owner writes or renews, because the answer
/// to a claim may be lost. A session that kills its owner while it is read has to count as well, so the
/// renewal comes before the reading. If the store does not answer, the first transition or the next
/// renewal confirms the claim. Sessions that another owner has claimed since are dropped.
async fn confirm(
    sessions: &Sessions,
    claimed: Vec<(Reservation, Ownership)>,
) -> Vec<(Reservation, Ownership)> {
    let owned = claimed.iter();
    let owned: Vec<_> = owned.map(|(_, it)| (it.key.clone(), it.epoch)).collect();
    let renewal = match ask_for_renewal(sessions, &owned).await {
        Ok(renewal) => renewal,
        Err(error) => {
            let sessions = owned.len();
            tracing::info!(sessions, %error, "claims not confirmed");
            return claimed;
        }
    };
    let mut kept = Vec::with_capacity(claimed.len());
    for (slot, mut ownership) in claimed {
        if renewal.lost.contains(&ownership.key) {
            continue;
        }
        if !renewal.unanswered.contains(&ownership.key) {
            ownership.lease_until = renewal.lease_until;
        }
        kept.push((slot, ownership));
    }
    kept
}
