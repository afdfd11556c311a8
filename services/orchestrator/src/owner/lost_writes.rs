//! A store that holds less of a session than its owner was acknowledged.

use super::End;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::store::Acknowledged;
use crate::store::may_pass;
use crate::store::{self, for_session, within};
use cairn_proto::memory as pb;
use cairn_rpc::metrics::{self, counter};
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

/// How the store says so.
const WENT_BACK: &str = "WENT_BACK";

/// The longest that a lost session is looked for: somebody may wait for the process to end.
const LOOK: Duration = Duration::from_secs(3);

/// Between two attempts to have a session quarantined, and how many there are.
const PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 30;

/// What the end of an owner that knew so much really is. If the store has lost some of that, the
/// session is quarantined: whoever continues from the older state may repeat what had side effects.
pub(super) async fn after_end(
    deps: &Deps,
    key: &SessionKey,
    acknowledged: Acknowledged,
    end: End,
) -> End {
    let last_acknowledged = &deps.last_acknowledged;
    let error = match end {
        End::Stalled(error) if error.reason_name() == WENT_BACK => {
            last_acknowledged.remember(key, acknowledged);
            error
        }
        // Another owner, or a deletion, in most cases.
        End::Fenced => {
            last_acknowledged.remember(key, acknowledged);
            match lost(deps, key).await {
                Some(error) => error,
                None => return End::Fenced,
            }
        }
        // Nobody has answered before the lease ended. What the store refuses is another matter.
        End::Stalled(error) if may_pass(&error) => {
            last_acknowledged.remember(key, acknowledged);
            return End::Stalled(error);
        }
        end => return end,
    };
    let acknowledged = last_acknowledged.of(key).unwrap_or(acknowledged);
    let found = quarantine(deps, key, acknowledged).await;
    if found != Found::NotQuarantined {
        last_acknowledged.forget(key);
    }
    if found == Found::Accepted {
        // Somebody else continues with what is left.
        return End::Fenced;
    }
    counter!(metrics::LOST_WRITES, "seen_by" => "owner").increment(1);
    End::Stalled(error)
}

/// Whether the store has less than what is acknowledged. What cannot be found out is no reason to say so,
/// and stays acknowledged.
async fn lost(deps: &Deps, key: &SessionKey) -> Option<RpcError> {
    let read = deps.store.read(key, u64::MAX);
    let stored = match tokio::time::timeout(LOOK, read).await.ok()? {
        Ok(page) => Some(store::acknowledged(&page)),
        // A deletion leaves a mark, and has a reason of its own.
        Err(error) if error.reason_name() == "TERMINAL" => {
            deps.last_acknowledged.forget(key);
            return None;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    is_behind(deps, key, stored)
}

/// Whether the store has all that an owner knew who was here before and could not look any more when
/// it ended. Memory may have died together with what it knew.
pub(super) fn check(deps: &Deps, key: &SessionKey, stored: Acknowledged) -> Result<(), End> {
    is_behind(deps, key, Some(stored)).map_or(Ok(()), |error| Err(End::Stalled(error)))
}

/// Holds what is acknowledged against what the store has, if it has anything of the session.
fn is_behind(deps: &Deps, key: &SessionKey, stored: Option<Acknowledged>) -> Option<RpcError> {
    let acknowledged = deps.last_acknowledged.of(key)?;
    // Whatever is acknowledged is more than nothing, and what came after a loss was accepted is more than
    // what had been acknowledged before.
    if stored >= Some(acknowledged) {
        deps.last_acknowledged.forget(key);
        return None;
    }
    Some(error(key, acknowledged, stored))
}

fn error(key: &SessionKey, acknowledged: Acknowledged, stored: Option<Acknowledged>) -> RpcError {
    let made = acknowledged.version;
    let left = match stored {
        Some(stored) => format!("it has {}", stored.version),
        None => "nothing is left of it".to_owned(),
    };
    let message = format!(
        "the store has lost acknowledged writes of session \"{}\": {made} transitions were made, \
         and {left}",
        key.id
    );
    let stored = stored.map_or(0, |stored| stored.version);
    let error = RpcError::new(ErrorKind::DataLoss, message).reason(WENT_BACK);
    error
        .meta("session", &key.id)
        .meta("stored", stored.to_string())
}

/// What comes of setting a session aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nobody can go on with what is left.
    Quarantine,
    /// Somebody has accepted meanwhile that this is missing.
    Accepted,
    /// The store does not answer.
    NotQuarantined,
}

/// Nobody is to go on with a session that has less than is acknowledged.
async fn quarantine(deps: &Deps, key: &SessionKey, acknowledged: Acknowledged) -> Found {
    for _ in 0..ATTEMPTS {
        let request = pb::QuarantineRequest {
            session: key.id.to_string(),
            accepted_losses: Some(acknowledged.accepted_losses),
        };
        let mut ownership = deps.store.ownership();
        let request = within(LOOK, for_session(key, request));
        let error = match ownership.quarantine(request).await {
            Ok(answer) if answer.get_ref().is_accepted => return Found::Accepted,
            Ok(_) => return Found::Quarantine,
            Err(status) => RpcError::from_status(&status),
        };
        match error.kind() {
            // Nothing is left that an owner could continue.
            ErrorKind::NotFound => return Found::Quarantine,
            // A newer version wrote the session, and this one cannot quarantine it. What was last
            // acknowledged stays acknowledged.
            ErrorKind::FailedPrecondition => return Found::NotQuarantined,
            _ => {}
        }
        tracing::warn!(session = %key, %error, "a session is not quarantined yet");
        tokio::time::sleep(PAUSE).await;
    }
    tracing::error!(session = %key, "a session that lost writes could not be quarantined");
    Found::NotQuarantined
}
