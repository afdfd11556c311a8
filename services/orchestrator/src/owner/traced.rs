//! The hook points of a run that began before its owner did.

use crate::key::SessionKey;
use crate::observe::ActiveRun;
use crate::store::Store;
use cairn_engine::session::Session;
use cairn_rpc::RpcError;

/// Reads the events of the active run, for its span. An event that cannot be read is missing in the span alone.
pub(super) async fn replay(
    store: &Store,
    key: &SessionKey,
    session: &Session,
    active: &mut ActiveRun,
) {
    if let Err(error) = try_replay(store, key, session, active).await {
        tracing::debug!(session = %key, %error, "hook points of a run are not traced");
    }
}

async fn try_replay(
    store: &Store,
    key: &SessionKey,
    session: &Session,
    active: &mut ActiveRun,
) -> Result<(), RpcError> {
    let Some(run) = session.active_run() else {
        return Ok(());
    };
    let mut after = run.first_seq.saturating_sub(1);
    while after < session.seq {
        let page = store.read(key, after).await?;
        let known = page.events.iter().filter(|it| it.seq <= session.seq);
        let mut last = after;
        for stored in known {
            active.replay(session, &store.event(key, stored).await?);
            last = stored.seq;
        }
        if last == after {
            break;
        }
        after = last;
    }
    Ok(())
}
