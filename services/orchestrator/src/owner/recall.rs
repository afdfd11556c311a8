//! The messages of a conversation that its requests do not have any more, ready to be searched.
//!
//! Compactions drop messages from the state, so the journal is folded once more, from its beginning, and what each
//! compaction replaces is kept. That is done when a model first asks for it, and continued at later questions. The
//! journal of a fork or an import has the events of the session before, so their messages are found too. A conversation
//! without any compaction needs no journal.

use super::answers::again;
use crate::key::SessionKey;
use crate::knowledge::INDEXED_AT_ONCE;
use crate::store::{Store, unreadable};
use cairn_engine::conversation::ConversationRef;
use cairn_engine::session::{Originals, Remembered, Session, Unsent};
use cairn_knowledge::{Entry, Hit, Index, Query};
use cairn_rpc::RpcError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Mutex;

/// Most bytes of texts that compactions replaced. With a context of 16 MiB before its window, 64 MiB are searched.
const MOST_REPLACED: usize = 48 << 20;

/// What an owner has found of earlier messages. It lives as long as the owner.
#[derive(Debug)]
pub(super) struct Recall {
    found: Mutex<Found>,
    /// Of all texts, the index, and the state that was folded.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Found {
    /// The fold of the events that were read.
    session: Session,
    originals: Originals,
    indexed: Option<Indexed>,
}

/// The messages of one conversation. Those of another one take their place.
#[derive(Debug)]
struct Indexed {
    conversation: ConversationRef,
    index: Index,
    /// By the ids that they have in the index.
    messages: BTreeMap<String, Remembered>,
    bytes: usize,
}

/// A message that was found.
#[derive(Debug)]
pub(super) struct FoundMessage {
    pub(super) score: f64,
    pub(super) message: Remembered,
}

impl Default for Recall {
    fn default() -> Self {
        Self {
            found: Mutex::new(Found::new()),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl Recall {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The messages that fit a query best, of those that requests lack by the state after event `through`.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) async fn search(
        &self,
        store: &Store,
        key: &SessionKey,
        unsent: &Unsent,
        through: u64,
        query: &Query<'_>,
    ) -> Result<Vec<FoundMessage>, RpcError> {
        let mut found = self.found.lock().await;
        let read = match unsent.stand_ins.is_empty() {
            true => Ok(()),
            false => found.read(store, key, through).await,
        };
        if read.is_ok() {
            found.index(unsent).await;
        }
        self.bytes.store(found.bytes(), Ordering::Relaxed);
        read.map(|()| found.search(query))
    }
}

impl Found {
    fn new() -> Self {
        Self {
            session: Session::default(),
            originals: Originals::new(MOST_REPLACED),
            indexed: None,
        }
    }

    fn bytes(&self) -> usize {
        let indexed = self.indexed.as_ref();
        let indexed = indexed.map_or(0, |it| it.bytes + it.index.bytes());
        self.session.sizes().memory + self.originals.bytes() + indexed
    }

    /// Reads the journal on, up to this event. One that is given up continues where it was.
    async fn read(
        &mut self,
        store: &Store,
        key: &SessionKey,
        through: u64,
    ) -> Result<(), RpcError> {
        while self.session.seq < through {
            let seen = self.session.seq;
            let page = again(|| store.read(key, seen)).await?;
            let next = page.events.iter().take_while(|it| it.seq <= through);
            for stored in next {
                let (event, _) = again(|| store.sized_event(key, stored)).await?;
                self.originals.note(&self.session, &event.kind);
                if let Err(error) = self.session.apply(stored.seq, &event) {
                    *self = Self::new();
                    return Err(unreadable(key, stored.seq, error));
                }
            }
            // Lost writes are for the owner to find.
            if self.session.seq == seen {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the index one of the messages that requests lack now.
    async fn index(&mut self, unsent: &Unsent) {
        let is_same = |it: &Indexed| it.conversation == unsent.conversation;
        if !self.indexed.as_ref().is_some_and(is_same) {
            self.indexed = Some(Indexed::new(unsent.conversation.clone()));
        }
        let messages = self.originals.of(unsent).cloned();
        let messages = messages.chain(unsent.said_before_window());
        let messages = messages.map(|message| (message.number.to_string(), message));
        let messages = messages.collect();
        if let Some(indexed) = &mut self.indexed {
            indexed.take(messages).await;
        }
    }

    fn search(&self, query: &Query<'_>) -> Vec<FoundMessage> {
        let Some(indexed) = &self.indexed else {
            return Vec::new();
        };
        let hits = indexed.index.search(query).into_iter();
        hits.filter_map(|Hit { id, score }| {
            let message = indexed.messages.get(&id)?.clone();
            Some(FoundMessage { score, message })
        })
        .collect()
    }
}

impl Indexed {
    fn new(conversation: ConversationRef) -> Self {
        Self {
            conversation,
            index: Index::new(),
            messages: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// These messages and no others are in the index from now on. If it is given up, the next call finds the messages
    /// that are missing.
    async fn take(&mut self, messages: BTreeMap<String, Remembered>) {
        let gone = self
            .messages
            .keys()
            .filter(|id| !messages.contains_key(*id));
        for id in gone.cloned().collect::<Vec<_>>() {
            self.remove(&id);
        }
        let mut at_once = 0;
        for (id, message) in messages {
            if self.messages.get(&id) == Some(&message) {
                continue;
            }
            self.remove(&id);
            at_once += message.text.len();
            self.put(id, message);
            if at_once > INDEXED_AT_ONCE {
                at_once = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    fn put(&mut self, id: String, message: Remembered) {
        let entry = Entry {
            title: "",
            text: &message.text,
            tags: &[],
        };
        self.index.put(&id, u64::from(message.number), entry);
        self.bytes += message.text.len();
        self.messages.insert(id, message);
    }

    fn remove(&mut self, id: &str) {
        if let Some(gone) = self.messages.remove(id) {
            self.index.remove(id);
            self.bytes -= gone.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::Role;
    use cairn_knowledge::Scorer;

    fn messages(texts: &[(u32, &str)]) -> BTreeMap<String, Remembered> {
        let messages = texts.iter().map(|&(number, text)| Remembered {
            number,
            role: Role::User,
            text: text.into(),
        });
        messages
            .map(|message| (message.number.to_string(), message))
            .collect()
    }

    fn found(indexed: &Indexed, text: &str) -> Vec<String> {
        let query = Query {
            text,
            tags: &[],
            max: 10,
            min_score: 0.0,
            scorer: Scorer::Bm25,
        };
        let hits = indexed.index.search(&query).into_iter();
        let mut ids: Vec<String> = hits.map(|hit| hit.id).collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test]
    async fn an_index_follows_the_messages_that_there_are() {
        let mut indexed = Indexed::new(ConversationRef::Context("main".to_owned()));
        indexed
            .take(messages(&[(1, "the harbour"), (2, "the lighthouse")]))
            .await;
        assert_eq!(found(&indexed, "harbour"), ["1"]);
        // One was updated, one went, and one came.
        indexed
            .take(messages(&[(1, "the lighthouse"), (3, "harbour")]))
            .await;
        assert_eq!(found(&indexed, "harbour"), ["3"]);
        assert_eq!(found(&indexed, "lighthouse"), ["1"]);
        assert_eq!((indexed.index.len(), indexed.bytes), (2, 14 + 7));
        indexed.take(BTreeMap::new()).await;
        assert_eq!((indexed.index.len(), indexed.bytes), (0, 0));
    }
}
