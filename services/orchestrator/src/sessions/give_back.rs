//! Sessions that are given back before anything came of them.

use super::Sessions;
use crate::key::SessionKey;
use crate::owner::Ownership;
use crate::store::{for_session, within};
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use std::sync::Arc;
use std::time::Duration;

/// What only a newer version can work on is not claimed again before this, if the store does not know that:
/// it gives what is marked to newer processes alone, and need not wait for long.
const NEWER_PAUSE: Duration = Duration::from_secs(30);
const MARKED_PAUSE: Duration = Duration::from_millis(200);
/// A session whose state is too large for this process is claimed again after this: others may have
/// ended by then. To read it in vain costs as much as to resume it.
const CAPACITY_PAUSE: Duration = Duration::from_secs(5);
/// How long the store is waited for; else the lease runs out by itself.
const BACK_TIME: Duration = Duration::from_secs(5);

/// Lets others claim a session that was claimed here too many.
pub(super) fn give_back(sessions: &Arc<Sessions>, ownership: Ownership) {
    let sessions = sessions.clone();
    sessions.clone().tasks.spawn(async move {
        give(&sessions, &ownership.key, ownership.epoch, Duration::ZERO).await;
    });
}

/// A journal that this version cannot read is no fault of the session: the claim is not counted, and
/// it is left to a newer version for a while.
pub(super) async fn leave_to_newer(
    sessions: &Sessions,
    key: &SessionKey,
    epoch: u64,
    error: &RpcError,
) {
    tracing::warn!(
        session = %key,
        version = env!("CARGO_PKG_VERSION"),
        %error,
        "the session is left to a newer version of this program, and looked at again later"
    );
    // An event is named only if the header of its session did not say what it needs.
    let is_marked = error.metadata("needs").is_some() && error.metadata("seq").is_none();
    let pause = if is_marked { MARKED_PAUSE } else { NEWER_PAUSE };
    give(sessions, key, epoch, pause).await;
}

/// The state of the session does not fit beside those of the others that are owned here.
pub(super) async fn leave_for_capacity(sessions: &Sessions, key: &SessionKey, epoch: u64) {
    tracing::info!(session = %key, "session given back: session.state_bytes is reached");
    give(sessions, key, epoch, CAPACITY_PAUSE).await;
}

async fn give(sessions: &Sessions, key: &SessionKey, epoch: u64, delay: Duration) {
    let request = pb::ReleaseSessionRequest {
        session: key.id.to_string(),
        owner: sessions.deps.config.owner.clone(),
        epoch,
        delay_ms: u32::try_from(delay.as_millis()).unwrap_or(u32::MAX),
    };
    let request = within(BACK_TIME, for_session(key, request));
    if let Err(status) = sessions
        .deps
        .store
        .ownership()
        .release_session(request)
        .await
    {
        let error = RpcError::from_status(&status);
        // Its lease runs out by itself.
        tracing::info!(session = %key, %error, "session could not be given back");
    }
}
