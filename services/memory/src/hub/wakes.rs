//! Which owners have sessions with new commands, for their long polls.

use super::{Hub, locked};
use crate::port::SessionKey;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;

/// Most sessions that wait here to be told of. Beyond it hints are dropped: renewals tell, too.
const MAX_PENDING: usize = 4096;

/// Sessions with new commands, by owner.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    owners: HashMap<String, Owner>,
    pending: usize,
}

#[derive(Debug, Default)]
struct Owner {
    sessions: HashSet<SessionKey>,
    changed: watch::Sender<()>,
}

impl Wakes {
    pub(super) fn add(&mut self, owner: &str, key: &SessionKey) {
        if self.pending >= MAX_PENDING {
            self.forget();
        }
        if !self.owners.contains_key(owner) {
            self.owners.insert(owner.to_owned(), Owner::default());
        }
        if let Some(entry) = self.owners.get_mut(owner) {
            self.pending += usize::from(entry.sessions.insert(key.clone()));
            entry.changed.send_replace(());
        }
    }

    fn take(&mut self, owner: &str) -> Vec<SessionKey> {
        let Some(entry) = self.owners.get_mut(owner) else {
            return Vec::new();
        };
        self.pending -= entry.sessions.len();
        entry.sessions.drain().collect()
    }

    /// Drops all hints, most of them for owners that are gone.
    fn forget(&mut self) {
        self.owners.retain(|_, owner| {
            owner.sessions.clear();
            owner.changed.receiver_count() > 0
        });
        self.pending = 0;
    }
}

/// An owner that waits for something to do.
#[derive(Debug)]
pub(crate) struct Listener {
    hub: Arc<Hub>,
    owner: String,
    mine: watch::Receiver<()>,
    work: watch::Receiver<()>,
}

impl Listener {
    pub(crate) fn new(hub: &Arc<Hub>, owner: &str) -> Self {
        let mut wakes = locked(&hub.wakes);
        let entry = wakes.owners.entry(owner.to_owned()).or_default();
        Self {
            hub: hub.clone(),
            owner: owner.to_owned(),
            mine: entry.changed.subscribe(),
            work: hub.work.subscribe(),
        }
    }

    /// Takes the hints of this owner; what comes after this ends [`Self::changed`].
    pub(crate) fn take(&mut self) -> Vec<SessionKey> {
        self.mine.mark_unchanged();
        self.work.mark_unchanged();
        locked(&self.hub.wakes).take(&self.owner)
    }

    /// Waits until there may be something to claim, or a session has a new command.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            _ = self.mine.changed() => {}
            _ = self.work.changed() => {}
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut wakes = locked(&self.hub.wakes);
        let last = |owner: &Owner| owner.sessions.is_empty() && owner.changed.receiver_count() <= 1;
        if wakes.owners.get(&self.owner).is_some_and(last) {
            wakes.owners.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &impl ToString) -> SessionKey {
        SessionKey::new("n", id.to_string())
    }

    #[tokio::test]
    async fn a_hint_given_before_or_after_listening_arrives_once() {
        let hub = Arc::new(Hub::new());
        hub.wake("o", &key(&"a"));
        hub.wake("o", &key(&"a"));
        let mut listener = Listener::new(&hub, "o");
        assert_eq!(listener.take(), [key(&"a")]);
        assert!(listener.take().is_empty());
        hub.wake("o", &key(&"b"));
        listener.changed().await;
        assert_eq!(listener.take(), [key(&"b")]);
        hub.work();
        listener.changed().await;
    }

    #[test]
    fn nothing_is_kept_for_an_owner_that_was_told() {
        let hub = Arc::new(Hub::new());
        let mut listener = Listener::new(&hub, "o");
        hub.wake("o", &key(&"a"));
        listener.take();
        drop(listener);
        assert!(locked(&hub.wakes).owners.is_empty());
    }

    #[test]
    fn owners_that_never_ask_do_not_fill_the_memory() {
        let hub = Arc::new(Hub::new());
        for number in 0..3 * MAX_PENDING {
            hub.wake(&format!("gone-{number}"), &key(&number));
        }
        let wakes = locked(&hub.wakes);
        assert!(wakes.pending <= MAX_PENDING);
        assert!(wakes.owners.len() <= MAX_PENDING);
    }
}
