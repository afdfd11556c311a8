//! `cairn.memory.v1.OwnershipService`.

use super::convert;
use crate::error::about;
use crate::port::{
    Claim, ClaimRequest, OwnedSession, ReleaseRequest, RenewRequest, Store, WaitingSession,
};
use cairn_proto::memory::{self as pb, ownership_service_server::OwnershipService};
use cairn_rpc::RpcError;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

const MAX_CLAIMS: u32 = 1024;
const MAX_WAIT_MS: u32 = 30_000;
const MAX_DELAY_MS: u32 = 600_000;
const MAX_RENEWALS: usize = 4096;
const MAX_WAITING: u32 = 1024;
/// An answer of `ListWaiting` ends with the session whose needs reach this many bytes, so that it fits into a
/// message.
const WAITING_BYTES: usize = 1 << 20;

/// Ownership over a store.
pub(super) struct Ownership {
    store: Arc<dyn Store>,
}

impl Ownership {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[tonic::async_trait]
impl OwnershipService for Ownership {
    async fn claim_sessions(
        &self,
        request: Request<pb::ClaimSessionsRequest>,
    ) -> Result<Response<pb::ClaimSessionsResponse>, Status> {
        let request = claim_request(request.into_inner())?;
        let claims = self.store.claim(request).await.map_err(RpcError::from)?;
        Ok(Response::new(pb::ClaimSessionsResponse {
            claims: claims.claims.iter().map(claim).collect(),
            woken: claims.woken.iter().map(convert::reference).collect(),
            store_time_unix_ms: claims.now_unix_ms,
        }))
    }

    async fn renew_leases(
        &self,
        request: Request<pb::RenewLeasesRequest>,
    ) -> Result<Response<pb::RenewLeasesResponse>, Status> {
        let request = renew_request(request.into_inner())?;
        let renewed = self.store.renew(request).await.map_err(RpcError::from)?;
        Ok(Response::new(pb::RenewLeasesResponse {
            lost: renewed.lost.iter().map(convert::reference).collect(),
            woken: renewed.woken.iter().map(convert::reference).collect(),
            unanswered: renewed.unanswered.iter().map(convert::reference).collect(),
            lease_until_unix_ms: renewed.lease_until_unix_ms,
            store_time_unix_ms: renewed.now_unix_ms,
        }))
    }

    async fn release_session(
        &self,
        request: Request<pb::ReleaseSessionRequest>,
    ) -> Result<Response<pb::ReleaseSessionResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let request = request.into_inner();
        let release = ReleaseRequest {
            key: key.clone(),
            owner: convert::owner(request.owner)?,
            epoch: request.epoch,
            delay_ms: release_delay(request.delay_ms)?,
        };
        self.store.release(release).await.map_err(about(&key))?;
        Ok(Response::new(pb::ReleaseSessionResponse {}))
    }

    async fn quarantine(
        &self,
        request: Request<pb::QuarantineRequest>,
    ) -> Result<Response<pb::QuarantineResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let accepted_losses = request.into_inner().accepted_losses;
        let is_aside = self.store.quarantine(&key, accepted_losses).await;
        let is_accepted = !is_aside.map_err(about(&key))?;
        Ok(Response::new(pb::QuarantineResponse { is_accepted }))
    }

    async fn release_quarantine(
        &self,
        request: Request<pb::ReleaseQuarantineRequest>,
    ) -> Result<Response<pb::ReleaseQuarantineResponse>, Status> {
        let key = convert::session_key(&request, &request.get_ref().session)?;
        let accept_loss = request.into_inner().accept_loss;
        let released = self.store.release_quarantine(&key, accept_loss).await;
        released.map_err(about(&key))?;
        Ok(Response::new(pb::ReleaseQuarantineResponse {}))
    }

    async fn count_queued(
        &self,
        request: Request<pb::CountQueuedRequest>,
    ) -> Result<Response<pb::CountQueuedResponse>, Status> {
        let level = convert::level("level", request.into_inner().level)?;
        let queued = self.store.queued(level).await.map_err(RpcError::from)?;
        // Who cannot tell how full it is still counts.
        let fill = self.store.fill().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "how full the store is cannot be told");
            None
        });
        Ok(Response::new(pb::CountQueuedResponse {
            queued,
            memory_used_bytes: fill.map_or(0, |fill| fill.used_bytes),
            memory_most_bytes: fill.map_or(0, |fill| fill.most_bytes),
            not_durable: self.store.refuses_new(),
        }))
    }

    async fn list_waiting(
        &self,
        request: Request<pb::ListWaitingRequest>,
    ) -> Result<Response<pb::ListWaitingResponse>, Status> {
        let max = waiting_length(request.into_inner().max_sessions)?;
        let waiting = self.store.waiting(max).await.map_err(RpcError::from)?;
        let sessions = waiting_messages(waiting);
        Ok(Response::new(pb::ListWaitingResponse { sessions }))
    }

    async fn wake_session(
        &self,
        request: Request<pb::WakeSessionRequest>,
    ) -> Result<Response<pb::WakeSessionResponse>, Status> {
        let key = convert::referred("session", request.into_inner().session)?;
        let woken = self.store.wake(&key).await.map_err(about(&key))?;
        Ok(Response::new(pb::WakeSessionResponse { woken }))
    }
}

fn claim_request(request: pb::ClaimSessionsRequest) -> Result<ClaimRequest, RpcError> {
    let max = request.max_sessions;
    if max > MAX_CLAIMS {
        return Err(RpcError::invalid("max_sessions", format!("is {max}")).allowed("at most 1024"));
    }
    let wait = request.wait_ms;
    if wait > MAX_WAIT_MS {
        return Err(RpcError::invalid("wait_ms", format!("is {wait}")).allowed("at most 30000"));
    }
    Ok(ClaimRequest {
        owner: convert::owner(request.owner)?,
        max_sessions: usize::try_from(max).unwrap_or(usize::MAX),
        lease_ms: convert::lease_ms(request.lease_ms)?,
        wait: Duration::from_millis(wait.into()),
        only: match request.only {
            Some(only) => Some(convert::referred("only", Some(only))?),
            None => None,
        },
        level: convert::level("level", request.level)?,
    })
}

fn waiting_length(max: u32) -> Result<usize, RpcError> {
    if max > MAX_WAITING {
        return Err(RpcError::invalid("max_sessions", format!("is {max}")).allowed("at most 1024"));
    }
    Ok(usize::try_from(max).unwrap_or(usize::MAX))
}

/// The first sessions, as many as fit into an answer.
fn waiting_messages(waiting: Vec<WaitingSession>) -> Vec<pb::WaitingSession> {
    let mut bytes = 0;
    let fits = |session: &WaitingSession| {
        let fits = bytes < WAITING_BYTES;
        bytes += session.waits_for.iter().map(String::len).sum::<usize>();
        fits
    };
    let message = |session: WaitingSession| pb::WaitingSession {
        session: Some(convert::reference(&session.key)),
        since_unix_ms: session.since_unix_ms,
        waits_for: session.waits_for,
    };
    waiting.into_iter().take_while(fits).map(message).collect()
}

fn release_delay(delay_ms: u32) -> Result<u32, RpcError> {
    if delay_ms > MAX_DELAY_MS {
        let problem = format!("is {delay_ms}");
        return Err(RpcError::invalid("delay_ms", problem).allowed("at most 600000"));
    }
    Ok(delay_ms)
}

fn renew_request(request: pb::RenewLeasesRequest) -> Result<RenewRequest, RpcError> {
    let count = request.sessions.len();
    if count > MAX_RENEWALS {
        let problem = format!("has {count} entries");
        return Err(RpcError::invalid("sessions", problem).allowed("at most 4096"));
    }
    let owned = |(index, owned): (usize, pb::OwnedSession)| {
        Ok(OwnedSession {
            key: convert::referred(&format!("sessions[{index}].session"), owned.session)?,
            epoch: owned.epoch,
        })
    };
    let sessions = request.sessions.into_iter().enumerate().map(owned);
    Ok(RenewRequest {
        sessions: sessions.collect::<Result<_, RpcError>>()?,
        owner: convert::owner(request.owner)?,
        lease_ms: convert::lease_ms(request.lease_ms)?,
    })
}

fn claim(claim: &Claim) -> pb::Claim {
    pb::Claim {
        session: Some(convert::reference(&claim.key)),
        epoch: claim.lease.epoch,
        lease_until_unix_ms: claim.lease.until_unix_ms,
        previous_holder_dead: claim.previous_holder_dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::SessionKey;
    use cairn_rpc::MAX_MESSAGE_BYTES;
    use prost::Message as _;

    #[test]
    fn the_longest_list_of_waiting_sessions_fits_into_a_message() {
        let session = |number: usize| WaitingSession {
            key: SessionKey::new("n".repeat(63), format!("{number:0128}")),
            since_unix_ms: i64::MAX,
            waits_for: vec!["x".repeat(512); 8],
        };
        let few = waiting_messages((0..3).map(session).collect());
        assert_eq!(few.len(), 3);
        let all = waiting_messages((0..1024).map(session).collect());
        assert_eq!(all[..3], few[..]);
        assert_eq!(all.len(), WAITING_BYTES / (8 * 512));
        let answer = pb::ListWaitingResponse { sessions: all };
        assert!(answer.encoded_len() < MAX_MESSAGE_BYTES);
    }
}
