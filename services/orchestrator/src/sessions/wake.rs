//! Waking parked sessions that wait for capabilities, once the pool has these.

use super::Sessions;
use crate::store::within;
use cairn_engine::pool::Need;
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::Request;

/// Most sessions that are looked at in one pass.
const MOST: u32 = 1024;
/// How long the answer of the store is waited for.
const TIME: Duration = Duration::from_secs(10);
/// Between a change and the pass that follows it: changes come together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after a pass that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two passes. A session that was parked while the pool changed is found by then.
const LONGEST: Duration = Duration::from_secs(30);

/// What is outstanding after a pass.
enum Outstanding {
    /// No session for which there are resources.
    Nothing,
    /// Sessions for which there are resources, and no free slots.
    Waiting,
    /// The store did not answer.
    Unknown,
}

/// Wakes sessions until stopped: at first, whenever the pool changes, and, while some are outstanding, as slots become
/// free.
pub(crate) async fn wake(sessions: Arc<Sessions>, stop: CancellationToken) {
    let work = async {
        let dispatch = &sessions.deps.dispatch;
        let (mut changes, mut freed) = (dispatch.resource_changes(), dispatch.freed());
        dispatch.known().await;
        let mut is_logged = false;
        loop {
            // Before the pass: a change in between is seen the next time.
            changes.mark_unchanged();
            freed.mark_unchanged();
            let passed = pass(&sessions).await;
            let was_logged = std::mem::replace(&mut is_logged, passed.is_err());
            let outstanding = passed.unwrap_or_else(|error| {
                if !was_logged {
                    tracing::warn!(%error, "sessions that wait for capabilities cannot be listed");
                }
                Outstanding::Unknown
            });
            let is_waiting = matches!(outstanding, Outstanding::Waiting);
            let longest = match outstanding {
                Outstanding::Unknown => PAUSE,
                Outstanding::Nothing | Outstanding::Waiting => LONGEST,
            };
            tokio::select! {
                _ = changes.changed() => {}
                _ = freed.changed(), if is_waiting => {}
                () = tokio::time::sleep(longest) => {}
            }
            tokio::time::sleep(DEBOUNCE).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Wakes the sessions that wait longest, as many as there are slots for now.
async fn pass(sessions: &Sessions) -> Result<Outstanding, RpcError> {
    let (dispatch, store) = (&sessions.deps.dispatch, &sessions.deps.store);
    let list = pb::ListWaitingRequest { max_sessions: MOST };
    let list = within(TIME, Request::new(list));
    let listed = store.ownership().list_waiting(list).await?.into_inner();
    let mut trial = dispatch.trial();
    let mut outstanding = Outstanding::Nothing;
    for waiting in listed.sessions {
        let needs = waiting.waits_for.iter().map(|need| Need::read(need));
        let needs: Vec<Need> = needs.collect();
        if !needs.iter().any(|need| trial.take(need)) {
            if needs.iter().any(|need| dispatch.has(need)) {
                outstanding = Outstanding::Waiting;
            }
            continue;
        }
        let session = waiting.session;
        let request = within(TIME, Request::new(pb::WakeSessionRequest { session }));
        store.ownership().wake_session(request).await?;
    }
    Ok(outstanding)
}
