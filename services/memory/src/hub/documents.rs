//! Watching documents: the store is read first, and again after each hint.
//!
//! A hint says only that a collection has changed, because a document may be too large to keep for all watchers.

use super::{Hub, locked};
use crate::documents;
use crate::port::{
    Collection, Document, DocumentChanges, DocumentPage, DocumentStream, Position, StoreError,
    StoreResult,
};
use futures::future::BoxFuture;
use futures::stream;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch::{Receiver, Sender};

/// Reads the next documents of a collection after a version.
pub(crate) type ReadDocuments =
    Box<dyn Fn(u64) -> BoxFuture<'static, StoreResult<DocumentPage>> + Send + Sync>;

/// The collections that have watchers.
#[derive(Debug, Default)]
pub(super) struct Watched(HashMap<Collection, Entry>);

#[derive(Debug, Default)]
struct Entry {
    changed: Sender<()>,
    watchers: usize,
    /// How the servers and the collection's counter were at the last look, if there was one.
    looked: Option<(u64, u64)>,
}

impl Watched {
    pub(super) fn changed(&self, collection: &Collection) {
        if let Some(entry) = self.0.get(collection) {
            entry.changed.send_replace(());
        }
    }

    pub(super) fn looked(&mut self, collection: &Collection, moment: (u64, u64)) {
        if let Some(entry) = self.0.get_mut(collection)
            && entry.looked.replace(moment) != Some(moment)
        {
            entry.changed.send_replace(());
        }
    }

    /// No watcher gets another hint.
    pub(super) fn close(&mut self) {
        self.0.clear();
    }
}

/// The changes of a collection after a position, later ones included.
///
/// No change is missed, because the watcher listens for hints before it reads the store.
///
/// # Errors
/// Those of the first read, and [`StoreError::Relist`] if the page does not continue from the position.
pub(crate) async fn watch(
    hub: &Arc<Hub>,
    collection: &Collection,
    after: Option<Position>,
    read: ReadDocuments,
) -> StoreResult<DocumentStream> {
    let seat = Seat::take(hub, collection);
    let page = read(after.as_ref().map_or(0, |position| position.counter)).await?;
    let watcher = Watcher {
        position: documents::advance(after.as_ref(), &page)?,
        is_complete: page.is_last,
        first: page.documents,
        is_caught_up: false,
        is_over: false,
        seat,
        read,
    };
    Ok(Box::pin(stream::unfold(watcher, |mut watcher| async {
        let changes = watcher.next().await?;
        Some((changes, watcher))
    })))
}

struct Watcher {
    seat: Seat,
    read: ReadDocuments,
    position: Position,
    /// What the store had when watching began.
    first: Vec<Document>,
    /// The last page reached the end of the collection.
    is_complete: bool,
    /// The watcher was given the batch that marks it.
    is_caught_up: bool,
    is_over: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<StoreResult<DocumentChanges>> {
        if self.is_over {
            return None;
        }
        let changes = self.changes().await;
        self.is_over = changes.is_err();
        Some(changes)
    }

    async fn changes(&mut self) -> StoreResult<DocumentChanges> {
        let mut documents = std::mem::take(&mut self.first);
        while documents.is_empty() {
            if self.is_complete {
                if !std::mem::replace(&mut self.is_caught_up, true) {
                    break;
                }
                self.seat.changed().await?;
            }
            documents = self.read_on().await?;
        }
        Ok(DocumentChanges {
            documents,
            position: self.position.clone(),
        })
    }

    async fn read_on(&mut self) -> StoreResult<Vec<Document>> {
        self.seat.changes.mark_unchanged();
        let page = (self.read)(self.position.counter).await?;
        self.position = documents::advance(Some(&self.position), &page)?;
        self.is_complete = page.is_last;
        Ok(page.documents)
    }
}

/// A watcher's place; the entry of a collection goes when the last one leaves.
#[derive(Debug)]
struct Seat {
    hub: Arc<Hub>,
    collection: Collection,
    changes: Receiver<()>,
}

impl Seat {
    fn take(hub: &Arc<Hub>, collection: &Collection) -> Self {
        let mut watched = locked(&hub.watched);
        let entry = watched.0.entry(collection.clone()).or_default();
        entry.watchers += 1;
        Self {
            hub: hub.clone(),
            collection: collection.clone(),
            changes: entry.changed.subscribe(),
        }
    }

    /// # Errors
    /// The store closes.
    async fn changed(&mut self) -> StoreResult<()> {
        let changed = self.changes.changed().await;
        changed.map_err(|_| StoreError::closed())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut watched = locked(&self.hub.watched);
        if let Some(entry) = watched.0.get_mut(&self.collection) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                watched.0.remove(&self.collection);
            }
        }
    }
}

#[cfg(test)]
mod tests;
