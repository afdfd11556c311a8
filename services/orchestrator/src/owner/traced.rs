//! The hook points of a run that began before its owner did.

use crate::key::SessionKey;
use crate::observe::ActiveRun;
use crate::store::Store;
use cairn_engine::event::Event;
use cairn_engine::session::Session;
use cairn_rpc::RpcError;

/// Most events of a run that are read. A takeover waits for them.
const MOST_EVENTS: u64 = 1000;
/// Most bytes of these events.
const MOST_BYTES: usize = 8 << 20;

/// Reads the events of the active run, for its span. If the run has more than are read, or one cannot be read, the span
/// has the points that the state has.
pub(super) async fn replay(
    store: &Store,
    key: &SessionKey,
    session: &Session,
    active: &mut ActiveRun,
) {
    let Some(run) = session.active_run() else {
        return;
    };
    let after = run.first_seq.saturating_sub(1);
    if session.seq.saturating_sub(after) > MOST_EVENTS {
        return;
    }
    match read(store, key, after, session.seq).await {
        Ok(events) => {
            for event in &events {
                active.replay(session, event);
            }
        }
        Err(error) => {
            tracing::debug!(session = %key, %error, "some hook points of a run are not traced");
        }
    }
}

/// The events behind `after` up to `last`. None if they have too many bytes.
async fn read(
    store: &Store,
    key: &SessionKey,
    mut after: u64,
    last: u64,
) -> Result<Vec<Event>, RpcError> {
    let (mut events, mut bytes) = (Vec::new(), 0);
    while after < last {
        let page = store.read(key, after).await?;
        let before = after;
        for stored in page.events.iter().filter(|it| it.seq <= last) {
            let (event, size) = store.sized_event(key, stored).await?;
            bytes += size;
            if bytes > MOST_BYTES {
                return Ok(Vec::new());
            }
            events.push(event);
            after = stored.seq;
        }
        if after == before {
            break;
        }
    }
    Ok(events)
}
