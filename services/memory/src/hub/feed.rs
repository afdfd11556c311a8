//! The recent events of a followed session, so that many followers need not all read the store.

mod ring;

use super::{Hub, Top, locked};
use crate::fingerprint::Fingerprint;
use crate::port::{SessionKey, StoredEvent};
use bytes::Bytes;
use ring::Ring;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The feeds of the sessions that are followed now.
#[derive(Debug, Default)]
pub(super) struct Feeds(HashMap<SessionKey, Entry>);

#[derive(Debug)]
struct Entry {
    feed: Arc<Feed>,
    followers: usize,
}

impl Feeds {
    pub(super) fn get(&self, key: &SessionKey) -> Option<Arc<Feed>> {
        Some(self.0.get(key)?.feed.clone())
    }

    pub(super) fn all(&self) -> Vec<(SessionKey, Arc<Feed>)> {
        let all = self.0.iter();
        all.map(|(key, entry)| (key.clone(), entry.feed.clone()))
            .collect()
    }
}

/// One session's recent events.
#[derive(Debug)]
pub(super) struct Feed {
    ring: Mutex<Ring>,
    changed: watch::Sender<()>,
}

/// What a feed knows of the events after a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The events, all that there are.
    Events(Vec<StoredEvent>),
    /// There are none.
    Nothing,
    /// It does not reach back that far: the store knows.
    Unknown,
    /// The store has lost events that were seen: at most so many are what they were.
    Lost(u64),
    /// The session was deleted.
    Ended,
    /// The store is closing.
    Closed,
}

impl Feed {
    fn new() -> Self {
        Self {
            ring: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn push(&self, first_seq: u64, events: &[Bytes]) {
        locked(&self.ring).push(first_seq, events);
        self.changed.send_replace(());
    }

    pub(super) fn grown(&self, last_seq: u64) {
        let is_news = locked(&self.ring).grown(last_seq);
        if is_news {
            self.changed.send_replace(());
        }
    }

    /// The store was asked: the journal ends there.
    pub(super) fn looked(&self, last_seq: u64) {
        let is_news = locked(&self.ring).looked(last_seq);
        if is_news {
            self.changed.send_replace(());
        }
    }

    /// See [`Hub::lost`].
    pub(super) fn lost(&self, stored: u64, intact: u64) {
        locked(&self.ring).lost(stored, intact);
        self.changed.send_replace(());
    }

    /// So many losses had been accepted when what comes next was read or written.
    pub(super) fn accepted(&self, losses: u64) {
        locked(&self.ring).accepted(losses);
    }

    /// Followers were given events by the store, up to this one.
    pub(super) fn saw(&self, event: Fingerprint) {
        let ring = &mut *locked(&self.ring);
        ring.seen = Fingerprint::later(ring.seen, Some(event));
    }

    pub(super) fn top(&self) -> Top {
        ring::top(&self.ring)
    }

    pub(super) fn end(&self) {
        locked(&self.ring).ended = true;
        self.changed.send_replace(());
    }

    pub(super) fn close(&self) {
        locked(&self.ring).closed = true;
        self.changed.send_replace(());
    }

    pub(super) fn since(&self, cursor: u64) -> Since {
        let ring = locked(&self.ring);
        let ends = ring.events.front().zip(ring.events.back());
        match ends {
            _ if ring.ended => Since::Ended,
            _ if ring.closed => Since::Closed,
            _ if ring.top() < cursor => Since::Unknown,
            None if ring.known > 0 && ring.known == cursor => Since::Nothing,
            None => Since::Unknown,
            Some((_, last)) if last.seq <= cursor => Since::Nothing,
            Some((first, _)) if first.seq > cursor + 1 => Since::Unknown,
            Some(_) => {
                let skip = ring.events.partition_point(|event| event.seq <= cursor);
                Since::Events(ring.events.range(skip..).cloned().collect())
            }
        }
    }
}

/// A follower's place at a feed; the feed goes when the last one leaves.
#[derive(Debug)]
pub(super) struct Seat {
    hub: Arc<Hub>,
    key: SessionKey,
    feed: Arc<Feed>,
    /// Losses that its follower knows of, or that are older than it.
    losses: u64,
    changes: watch::Receiver<()>,
}

impl Seat {
    pub(super) fn take(hub: &Arc<Hub>, key: &SessionKey) -> Self {
        let mut feeds = locked(&hub.feeds);
        let entry = feeds.0.entry(key.clone()).or_insert_with(|| Entry {
            feed: Arc::new(Feed::new()),
            followers: 0,
        });
        entry.followers += 1;
        Self {
            hub: hub.clone(),
            key: key.clone(),
            feed: entry.feed.clone(),
            losses: locked(&entry.feed.ring).losses,
            changes: entry.feed.changed.subscribe(),
        }
    }

    /// What came after the cursor, with a mark: a change that comes later ends [`Self::changed`].
    pub(super) fn look(&mut self, cursor: u64) -> Since {
        self.changes.mark_unchanged();
        match self.lost(cursor) {
            Some(stored) => Since::Lost(stored),
            None => self.feed.since(cursor),
        }
    }

    /// How many of the events up to the cursor are left at most, if some were lost since that was
    /// asked last.
    pub(super) fn lost(&mut self, cursor: u64) -> Option<u64> {
        let ring = locked(&self.feed.ring);
        let is_new = ring.losses > self.losses;
        self.losses = ring.losses;
        (is_new && cursor > ring.intact).then_some(ring.stored)
    }

    /// So many losses had been accepted when the store was read.
    pub(super) fn accepted(&self, losses: u64) {
        self.feed.accepted(losses);
    }

    /// The store gave the follower events up to this one.
    pub(super) fn saw(&self, seq: u64, event: &Bytes) {
        self.feed.saw(Fingerprint::of(seq, event));
    }

    pub(super) async fn changed(&mut self) {
        // The feed lives as long as the seat, so the sender cannot be gone.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut feeds = locked(&self.hub.feeds);
        if let Some(entry) = feeds.0.get_mut(&self.key) {
            entry.followers -= 1;
            if entry.followers == 0 {
                feeds.0.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
