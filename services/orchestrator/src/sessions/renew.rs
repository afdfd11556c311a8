//! Renewing the leases of the sessions that this process owns.

use super::Sessions;
use crate::key::SessionKey;
use crate::owner::Notice;
use crate::store::within;
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Request;

/// Most leases renewed with one request.
const RENEW_BATCH: usize = 1024;

/// Renews the leases of all owners, three times in each lease, until stopped.
pub(crate) async fn renew(sessions: Arc<Sessions>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(sessions.deps.config.lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        for owned in sessions.all().chunks(RENEW_BATCH) {
            if let Err(error) = renew_batch(&sessions, owned).await {
                tracing::warn!(%error, "leases could not be renewed");
            }
        }
    }
}

/// What a renewal brought.
pub(super) struct Renewal {
    pub(super) lost: HashSet<SessionKey>,
    /// Their leases run on to the end that they had.
    pub(super) unanswered: HashSet<SessionKey>,
    woken: Vec<SessionKey>,
    /// End of the renewed leases by the store's clock.
    pub(super) lease_until: i64,
}

pub(super) async fn ask_for_renewal(
    sessions: &Sessions,
    owned: &[(SessionKey, u64)],
) -> Result<Renewal, RpcError> {
    let renewed = owned.iter().map(|(key, epoch)| pb::OwnedSession {
        session: Some(key.to_ref()),
        epoch: *epoch,
    });
    let request = pb::RenewLeasesRequest {
        owner: sessions.deps.config.owner.clone(),
        sessions: renewed.collect(),
        lease_ms: sessions.deps.config.lease_ms(),
    };
    // The next renewal is a third of a lease away.
    let request = within(sessions.deps.config.lease / 3, Request::new(request));
    let store = &sessions.deps.store;
    let asked = store.clock.now();
    let answer = store.ownership().renew_leases(request).await?;
    let answer = answer.into_inner();
    store.clock.take(asked, answer.store_time_unix_ms);
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

async fn renew_batch(
    sessions: &Arc<Sessions>,
    owned: &[(SessionKey, u64)],
) -> Result<(), RpcError> {
    let renewal = ask_for_renewal(sessions, owned).await?;
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
        sessions.notify_epoch(key, *epoch, notice);
    }
    for key in &renewal.woken {
        sessions.notify(key, Notice::Woken);
    }
    Ok(())
}
