//! A store that holds less of a session than its owner was acknowledged.

use super::End;
use super::tenure::may_pass;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::owners::Known;
use crate::store::{self, for_session, within};
use cairn_proto::memory as pb;
use cairn_rpc::metrics::{self, counter};
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

/// How the store says so.
const WENT_BACK: &str = "WENT_BACK";

/// The longest that a lost session is looked for: somebody may wait for the process to end.
const LOOK: Duration = Duration::from_secs(3);

/// Between two attempts to have a session set aside, and how many there are.
const PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 30;

/// What the end of an owner that knew so much really is. If the store has lost some of that, the
/// session is set aside: whoever goes on from the older state may repeat what had side effects.
pub(super) async fn examine(deps: &Deps, key: &SessionKey, known: Known, end: End) -> End {
    let unsure = &deps.owners.unsure;
    let error = match end {
        End::Stalled(error) if error.reason_name() == WENT_BACK => {
            unsure.remember(key, known);
            error
        }
        // Another owner, or a deletion, in most cases.
        End::Fenced => {
            unsure.remember(key, known);
            match lost(deps, key).await {
                Some(error) => error,
                None => return End::Fenced,
            }
        }
        // Nobody has answered before the lease ended. What the store refuses is another matter.
        End::Stalled(error) if may_pass(&error) => {
            unsure.remember(key, known);
            return End::Stalled(error);
        }
        end => return end,
    };
    let known = unsure.known(key).unwrap_or(known);
    let found = set_aside(deps, key, known).await;
    if found != Found::Nothing {
        unsure.forget(key);
    }
    if found == Found::Accepted {
        // Somebody else goes on with what is left.
        return End::Fenced;
    }
    counter!(metrics::LOST_WRITES, "seen_by" => "owner").increment(1);
    End::Stalled(error)
}

/// Whether the store has less than what is known. What cannot be found out is no reason to say so,
/// and stays known.
async fn lost(deps: &Deps, key: &SessionKey) -> Option<RpcError> {
    let read = deps.store.read(key, u64::MAX);
    let stored = match tokio::time::timeout(LOOK, read).await.ok()? {
        Ok(page) => Some(store::known(&page)),
        // A deletion leaves a mark, and has a reason of its own.
        Err(error) if error.reason_name() == "TERMINAL" => {
            deps.owners.unsure.forget(key);
            return None;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    behind(deps, key, stored)
}

/// Whether the store has all that an owner knew who was here before and could not look any more when
/// it ended. Memory may have died together with what it knew.
pub(super) fn check(deps: &Deps, key: &SessionKey, stored: Known) -> Result<(), End> {
    behind(deps, key, Some(stored)).map_or(Ok(()), |error| Err(End::Stalled(error)))
}

/// Holds what is known against what the store has, if it has anything of the session.
fn behind(deps: &Deps, key: &SessionKey, stored: Option<Known>) -> Option<RpcError> {
    let known = deps.owners.unsure.known(key)?;
    // Whatever is known is more than nothing, and what came after a loss was accepted is more than
    // what had been known before.
    if stored >= Some(known) {
        deps.owners.unsure.forget(key);
        return None;
    }
    Some(error(key, known, stored))
}

fn error(key: &SessionKey, known: Known, stored: Option<Known>) -> RpcError {
    let made = known.version;
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
    Aside,
    /// Somebody has accepted meanwhile that this is missing.
    Accepted,
    /// The store does not answer.
    Nothing,
}

/// Nobody is to go on with a session that has less than is known.
async fn set_aside(deps: &Deps, key: &SessionKey, known: Known) -> Found {
    for _ in 0..ATTEMPTS {
        let request = pb::SetAsideRequest {
            session: key.id.to_string(),
            accepted_losses: Some(known.accepted_losses),
        };
        let mut ownership = deps.store.ownership();
        let request = within(LOOK, for_session(key, request));
        let error = match ownership.set_aside(request).await {
            Ok(answer) if answer.get_ref().is_accepted => return Found::Accepted,
            Ok(_) => return Found::Aside,
            Err(status) => RpcError::from_status(&status),
        };
        match error.kind() {
            // Nothing is left that an owner could continue.
            ErrorKind::NotFound => return Found::Aside,
            // A newer version wrote the session, and this one cannot quarantine it. What was last
            // acknowledged stays known.
            ErrorKind::FailedPrecondition => return Found::Nothing,
            _ => {}
        }
        tracing::warn!(session = %key, %error, "a session is not set aside yet");
        tokio::time::sleep(PAUSE).await;
    }
    tracing::error!(session = %key, "a session that lost writes could not be set aside");
    Found::Nothing
}
