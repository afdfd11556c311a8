//! Waking parked sessions that wait for capabilities, once the pool has these.

use super::Sessions;
use crate::key::SessionKey;
use crate::store::within;
use cairn_engine::pool::Need;
use cairn_proto::memory as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Request;

/// Most sessions that are looked at in one pass.
const MOST: u16 = 1024;
/// How long the answer of the store is waited for.
const TIME: Duration = Duration::from_secs(10);
/// Between a change and the pass that follows it: changes come together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after a pass that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two passes while sessions that were woken may still take slots.
const AGAIN: Duration = Duration::from_secs(2);
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
                // They may turn out to need none.
                Outstanding::Waiting if !dispatch.woken().is_empty() => AGAIN,
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
    let asked = Instant::now();
    let list = pb::ListWaitingRequest {
        max_sessions: MOST.into(),
    };
    let list = within(TIME, Request::new(list));
    let listed = store.ownership().list_waiting(list).await?.into_inner();
    let waiting: Vec<_> = listed.sessions.iter().filter_map(read).collect();
    let are_all = listed.sessions.len() < usize::from(MOST);
    let keys = waiting.iter().map(|(key, _)| key.clone()).collect();
    dispatch.note_waiting(&keys, asked, are_all);
    let mut trial = dispatch.trial();
    // Their slots are theirs, although another process may give them out.
    dispatch.woken().iter().for_each(|need| trial.take(need));
    let mut outstanding = Outstanding::Nothing;
    for (key, needs) in waiting {
        let Some(need) = needs.iter().find(|need| trial.fits(need)) else {
            if needs.iter().any(|need| dispatch.has(need)) {
                outstanding = Outstanding::Waiting;
            }
            continue;
        };
        let session = Some(key.to_ref());
        let request = within(TIME, Request::new(pb::WakeSessionRequest { session }));
        // It may have its slot before the answer is here.
        dispatch.note_woken(key.clone(), need.clone());
        match store.ownership().wake_session(request).await {
            Ok(_) => trial.take(need),
            Err(status) => {
                dispatch.forget_woken(&key);
                let error = RpcError::from_status(&status);
                if is_away(&error) {
                    return Err(error);
                }
                tracing::debug!(session = %key, %error, "a session cannot be woken");
                outstanding = Outstanding::Waiting;
            }
        }
    }
    Ok(outstanding)
}

/// A session and what its attempts need. None if it has a name that no session has.
fn read(waiting: &pb::WaitingSession) -> Option<(SessionKey, Vec<Need>)> {
    let key = SessionKey::from_ref(waiting.session.as_ref()?).ok()?;
    let needs = waiting.waits_for.iter().map(|need| Need::read(need));
    Some((key, needs.collect()))
}

/// The store does not answer, so that no session can be woken.
fn is_away(error: &RpcError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::DeadlineExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_that_is_away_ends_a_pass() {
        assert!(is_away(&RpcError::unavailable("no store")));
        assert!(!is_away(&RpcError::precondition("it is quarantined")));
    }
}
