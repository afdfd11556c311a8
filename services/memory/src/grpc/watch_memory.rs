//! Watching session memory: what there is, and then the changes among the session's events.

mod created;

use super::convert::{memory_entries, memory_entry};
use crate::apart::whole;
use crate::error::about;
use crate::port::{
    EventStream, MemoryEntry, SessionKey, Store, StoreError, StoreResult, StoredEvent,
};
use bytes::Bytes;
use cairn_proto::event::{MemoryCleared, MemoryRemoved, MemorySet, Principal};
use cairn_proto::memory as pb;
use created::Created;
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
    let mut created = Created::default();
    let cursor = match after_seq {
        Some(seq) => seq,
        None => {
            let list = store.list_memory(key).await?;
            created = Created::of(&list.entries);
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
        created,
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
    created: Created,
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
            if let Some(news) = self.news(change).await? {
                self.ready.push_back(message(seq, Some(news), by));
            }
        }
        Ok(())
    }

    async fn news(&mut self, change: MemoryChange) -> StoreResult<Option<News>> {
        let at = change.at_unix_ms;
        if let Some(MemorySet {
            key,
            value,
            metadata,
            ..
        }) = change.set
        {
            let created = self.created(&key, at).await?;
            let entry = MemoryEntry {
                key,
                value,
                metadata,
                created_unix_ms: created,
                updated_unix_ms: Some(at.max(created.unwrap_or(at))),
            };
            return Ok(Some(News::Set(memory_entry(self.key.session(), entry))));
        }
        if let Some(MemoryRemoved { key, .. }) = change.removed {
            self.created.remove(&key);
            return Ok(Some(News::Removed(key)));
        }
        Ok(change.cleared.map(|_| {
            self.created.clear();
            News::Cleared(true)
        }))
    }

    /// When a key got its first value that is set at this time.
    async fn created(&mut self, key: &str, at: i64) -> StoreResult<Option<i64>> {
        if let Some(created) = self.created.set(key, at) {
            return Ok(created);
        }
        let entry = self.store.get_memory(&self.key, key).await?;
        Ok(self.created.learn(key, at, entry.as_ref()))
    }
}

/// The part of a `cairn.event.v1.Event` that matters here. Whatever else the event says is skipped
/// without being understood.
#[derive(Clone, PartialEq, Message)]
struct MemoryChange {
    #[prost(int64, tag = "1")]
    at_unix_ms: i64,
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
        let found = |kind| {
            let event = Event {
                at_unix_ms: 1_800_000_000_000,
                kind: Some(kind),
                ..Default::default()
            };
            MemoryChange::of(event.encode_to_vec().into())
        };
        let nothing = || MemoryChange {
            at_unix_ms: 1_800_000_000_000,
            ..MemoryChange::default()
        };
        let set = MemorySet {
            key: "k".to_owned(),
            value: "v".to_owned(),
            writer: None,
            metadata: [("a".to_owned(), "b".to_owned())].into(),
        };
        let change = MemoryChange {
            set: Some(set.clone()),
            ..nothing()
        };
        assert_eq!(found(Kind::MemorySet(set)), change);
        let removed = MemoryRemoved {
            key: "k".to_owned(),
            writer: None,
        };
        let change = MemoryChange {
            removed: Some(removed.clone()),
            ..nothing()
        };
        assert_eq!(found(Kind::MemoryRemoved(removed)), change);
        let change = MemoryChange {
            cleared: Some(MemoryCleared {}),
            ..nothing()
        };
        assert_eq!(found(Kind::MemoryCleared(MemoryCleared {})), change);
        let reply = found(Kind::ReplyReceived(ReplyReceived::default()));
        assert_eq!(reply, nothing());
        let opaque = MemoryChange::of(Bytes::from_static(b"\xff\xff"));
        assert_eq!(opaque, MemoryChange::default());
    }
}
