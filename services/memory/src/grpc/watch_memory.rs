//! Watching session memory: what there is, and then the changes among the session's events.

use super::convert::{memory_entries, memory_entry};
use crate::apart::whole;
use crate::error::about;
use crate::port::{EventStream, SessionKey, Store, StoreError, StoreResult, StoredEvent};
use bytes::Bytes;
use cairn_proto::event::{MemoryCleared, MemoryRemoved, MemorySet, Principal};
use cairn_proto::memory as pb;
use futures::stream::{self, BoxStream, StreamExt as _};
use pb::watch_memory_response::News;
use prost::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use tonic::Status;

/// The changes of a session's memory after a number; without one, all of it first.
///
/// # Errors
/// Those of the first reads.
pub(super) async fn watch(
    store: &Arc<dyn Store>,
    key: &SessionKey,
    after_seq: Option<u64>,
) -> StoreResult<BoxStream<'static, Result<pb::WatchMemoryResponse, Status>>> {
    let mut ready = VecDeque::new();
    let cursor = match after_seq {
        Some(seq) => seq,
        None => {
            let list = store.list_memory(key).await?;
            let entries = memory_entries(key.session(), list.entries);
            let contents = News::Contents(pb::MemoryContents { entries });
            ready.push_back(message(list.last_seq, Some(contents), None));
            list.last_seq
        }
    };
    let watch = Watch {
        store: store.clone(),
        key: key.clone(),
        events: store.follow(key, cursor).await?,
        cursor,
        ready,
    };
    let next = |watch: Option<Watch>| async {
        let mut watch = watch?;
        let news = match watch.next().await {
            Ok(news) => return news.map(|news| (Ok(news), Some(watch))),
            Err(error) => about(&watch.key)(error),
        };
        Some((Err(news.into()), None))
    };
    Ok(stream::unfold(Some(watch), next).boxed())
}

struct Watch {
    store: Arc<dyn Store>,
    key: SessionKey,
    events: EventStream,
    /// The last event that was looked at.
    cursor: u64,
    /// To be sent before anything else is looked at.
    ready: VecDeque<pb::WatchMemoryResponse>,
}

impl Watch {
    /// `None` once the session is gone.
    async fn next(&mut self) -> StoreResult<Option<pb::WatchMemoryResponse>> {
        while self.ready.is_empty() {
            let Some(batch) = self.events.next().await else {
                return Ok(None);
            };
            match self.take(batch?).await {
                Err(StoreError::Terminal(_)) => return Ok(None),
                taken => taken?,
            }
        }
        Ok(self.ready.pop_front())
    }

    async fn take(&mut self, batch: Vec<StoredEvent>) -> StoreResult<()> {
        if batch.is_empty() {
            self.ready.push_back(message(self.cursor, None, None));
        }
        for StoredEvent { seq, event } in batch {
            self.cursor = seq;
            let event = whole(&self.store, &self.key, event).await?;
            let mut change = MemoryChange::of(event);
            let by = change.principal.take();
            if let Some(news) = change.news(self.key.session()) {
                self.ready.push_back(message(seq, Some(news), by));
            }
        }
        Ok(())
    }
}

/// The part of a `cairn.event.v1.Event` that matters here. Whatever else the event says is skipped
/// without being understood.
#[derive(Clone, PartialEq, Message)]
struct MemoryChange {
    #[prost(message, optional, tag = "5")]
    set: Option<MemorySet>,
    #[prost(message, optional, tag = "6")]
    removed: Option<MemoryRemoved>,
    #[prost(message, optional, tag = "7")]
    cleared: Option<MemoryCleared>,
    #[prost(message, optional, tag = "45")]
    principal: Option<Principal>,
}

impl MemoryChange {
    /// Events are opaque to the store: what is no message, is no change of memory.
    fn of(event: Bytes) -> Self {
        Self::decode(event).unwrap_or_default()
    }

    fn news(self, session: &str) -> Option<News> {
        let set = self
            .set
            .map(|MemorySet { key, value, .. }| News::Set(memory_entry(session, key, value)));
        let removed = || self.removed.map(|removed| News::Removed(removed.key));
        let cleared = || self.cleared.map(|_| News::Cleared(true));
        set.or_else(removed).or_else(cleared)
    }
}

fn message(seq: u64, news: Option<News>, by: Option<Principal>) -> pb::WatchMemoryResponse {
    pb::WatchMemoryResponse {
        seq,
        principal: by,
        news,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{Event, ReplyReceived, event::Kind};

    /// The tags are those of the contract.
    #[test]
    fn changes_are_found_among_events() {
        let news = |kind| {
            let event = Event {
                at_unix_ms: 1_800_000_000_000,
                kind: Some(kind),
                ..Default::default()
            };
            MemoryChange::of(event.encode_to_vec().into())
        };
        let (key, value) = ("k".to_owned(), "v".to_owned());
        let set = MemorySet {
            key: key.clone(),
            value: value.clone(),
            writer: None,
        };
        let entry = pb::MemoryEntry {
            id: "_session_s:k".to_owned(),
            namespace: "_session_s".to_owned(),
            key: key.clone(),
            value,
        };
        assert_eq!(news(Kind::MemorySet(set)).news("s"), Some(News::Set(entry)));
        let removed = MemoryRemoved {
            key: key.clone(),
            writer: None,
        };
        assert_eq!(
            news(Kind::MemoryRemoved(removed)).news("s"),
            Some(News::Removed(key))
        );
        assert_eq!(
            news(Kind::MemoryCleared(MemoryCleared {})).news("s"),
            Some(News::Cleared(true))
        );
        let reply = news(Kind::ReplyReceived(ReplyReceived::default()));
        assert_eq!(reply, MemoryChange::default());
        let opaque = MemoryChange::of(Bytes::from_static(b"\xff\xff"));
        assert_eq!(opaque.news("s"), None);
    }
}
