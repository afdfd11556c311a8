//! What is shown to the listeners of a session and kept for nobody.

use super::{Hub, locked};
use crate::port::{DeltaStream, SessionKey};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};

/// A listener that is further behind misses the oldest.
const MAX_BEHIND: usize = 64;

/// The sessions that somebody listens to.
#[derive(Debug, Default)]
pub(super) struct Deltas(HashMap<SessionKey, broadcast::Sender<Bytes>>);

impl Deltas {
    pub(super) fn publish(&self, key: &SessionKey, delta: Bytes) {
        if let Some(listeners) = self.0.get(key) {
            // Without a receiver the last listener is about to leave.
            let _ = listeners.send(delta);
        }
    }

    /// No listener will hear anything more.
    pub(super) fn close(&mut self) {
        self.0.clear();
    }
}

/// What is published of the session from now on.
pub(crate) fn listen(hub: &Arc<Hub>, key: &SessionKey) -> DeltaStream {
    let seat = Seat::take(hub, key);
    stream::unfold(seat, |mut seat| async {
        loop {
            let deltas = seat.deltas.as_mut()?;
            match deltas.recv().await {
                Ok(delta) => return Some((delta, seat)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    })
    .boxed()
}

/// A listener's place; what is kept for a session goes when the last one leaves.
#[derive(Debug)]
struct Seat {
    hub: Arc<Hub>,
    key: SessionKey,
    /// There until it is dropped.
    deltas: Option<broadcast::Receiver<Bytes>>,
}

impl Seat {
    fn take(hub: &Arc<Hub>, key: &SessionKey) -> Self {
        let mut deltas = locked(&hub.deltas);
        let sender = deltas.0.entry(key.clone());
        let sender = sender.or_insert_with(|| broadcast::Sender::new(MAX_BEHIND));
        Self {
            hub: hub.clone(),
            key: key.clone(),
            deltas: Some(sender.subscribe()),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut deltas = locked(&self.hub.deltas);
        // Under the lock: two that leave at the same time must not both see the other.
        self.deltas = None;
        let is_last = |sender: &broadcast::Sender<_>| sender.receiver_count() == 0;
        if deltas.0.get(&self.key).is_some_and(is_last) {
            deltas.0.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize) -> Bytes {
        Bytes::from(number.to_string())
    }

    #[tokio::test]
    async fn listeners_hear_what_comes_while_they_listen() {
        let (hub, key) = (Arc::new(Hub::new()), SessionKey::new("n", "s"));
        hub.publish(&key, text(0));
        let (mut one, mut two) = (listen(&hub, &key), listen(&hub, &key));
        hub.publish(&key, text(1));
        hub.publish(&SessionKey::new("n", "other"), text(2));
        assert_eq!(one.next().await, Some(text(1)));
        assert_eq!(two.next().await, Some(text(1)));
        drop(one);
        hub.publish(&key, text(3));
        assert_eq!(two.next().await, Some(text(3)));
        drop(two);
        assert!(locked(&hub.deltas).0.is_empty());
    }

    #[tokio::test]
    async fn a_slow_listener_misses_the_oldest_and_goes_on() {
        let (hub, key) = (Arc::new(Hub::new()), SessionKey::new("n", "s"));
        let mut slow = listen(&hub, &key);
        for number in 0..3 * MAX_BEHIND {
            hub.publish(&key, text(number));
        }
        for number in 2 * MAX_BEHIND..3 * MAX_BEHIND {
            assert_eq!(slow.next().await, Some(text(number)));
        }
        hub.closed();
        assert_eq!(slow.next().await, None);
    }
}
