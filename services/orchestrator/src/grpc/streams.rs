//! Streams of events.

use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, TextDelta};
use cairn_proto::memory::FollowEventsResponse;
use cairn_proto::orchestrator::{ExportSessionResponse, WatchSessionResponse};
use cairn_rpc::RpcError;
use cairn_rpc::metrics::{self, gauge};
use futures::stream::{self, BoxStream, StreamExt as _};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;
use tonic::Status;

/// How often it is looked whether a session that is watched was quarantined.
const LOOKS: Duration = Duration::from_secs(10);

type Stalled = Receiver<(SessionKey, RpcError)>;

pub(super) type Watched = BoxStream<'static, Result<WatchSessionResponse, Status>>;
pub(super) type Exported = BoxStream<'static, Result<ExportSessionResponse, Status>>;

/// Follows a journal from a cursor. Ends with the owner's error if the session cannot go on.
pub(super) async fn watch(
    requests: Arc<Requests>,
    key: SessionKey,
    after_seq: u64,
    with_deltas: bool,
) -> Result<Watched, RpcError> {
    let stalled = requests.sessions.stalled.subscribe();
    let pages = requests
        .store()
        .follow(&key, after_seq, with_deltas)
        .await?;
    let (caught_up, is_caught_up) = oneshot::channel();
    let stall = {
        let (requests, key) = (requests.clone(), key.clone());
        async move {
            tokio::select! {
                error = stall(stalled, &key) => Err(error.into()),
                error = quarantine(&requests, &key, is_caught_up) => Err(error.into()),
            }
        }
    };
    let mut caught_up = Some(caught_up);
    let pages = stream::unfold((pages, Replies::new()), move |(mut pages, mut replies)| {
        let (requests, key) = (requests.clone(), key.clone());
        async move {
            let watched = match pages.next().await? {
                Ok(page) => watched_page(&requests, &key, page, &mut replies).await,
                Err(status) => Err(status),
            };
            Some((watched, (pages, replies)))
        }
    });
    let messages = pages.flat_map(move |page| match page {
        Ok(messages) => {
            let is_end = |message: &WatchSessionResponse| *message == Default::default();
            if messages.iter().any(is_end)
                && let Some(caught_up) = caught_up.take()
            {
                // Whoever watches no more is not told anything.
                let _ = caught_up.send(());
            }
            stream::iter(messages.into_iter().map(Ok)).left_stream()
        }
        Err(status) => stream::iter([Err(status)]).right_stream(),
    });
    Ok(until_error(messages, stall).boxed())
}

/// The error of an owner that cannot go on with the session.
async fn stall(mut stalled: Stalled, session: &SessionKey) -> RpcError {
    loop {
        match stalled.recv().await {
            Ok((key, error)) if key == *session => return error,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The error for whoever waits for a session that is quarantined, or comes to be: looked for once all
/// events were sent, and then again and again while nobody here works on it.
async fn quarantine(
    requests: &Requests,
    key: &SessionKey,
    is_caught_up: oneshot::Receiver<()>,
) -> RpcError {
    if is_caught_up.await.is_err() {
        return std::future::pending().await;
    }
    let mut looks = tokio::time::interval(LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        // A look that fails says nothing.
        if !requests.sessions.has(key)
            && let Ok(Some(quarantine)) = requests.store().quarantine(key).await
        {
            return quarantine.error(key, "what happens next is told");
        }
    }
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
            let continues = !is_over && item.is_some();
            is_over |= matches!(item, Some(Err(_)));
            futures::future::ready(continues)
        })
        .filter_map(futures::future::ready)
}

async fn watched_page(
    requests: &Requests,
    key: &SessionKey,
    page: FollowEventsResponse,
    replies: &mut Replies,
) -> Result<Vec<WatchSessionResponse>, Status> {
    if !page.delta.is_empty() {
        let delta = TextDelta::decode(page.delta).map_err(RpcError::internal)?;
        let delta = Some(delta).filter(|delta| replies.awaits(delta));
        return Ok(delta.map(delta_message).into_iter().collect());
    }
    if page.events.is_empty() {
        return Ok(vec![WatchSessionResponse::default()]);
    }
    let mut messages = Vec::with_capacity(page.events.len());
    for stored in page.events {
        let seq = stored.seq;
        let event = requests.store().public_event(key, stored).await?;
        replies.note(&event);
        messages.push(WatchSessionResponse {
            seq,
            event: Some(event),
            delta: None,
        });
    }
    Ok(messages)
}

fn delta_message(delta: TextDelta) -> WatchSessionResponse {
    WatchSessionResponse {
        seq: 0,
        event: None,
        delta: Some(delta),
    }
}

/// The latest reply of each attempt that a watcher was sent. Parts of replies come another way
/// than events and may be late: those of a reply that is known whole are not sent any more.
///
/// As long as it is there, somebody watches, and is counted.
#[derive(Debug)]
struct Replies(HashMap<(u32, u32), (u32, u32)>);

impl Replies {
    fn new() -> Self {
        gauge!(metrics::WATCHERS).increment(1.0);
        Self(HashMap::new())
    }

    fn note(&mut self, event: &Event) {
        match &event.kind {
            Some(Kind::ReplyReceived(reply)) => {
                let at = reply.attempt.unwrap_or_default();
                let turn = (at.attempt, reply.tool_turn);
                self.0.insert((at.run, at.step), turn);
            }
            Some(Kind::RunStarted(_)) => self.0.clear(),
            _ => {}
        }
    }

    fn awaits(&self, delta: &TextDelta) -> bool {
        // A call runs after the reply that asks for it.
        if delta.progress.is_some() {
            return true;
        }
        let at = delta.attempt.unwrap_or_default();
        let known = self.0.get(&(at.run, at.step));
        known.is_none_or(|known| *known < (at.attempt, delta.tool_turn))
    }
}

/// The journal as it is now, page by page.
pub(super) async fn export(requests: Arc<Requests>, key: SessionKey) -> Result<Exported, RpcError> {
    let last_seq = requests.store().last_seq(&key).await?;
    let pages = stream::try_unfold(0, move |after| {
        let (requests, key) = (requests.clone(), key.clone());
        async move {
            if after >= last_seq {
                return Ok::<_, Status>(None);
            }
            let page = requests.store().read(&key, after).await?;
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
                    event: Some(requests.store().public_event(&key, stored).await?),
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

impl Drop for Replies {
    fn drop(&mut self) {
        gauge!(metrics::WATCHERS).decrement(1.0);
    }
}
