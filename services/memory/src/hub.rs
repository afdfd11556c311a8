//! Hints inside the process: what was appended, what can be claimed, who has commands.
//!
//! The hub keeps nothing about a session that nobody follows and whose owner has been told of its
//! commands. Whatever it loses, the store still has: it only saves looking.

mod deltas;
mod documents;
mod feed;
mod follow;
mod wakes;

pub(crate) use deltas::listen;
pub(crate) use documents::{ReadDocuments, watch as watch_documents};
pub(crate) use follow::{ReadPage, follow};
pub(crate) use wakes::Listener;

use crate::fingerprint::Fingerprint;
use crate::port::{Collection, SessionKey};
use bytes::Bytes;
use deltas::Deltas;
use documents::Watched;
use feed::Feeds;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wakes::Wakes;

/// A session that somebody follows.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) key: SessionKey,
    pub(crate) top: Top,
}

/// What is known here of a followed session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Top {
    /// How many losses of it had been accepted when that was learned.
    pub(crate) accepted_losses: u64,
    /// The number of its last event.
    pub(crate) last_seq: u64,
    /// The last event that was seen.
    pub(crate) event: Option<Fingerprint>,
}

/// The hints of one store.
#[derive(Debug)]
pub(crate) struct Hub {
    feeds: Mutex<Feeds>,
    wakes: Mutex<Wakes>,
    deltas: Mutex<Deltas>,
    watched: Mutex<Watched>,
    work: watch::Sender<()>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            feeds: Mutex::default(),
            wakes: Mutex::default(),
            deltas: Mutex::default(),
            watched: Mutex::default(),
            work: watch::Sender::new(()),
        }
    }

    /// Events were made durable: tells the session's followers, if there are any.
    pub(crate) fn appended(&self, key: &SessionKey, first_seq: u64, events: &[Bytes]) {
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.push(first_seq, events);
        }
    }

    /// A session's journal reaches up to `last_seq` at least, whoever wrote it: followers that have
    /// not seen that look at the store.
    pub(crate) fn grown(&self, key: &SessionKey, last_seq: u64) {
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.grown(last_seq);
        }
    }

    /// The store was asked, and the journal ends at `last_seq`: followers that know of more look at
    /// the store themselves.
    pub(crate) fn looked(&self, key: &SessionKey, last_seq: u64) {
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.looked(last_seq);
        }
    }

    /// The store has lost events of the session that were shown: of what was shown it has at most the
    /// first `stored`. Who has seen no more than the first `intact` misses none.
    pub(crate) fn lost(&self, key: &SessionKey, stored: u64, intact: u64) {
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.lost(stored, intact);
        }
    }

    /// So many losses of the session had been accepted when what comes next was read or written:
    /// what is known from before the last of them does not count any more.
    pub(crate) fn accepted(&self, key: &SessionKey, losses: u64) {
        // Of most sessions nothing was ever lost.
        if losses == 0 {
            return;
        }
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.accepted(losses);
        }
    }

    /// The followed sessions.
    pub(crate) fn followed(&self) -> Vec<Followed> {
        let feeds = locked(&self.feeds).all();
        let followed = feeds.into_iter().map(|(key, feed)| Followed {
            key,
            top: feed.top(),
        });
        followed.collect()
    }

    /// A session was deleted: its followers are at the end.
    pub(crate) fn deleted(&self, key: &SessionKey) {
        let feed = locked(&self.feeds).get(key);
        if let Some(feed) = feed {
            feed.end();
        }
    }

    /// The store closes: no follower will hear anything more.
    pub(crate) fn closed(&self) {
        for (_, feed) in locked(&self.feeds).all() {
            feed.close();
        }
        locked(&self.deltas).close();
        locked(&self.watched).close();
    }

    /// Documents of a collection were written: its watchers, if there are any, read the store.
    pub(crate) fn documents_changed(&self, collection: &Collection) {
        locked(&self.watched).changed(collection);
    }

    /// The store was asked, and the counter of a collection is this one. `vouched` says how often servers were
    /// checked by then. Watchers read the store unless both are as at the last look.
    pub(crate) fn documents_looked(&self, collection: &Collection, vouched: u64, counter: u64) {
        locked(&self.watched).looked(collection, (vouched, counter));
    }

    /// Shows something to the session's listeners, if there are any.
    pub(crate) fn publish(&self, key: &SessionKey, delta: Bytes) {
        locked(&self.deltas).publish(key, delta);
    }

    /// There may be something to claim.
    pub(crate) fn work(&self) {
        self.work.send_replace(());
    }

    /// A session that `owner` has leased got a command.
    pub(crate) fn wake(&self, owner: &str, key: &SessionKey) {
        locked(&self.wakes).add(owner, key);
    }
}

/// A poisoned lock is taken over: every critical section here leaves its data whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
