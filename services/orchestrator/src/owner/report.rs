//! The report of a run for its model.

use super::answers::again;
use crate::key::SessionKey;
use crate::store::Store;
use cairn_engine::event::{Event, EventKind};
use cairn_rpc::RpcError;
use cairn_views::report;

/// Most bytes of the events that a report is made of, as they are stored. Several reports may be made at a time.
const MOST_BYTES: usize = 32 << 20;

/// The report of a run in Markdown, by the events that are durable now. Calls without a result are shown so.
///
/// # Errors
/// Why there is none, in words for the model.
pub(super) async fn markdown(store: &Store, key: &SessionKey, run: u32) -> Result<String, String> {
    let events = read(store, key, run).await.map_err(|error| {
        tracing::error!(session = %key, %error, "events of a report not read");
        "the events of the run cannot be read".to_owned()
    })?;
    let Some(events) = events else {
        let most = MOST_BYTES >> 20;
        return Err(format!(
            "the run has more than {most} MiB of events, too many for a report; a person gets the report with \
             `cairn report`"
        ));
    };
    let events = events.iter().map(|(seq, event)| (*seq, event));
    report::of_some(events, run).ok_or_else(|| format!("run {run} is not among the events"))
}

/// The events that a report of the run shows, read page by page; none if they have too many bytes.
async fn read(
    store: &Store,
    key: &SessionKey,
    run: u32,
) -> Result<Option<Vec<(u64, Event)>>, RpcError> {
    let (mut events, mut bytes, mut after) = (Vec::new(), 0, 0);
    let mut has_begun = false;
    loop {
        let page = again(|| store.read(key, after)).await?;
        for stored in &page.events {
            after = stored.seq;
            let (event, size) = again(|| store.sized_event(key, stored)).await?;
            if !has_begun && report::is_before(&event.kind, run) {
                continue;
            }
            has_begun |= matches!(event.kind, EventKind::RunStarted(_));
            bytes += size;
            if bytes > MOST_BYTES {
                return Ok(None);
            }
            events.push((after, event));
        }
        if page.events.is_empty() || after >= page.last_seq {
            return Ok(Some(events));
        }
    }
}
