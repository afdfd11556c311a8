//! Following a journal: the store first, then hints, then the store again where hints fall short.

use super::Hub;
use super::feed::{Seat, Since};
use crate::port::{EventPage, EventStream, SessionKey, StoreError, StoreResult, StoredEvent};
use futures::future::BoxFuture;
use futures::stream;
use std::sync::Arc;

/// Reads the next events of a journal after a cursor.
pub(crate) type ReadPage =
    Box<dyn Fn(u64) -> BoxFuture<'static, StoreResult<EventPage>> + Send + Sync>;

/// The events of a session after a cursor, those to come included.
///
/// Nothing is missed, because a change is listened for before the store is read; nothing comes
/// twice, because each batch begins right after the cursor.
///
/// # Errors
/// Those of the first read, and [`StoreError::WentBack`] if the cursor lies beyond the end.
pub(crate) async fn follow(
    hub: &Arc<Hub>,
    key: &SessionKey,
    after_seq: u64,
    read: ReadPage,
) -> StoreResult<EventStream> {
    let mut follower = Follower {
        seat: Seat::take(hub, key),
        read,
        cursor: after_seq,
        caught_up: false,
        first: None,
        over: false,
    };
    follower.seat.look(after_seq);
    follower.first = Some(follower.read_on().await?);
    Ok(Box::pin(stream::unfold(follower, |mut follower| async {
        let batch = follower.next().await?;
        Some((batch, follower))
    })))
}

struct Follower {
    seat: Seat,
    read: ReadPage,
    cursor: u64,
    /// The follower has been told once that it caught up.
    caught_up: bool,
    /// What the store held when following began.
    first: Option<Vec<StoredEvent>>,
    over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<StoreResult<Vec<StoredEvent>>> {
        if self.over {
            return None;
        }
        loop {
            let batch = match self.look().await {
                Ok(Some(batch)) => batch,
                Ok(None) | Err(StoreError::Terminal(_)) => return None,
                // What was deleted leaves a mark; this is a store that lost it.
                Err(StoreError::NotFound) => {
                    self.over = true;
                    return Some(Err(StoreError::WentBack {
                        known: self.cursor,
                        stored: 0,
                    }));
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            };
            if let Some(last) = batch.last() {
                self.cursor = last.seq;
                return Some(Ok(batch));
            }
            if !self.caught_up {
                self.caught_up = true;
                return Some(Ok(batch));
            }
            self.seat.changed().await;
        }
    }

    /// What the store has after the cursor. A read that begins after something was told sees it,
    /// unless the store has lost it.
    async fn read_on(&mut self) -> StoreResult<Vec<StoredEvent>> {
        let page = (self.read)(self.cursor).await?;
        // Just this question may have shown it.
        if let Some(stored) = self.seat.lost(self.cursor) {
            return Err(self.lost(stored));
        }
        if page.last_seq < self.cursor {
            return Err(StoreError::WentBack {
                known: self.cursor,
                stored: page.last_seq,
            });
        }
        self.seat.accepted(page.accepted_losses);
        if let Some(last) = page.events.last() {
            self.seat.saw(last.seq, &last.event);
        }
        Ok(page.events)
    }

    /// What was seen is not what the store has, although that may be as much, or more.
    fn lost(&self, stored: u64) -> StoreError {
        StoreError::WentBack {
            known: self.cursor.max(stored + 1),
            stored,
        }
    }

    /// The events after the cursor that there are now; `None` once the session is gone.
    async fn look(&mut self) -> StoreResult<Option<Vec<StoredEvent>>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match self.seat.look(self.cursor) {
            Since::Events(events) => Ok(Some(events)),
            Since::Nothing => Ok(Some(Vec::new())),
            Since::Unknown => self.read_on().await.map(Some),
            Since::Lost(stored) => Err(self.lost(stored)),
            Since::Ended => Ok(None),
            Since::Closed => Err(StoreError::closed()),
        }
    }
}
