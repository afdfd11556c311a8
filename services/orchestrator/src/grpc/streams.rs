//! Streams of events.

use crate::deps::Deps;
use crate::key::SessionKey;
use cairn_proto::orchestrator::{ExportSessionResponse, WatchSessionResponse};
use cairn_rpc::RpcError;
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use tonic::Status;

pub(super) type Watched = BoxStream<'static, Result<WatchSessionResponse, Status>>;
pub(super) type Exported = BoxStream<'static, Result<ExportSessionResponse, Status>>;

/// Follows a journal from a cursor. Ends with the owner's error if the session cannot go on.
pub(super) async fn watch(
    deps: Arc<Deps>,
    key: SessionKey,
    after_seq: u64,
) -> Result<Watched, RpcError> {
    let mut stalled = deps.stalled.subscribe();
    let events = deps.store.follow(&key, after_seq).await?;
    let stalled_key = key.clone();
    let stall = async move {
        loop {
            match stalled.recv().await {
                Ok((key, error)) if key == stalled_key => return Err(error.into()),
                Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => {
                    return std::future::pending().await;
                }
            }
        }
    };
    let pages = events.then(move |page| {
        let (deps, key) = (deps.clone(), key.clone());
        async move { watched_page(&deps, &key, page?.events).await }
    });
    let messages = pages.flat_map(|page| match page {
        Ok(messages) => stream::iter(messages.into_iter().map(Ok)).left_stream(),
        Err(status) => stream::iter([Err(status)]).right_stream(),
    });
    Ok(until_error(messages, stall).boxed())
}

/// Messages until `error` comes; after an error nothing follows.
fn until_error<T: Send + 'static>(
    messages: impl stream::Stream<Item = Result<T, Status>> + Send + 'static,
    error: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> impl stream::Stream<Item = Result<T, Status>> + Send {
    let messages = messages.map(Some).chain(stream::iter([None]));
    let error = stream::once(error).map(Some);
    let merged =
        stream::select_with_strategy(messages, error, |(): &mut ()| stream::PollNext::Left);
    let mut is_over = false;
    merged
        .take_while(move |item| {
            let goes_on = !is_over && item.is_some();
            is_over |= matches!(item, Some(Err(_)));
            futures::future::ready(goes_on)
        })
        .filter_map(futures::future::ready)
}

async fn watched_page(
    deps: &Deps,
    key: &SessionKey,
    events: Vec<cairn_proto::memory::StoredEvent>,
) -> Result<Vec<WatchSessionResponse>, Status> {
    if events.is_empty() {
        return Ok(vec![WatchSessionResponse::default()]);
    }
    let mut messages = Vec::with_capacity(events.len());
    for stored in events {
        messages.push(WatchSessionResponse {
            seq: stored.seq,
            event: Some(deps.store.public_event(key, stored.event).await?),
        });
    }
    Ok(messages)
}

/// The journal as it is now, page by page.
pub(super) async fn export(deps: Arc<Deps>, key: SessionKey) -> Result<Exported, RpcError> {
    let last_seq = deps.store.read(&key, u64::MAX - 1).await?.last_seq;
    let pages = stream::try_unfold(0, move |after| {
        let (deps, key) = (deps.clone(), key.clone());
        async move {
            if after >= last_seq {
                return Ok::<_, Status>(None);
            }
            let page = deps.store.read(&key, after).await?;
            let Some(last) = page.events.last().map(|stored| stored.seq) else {
                return Ok(None);
            };
            let mut messages = Vec::with_capacity(page.events.len());
            for stored in page
                .events
                .into_iter()
                .filter(|stored| stored.seq <= last_seq)
            {
                messages.push(Ok(ExportSessionResponse {
                    seq: stored.seq,
                    event: Some(deps.store.public_event(&key, stored.event).await?),
                }));
            }
            Ok(Some((stream::iter(messages), last)))
        }
    });
    let messages = pages.flat_map(|page| match page {
        Ok(messages) => messages.left_stream(),
        Err(status) => stream::iter([Err(status)]).right_stream(),
    });
    Ok(messages.boxed())
}
