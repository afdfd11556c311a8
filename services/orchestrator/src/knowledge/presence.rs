//! Whether namespaces have pages, without an index.

use super::list;
use crate::store::Store;
use cairn_rpc::{Namespace, RpcError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(5);

/// What was found out lately.
#[derive(Debug, Default)]
pub(super) struct Presence(Mutex<BTreeMap<Namespace, Seen>>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    has_pages: bool,
}

impl Presence {
    /// Whether the namespace has a page, or had one a moment ago.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(super) async fn of(&self, store: &Store, namespace: &Namespace) -> Result<bool, RpcError> {
        let at = Instant::now();
        let seen = self.lock().get(namespace).copied();
        if let Some(seen) = seen.filter(|seen| seen.is_fresh(at)) {
            return Ok(seen.has_pages);
        }
        let has_pages = has_one(store, namespace).await?;
        self.keep(namespace, Seen { at, has_pages });
        Ok(has_pages)
    }

    /// A page was stored in the namespace.
    pub(super) fn found_one(&self, namespace: &Namespace) {
        let at = Instant::now();
        let has_pages = true;
        self.keep(namespace, Seen { at, has_pages });
    }

    /// Keeps what was seen, unless there is something newer, and forgets what no longer counts.
    fn keep(&self, namespace: &Namespace, seen: Seen) {
        let mut all = self.lock();
        let now = Instant::now();
        all.retain(|_, known| known.is_fresh(now));
        if all.get(namespace).is_none_or(|known| known.at <= seen.at) {
            all.insert(namespace.clone(), seen);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn is_fresh(self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < FRESH
    }
}

/// Reads the list of pages up to the first one that is not deleted.
async fn has_one(store: &Store, namespace: &Namespace) -> Result<bool, RpcError> {
    let mut after = None;
    // Unless the oldest change is a deletion, one document has the answer, and it may be large.
    let mut page_size = 1;
    loop {
        let Some(listed) = list(store, namespace, after.take(), page_size).await? else {
            continue;
        };
        if listed.documents.iter().any(|document| !document.deleted) {
            return Ok(true);
        }
        if listed.is_last {
            return Ok(false);
        }
        after = listed.position;
        page_size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_page_that_was_stored_meanwhile_counts() {
        let presence = Presence::default();
        let [one, other] = ["one", "other"].map(|name| name.parse::<Namespace>().unwrap());
        let at = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        presence.found_one(&one);
        // It was read before.
        let has_pages = false;
        presence.keep(&one, Seen { at, has_pages });
        assert!(presence.lock()[&one].has_pages);
        tokio::time::advance(FRESH).await;
        presence.found_one(&other);
        assert!(!presence.lock().contains_key(&one));
    }
}
