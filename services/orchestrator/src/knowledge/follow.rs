//! The index of one namespace, and how it takes in what has changed.

use super::indexes::Indexes;
use super::{INDEXED_AT_ONCE, content, errors, list};
use crate::store::Store;
use cairn_knowledge::{Entry, Hit, Index, Query};
use cairn_proto::memory::{Document, DocumentPosition, ListDocumentsResponse};
use cairn_rpc::{Namespace, RpcError, SingleFlight};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use tokio::task::yield_now;

/// The pages of a namespace.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Takes in changes, for all searches that wait for them.
    flight: SingleFlight<Result<(), RpcError>>,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    index: Index,
    /// The index has all changes up to it; none before the first.
    position: Option<DocumentPosition>,
    /// The list was read to its end once. Without that, most pages may be missing.
    is_whole: bool,
}

impl Pages {
    /// Takes in every change that was durable when the call began.
    ///
    /// # Errors
    /// The store cannot be reached, or the index does not fit.
    pub(super) async fn follow(
        self: &Arc<Self>,
        indexes: &Arc<Indexes>,
        store: &Store,
        namespace: &Namespace,
    ) -> Result<(), RpcError> {
        let work = || {
            take_in(
                Arc::clone(self),
                Arc::clone(indexes),
                store.clone(),
                namespace.clone(),
            )
        };
        let mut is_own = false;
        let own = || {
            is_own = true;
            work()
        };
        let mut outcome = self.flight.join(own).await;
        // What was under way may have read the list before the last change of it.
        if !is_own && matches!(outcome, Some(Ok(()))) {
            outcome = self.flight.join(work).await;
        }
        outcome.unwrap_or_else(|| Err(RpcError::internal("an index of pages was not built")))
    }

    /// Searches what was taken in. None while the index is built anew.
    pub(super) fn search(&self, query: &Query<'_>) -> Option<Vec<Hit>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.is_whole.then(|| known.index.search(query))
    }

    fn position(&self) -> Option<DocumentPosition> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.position.clone()
    }

    /// Begins anew.
    fn forget(&self) {
        *self.write() = Known::default();
    }

    /// Takes in a part of the list, and returns the bytes of the index. Searches and other tasks have their turn
    /// between documents.
    async fn apply(&self, listed: ListDocumentsResponse) -> usize {
        let mut at_once = 0;
        for document in &listed.documents {
            self.write().take(document);
            at_once += document.value.len();
            if at_once > INDEXED_AT_ONCE {
                at_once = 0;
                yield_now().await;
            }
        }
        let mut known = self.write();
        // After the documents: what is taken in twice does no harm.
        known.position = listed.position;
        known.is_whole |= listed.is_last;
        known.index.bytes()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn take(&mut self, document: &Document) {
        let id = &document.id;
        if document.deleted {
            self.index.remove(id);
            return;
        }
        match content(document) {
            Ok(page) => {
                let entry = Entry {
                    title: &page.title,
                    text: &page.text,
                    tags: &page.tags,
                };
                self.index.put(id, document.version, entry);
            }
            Err(error) => {
                tracing::warn!(page = id, %error, "page is not in the index");
                self.index.remove(id);
            }
        }
    }
}

/// Reads the list of pages from the position of the index to its end. It has a task of its own, because searches that
/// wait for it may go away.
async fn take_in(
    pages: Arc<Pages>,
    indexes: Arc<Indexes>,
    store: Store,
    namespace: Namespace,
) -> Result<(), RpcError> {
    let mut turn = None;
    loop {
        let Some(listed) = list(&store, &namespace, pages.position(), 0).await? else {
            pages.forget();
            continue;
        };
        let is_last = listed.is_last;
        let bytes = pages.apply(listed).await;
        if !indexes.fit(&namespace, &pages, bytes) {
            return Err(errors::does_not_fit(indexes.most()));
        }
        if is_last {
            return Ok(());
        }
        if turn.is_none() {
            turn = Some(indexes.turn().await);
        }
    }
}
