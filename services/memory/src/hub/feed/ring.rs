//! What a feed has of its session.

use crate::fingerprint::Fingerprint;
use crate::hub::{Top, locked};
use crate::port::StoredEvent;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most events that a feed keeps; who is further behind reads the store.
pub(super) const MAX_EVENTS: usize = 256;
/// Most bytes of events that a feed keeps.
pub(super) const MAX_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) events: VecDeque<StoredEvent>,
    bytes: usize,
    /// The journal's length, as far as somebody else has told.
    pub(super) known: u64,
    /// The last event that was here or that followers were given by the store; what is in the ring
    /// may be later.
    pub(super) seen: Option<Fingerprint>,
    /// How often the store had others in the place of events that were seen.
    pub(super) losses: u64,
    /// How many events of those before the last of these losses are left at most.
    pub(super) stored: u64,
    /// Who has seen no more than these misses none.
    pub(super) intact: u64,
    /// How many losses had been accepted when that was learned which is here.
    pub(super) accepted_losses: u64,
    pub(super) ended: bool,
    pub(super) closed: bool,
}

/// What is known of the session. Whoever writes or follows does not wait for the digest of an event.
pub(super) fn top(ring: &Mutex<Ring>) -> Top {
    let (accepted_losses, top, seen, last) = {
        let ring = locked(ring);
        let last = ring.events.back().cloned();
        (ring.accepted_losses, ring.top(), ring.seen, last)
    };
    let event = last_seen(seen, last.as_ref());
    Top {
        accepted_losses,
        // The store may not have been asked yet how long the journal is.
        last_seq: top.max(event.map_or(0, |event| event.seq)),
        event,
    }
}

fn last_seen(seen: Option<Fingerprint>, last: Option<&StoredEvent>) -> Option<Fingerprint> {
    let last = last.map(|last| Fingerprint::of(last.seq, &last.event));
    Fingerprint::later(seen, last)
}

impl Ring {
    /// Whether that is new.
    pub(super) fn grown(&mut self, last_seq: u64) -> bool {
        if last_seq <= self.top() {
            return false;
        }
        self.known = last_seq;
        // What it has is not all any more.
        self.forget();
        true
    }

    /// Whether that is not what was known. A shorter journal than that may be an answer that was
    /// overtaken; if not, the store has lost something: followers are to look for themselves.
    pub(super) fn looked(&mut self, last_seq: u64) -> bool {
        if last_seq >= self.top() {
            return self.grown(last_seq);
        }
        self.known = 0;
        self.forget();
        self.seen = None;
        true
    }

    pub(super) fn lost(&mut self, stored: u64, intact: u64) {
        self.forget();
        self.known = 0;
        self.seen = None;
        self.losses += 1;
        self.stored = stored;
        self.intact = intact;
    }

    /// What was learned before the last of so many losses was accepted does not count any more.
    pub(super) fn accepted(&mut self, losses: u64) {
        if losses > self.accepted_losses {
            self.accepted_losses = losses;
            self.known = 0;
            self.forget();
            self.seen = None;
        }
    }

    pub(super) fn last_seen(&self) -> Option<Fingerprint> {
        last_seen(self.seen, self.events.back())
    }

    pub(super) fn top(&self) -> u64 {
        let last = self.events.back().map_or(0, |last| last.seq);
        last.max(self.known)
    }

    fn forget(&mut self) {
        self.seen = self.last_seen();
        self.events.clear();
        self.bytes = 0;
    }

    pub(super) fn push(&mut self, first_seq: u64, events: &[Bytes]) {
        if first_seq <= self.top() {
            // The hint of a later transition overtook the reply of this one.
            let last_seq = (first_seq + events.len() as u64).saturating_sub(1);
            self.known = self.top().max(last_seq);
            self.forget();
            return;
        }
        if self
            .events
            .back()
            .is_some_and(|last| last.seq + 1 != first_seq)
        {
            self.forget();
        }
        for (seq, event) in (first_seq..).zip(events) {
            self.bytes += event.len();
            let event = event.clone();
            self.events.push_back(StoredEvent { seq, event });
        }
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.event.len();
        }
    }
}
