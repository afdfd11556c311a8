//! Streams of events.

use crate::key::SessionKey;
use crate::readers::{Part, Share};
use crate::requests::Requests;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, TextDelta};
use cairn_proto::memory::{FollowEventsResponse, StoredEvent};
use cairn_proto::orchestrator::{ExportSessionResponse, WatchSessionResponse};
use cairn_rpc::RpcError;
use cairn_rpc::metrics::{self, gauge};
use futures::stream::{self, BoxStream, StreamExt as _};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;
use tonic::{Status, Streaming};

/// How often it is looked whether a session that is watched was quarantined, or left to a newer version.
const LOOKS: Duration = Duration::from_secs(10);

/// What becomes of a watch of a session that is quarantined.
const SENT: &str = "what happens next is told";

type Stalled = Receiver<(SessionKey, RpcError)>;

pub(super) type Watched = BoxStream<'static, Result<WatchSessionResponse, Status>>;
pub(super) type Exported = BoxStream<'static, Result<ExportSessionResponse, Status>>;

/// Follows a journal from a cursor. Ends with the owner's error if the session cannot go on. What it has read
/// and not sent counts in the share.
pub(super) async fn watch(
    requests: Arc<Requests>,
    key: SessionKey,
    after_seq: u64,
    with_deltas: bool,
    share: Share,
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
                error = held_up(&requests, &key, is_caught_up) => Err(error.into()),
            }
        }
    };
    let followed = Followed {
        page: Page::new(requests, key, share),
        pages,
        replies: Replies::new(),
    };
    let messages = stream::unfold(followed, |mut followed| async move {
        let message = followed.next().await?;
        Some((message, followed))
    });
    let mut caught_up = Some(caught_up);
    let messages = messages.inspect(move |message| {
        let is_end = |message: &WatchSessionResponse| {
            message.seq == 0 && message.event.is_none() && message.delta.is_none()
        };
        if message.as_ref().is_ok_and(is_end)
            && let Some(caught_up) = caught_up.take()
        {
            // Whoever watches no more is not told anything.
            let _ = caught_up.send(());
        }
    });
    Ok(until_error(messages, stall).boxed())
}

/// Fails if a cursor is beyond the end of the journal, unless events have come in the meantime.
pub(super) async fn check_cursor(
    requests: &Requests,
    key: &SessionKey,
    after_seq: u64,
) -> Result<(), RpcError> {
    drop(requests.store().follow(key, after_seq, false).await?);
    Ok(())
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

/// The error for a watcher of a session that is quarantined, or left to a newer version, or becomes so. The
/// store is asked once all events were sent, and then regularly while no owner here works on the session.
async fn held_up(
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
            && let Ok(Some(error)) = requests.store().held_up(key, SENT).await
        {
            return error;
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

/// Events that were read and not sent. Each is read whole when it is its turn, because those that are stored
/// apart may be large.
struct Page {
    requests: Arc<Requests>,
    key: SessionKey,
    share: Share,
    rest: IntoIter<StoredEvent>,
}

impl Page {
    fn new(requests: Arc<Requests>, key: SessionKey, share: Share) -> Self {
        Self {
            requests,
            key,
            share,
            rest: Vec::new().into_iter(),
        }
    }

    fn fill(&mut self, events: Vec<StoredEvent>) {
        // All of them, because they may be slices of one message.
        let bytes = events.iter().map(|stored| stored.event.len()).sum();
        self.share.set(Part::Page, bytes);
        self.rest = events.into_iter();
    }

    /// The next event, and its number; none at the end of the page. One that is stored apart waits for room.
    async fn next(&mut self) -> Option<Result<(u64, Event), Status>> {
        // The event before was sent, or its watcher wants none of it.
        self.share.set(Part::Message, 0);
        let Some(stored) = self.rest.next() else {
            self.fill(Vec::new());
            return None;
        };
        let seq = stored.seq;
        let store = self.requests.store();
        let event = store.public_event(&self.key, stored, &self.share).await;
        Some(event.map(|event| (seq, event)).map_err(Status::from))
    }
}

/// A journal that is followed.
struct Followed {
    page: Page,
    pages: Streaming<FollowEventsResponse>,
    replies: Replies,
}

impl Followed {
    /// The next event or part of a reply; an empty message after all events so far.
    async fn next(&mut self) -> Option<Result<WatchSessionResponse, Status>> {
        loop {
            match self.page.next().await {
                Some(Ok((seq, event))) => {
                    self.replies.note(&event);
                    return Some(Ok(WatchSessionResponse {
                        seq,
                        event: Some(event),
                        delta: None,
                    }));
                }
                Some(Err(status)) => return Some(Err(status)),
                None => {}
            }
            let page = match self.pages.next().await? {
                Ok(page) => page,
                Err(status) => return Some(Err(status)),
            };
            if !page.delta.is_empty() {
                match TextDelta::decode(page.delta) {
                    Ok(delta) if self.replies.awaits(&delta) => {
                        return Some(Ok(delta_message(delta)));
                    }
                    Ok(_) => continue,
                    Err(error) => return Some(Err(RpcError::internal(error).into())),
                }
            }
            if page.events.is_empty() {
                return Some(Ok(WatchSessionResponse::default()));
            }
            self.page.fill(page.events);
        }
    }
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
pub(super) async fn export(
    requests: Arc<Requests>,
    key: SessionKey,
    share: Share,
) -> Result<Exported, RpcError> {
    let last_seq = requests.store().last_seq(&key).await?;
    let page = Page::new(requests, key, share);
    let messages = stream::try_unfold((page, 0), move |(mut page, after)| async move {
        if after >= last_seq {
            return Ok::<_, Status>(None);
        }
        let next = match page.next().await {
            Some(next) => Some(next),
            None => {
                let read = page.requests.store().read(&page.key, after).await?;
                page.fill(read.events);
                page.next().await
            }
        };
        let Some((seq, event)) = next.transpose()? else {
            return Ok(None);
        };
        let event = Some(event);
        Ok(Some((ExportSessionResponse { seq, event }, (page, seq))))
    });
    Ok(messages.boxed())
}

impl Drop for Replies {
    fn drop(&mut self) {
        gauge!(metrics::WATCHERS).decrement(1.0);
    }
}
