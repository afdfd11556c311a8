//! Calls that take a lease, sent until their outcome is known.

use crate::key::SessionKey;
use crate::store::may_pass;
use cairn_rpc::{Link, RpcError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First and longest pause before the store is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Makes a call until its outcome is known. A retry with the same operation id is answered with the lease
/// that an earlier try took, until that lease ends. `call` gets the time that one try may take.
///
/// # Errors
/// The store refuses the request, wrote nothing, or has not answered for the length of a lease.
pub(super) async fn until_known<T, F>(
    key: &SessionKey,
    lease: Duration,
    mut call: impl FnMut(Duration) -> F,
) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    let (began, mut pause, mut is_unknown) = (Instant::now(), FIRST_PAUSE, false);
    loop {
        let left = lease.saturating_sub(began.elapsed());
        let error = match call(left.min(lease / 3)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        is_unknown |= may_be_written(&error);
        if !is_unknown || !may_pass(&error) || left <= pause {
            return Err(error);
        }
        tracing::warn!(session = %key, %error, "call to the store is retried");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The call may have been carried out all the same.
fn may_be_written(error: &RpcError) -> bool {
    let nothing_written = error.reason_name() == "NOT_WRITTEN" || Link::did_not_begin(error);
    may_pass(error) && !nothing_written
}
