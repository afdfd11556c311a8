//! The recent events of a followed session, so that many followers need not all read the store.

mod ring;

use super::{Hub, locked};
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
    /// The store has lost events that were seen, and others are in their place: at most so many are
    /// what they were.
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

    /// Of the events that were seen at most so many are left.
    pub(super) fn lost(&self, stored: u64) {
        locked(&self.ring).lost(stored);
        self.changed.send_replace(());
    }

    /// Followers were given events by the store, up to this one.
    pub(super) fn saw(&self, event: Fingerprint) {
        let ring = &mut *locked(&self.ring);
        ring.seen = Fingerprint::later(ring.seen, Some(event));
    }

    /// The number of the last event, and the last event that was seen.
    pub(super) fn top(&self) -> (u64, Option<Fingerprint>) {
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
    /// asked last. Who has seen none misses none.
    pub(super) fn lost(&mut self, cursor: u64) -> Option<u64> {
        let ring = locked(&self.feed.ring);
        let is_new = ring.losses > self.losses;
        self.losses = ring.losses;
        (is_new && cursor > 0).then_some(ring.stored)
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
mod tests {
    use super::ring::{MAX_BYTES, MAX_EVENTS};
    use super::*;

    fn bytes(text: &str) -> Vec<Bytes> {
        text.chars().map(|c| Bytes::from(c.to_string())).collect()
    }

    fn seqs(since: Since) -> Vec<u64> {
        match since {
            Since::Events(events) => events.iter().map(|event| event.seq).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_follower_that_is_ahead_of_all_that_is_known_looks_for_itself() {
        let feed = Feed::new();
        assert!(locked(&feed.ring).looked(2));
        assert_eq!(
            (feed.since(3), feed.since(2)),
            (Since::Unknown, Since::Nothing)
        );
    }

    #[test]
    fn a_feed_answers_only_what_it_surely_knows() {
        let feed = Feed::new();
        assert_eq!(feed.since(0), Since::Unknown);
        feed.push(5, &bytes("ab"));
        assert_eq!(feed.since(3), Since::Unknown);
        assert_eq!(seqs(feed.since(4)), [5, 6]);
        assert_eq!(seqs(feed.since(5)), [6]);
        assert_eq!(feed.since(6), Since::Nothing);
        assert_eq!(feed.since(9), Since::Unknown);
    }

    #[test]
    fn a_gap_empties_a_feed() {
        let feed = Feed::new();
        feed.push(1, &bytes("a"));
        feed.push(3, &bytes("c"));
        assert_eq!(feed.since(0), Since::Unknown);
        assert_eq!(seqs(feed.since(2)), [3]);
    }

    #[test]
    fn what_others_wrote_is_looked_up_once() {
        let feed = Feed::new();
        feed.push(1, &bytes("ab"));
        feed.grown(2);
        assert_eq!(seqs(feed.since(0)), [1, 2]);
        feed.grown(4);
        assert_eq!(feed.since(2), Since::Unknown);
        assert_eq!(feed.since(4), Since::Nothing);
        feed.push(5, &bytes("e"));
        assert_eq!(feed.since(2), Since::Unknown);
        assert_eq!(seqs(feed.since(4)), [5]);
    }

    /// Every way in which four transitions can be made, here or by others, and be heard of.
    #[test]
    fn whatever_order_the_news_come_in_nothing_is_missed() {
        for digits in 0..256_u64 {
            let order = [0, 2, 4, 6].map(|shift| 1 + (digits >> shift) % 4);
            if (1..=4).all(|number| order.contains(&number)) {
                for (first, by_others) in (0..3).flat_map(|it| (0..16).map(move |by| (it, by))) {
                    check_order(first, order, by_others);
                }
            }
        }
    }

    /// The event `first + n` is told as one of others if bit `n` is set.
    fn check_order(first: u64, order: [u64; 4], by_others: u32) {
        let feed = Feed::new();
        (1..=first).for_each(|seq| feed.push(seq, &bytes("x")));
        let mut told = first;
        for seq in order.map(|number| first + number) {
            if by_others & (1 << (seq - first - 1)) == 0 {
                feed.push(seq, &bytes("x"));
            } else {
                feed.grown(seq);
            }
            told = told.max(seq);
            assert_eq!(
                locked(&feed.ring).top(),
                told,
                "{first} {order:?} {by_others:b}"
            );
            for cursor in 0..=told {
                let context = format!("{first} {order:?} {by_others:b}: {seq}, since {cursor}");
                match feed.since(cursor) {
                    Since::Events(events) => {
                        let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
                        let all: Vec<_> = (cursor + 1..=told).collect();
                        assert_eq!(seqs, all, "{context}");
                    }
                    Since::Nothing => assert_eq!(cursor, told, "{context}"),
                    Since::Unknown => {}
                    other => panic!("{context}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_reply_that_a_hint_overtook_is_looked_up() {
        let feed = Feed::new();
        feed.push(8, &bytes("x"));
        feed.grown(10);
        feed.push(9, &bytes("x"));
        assert_eq!(feed.since(8), Since::Unknown);
        assert_eq!(feed.since(9), Since::Unknown);
        assert_eq!(feed.since(10), Since::Nothing);
        feed.push(11, &bytes("x"));
        assert_eq!(seqs(feed.since(10)), [11]);
        assert_eq!(feed.since(9), Since::Unknown);
    }

    #[test]
    fn the_last_event_that_was_seen_is_known_until_it_is_lost() {
        let of = |seq, event: &str| Some(Fingerprint::of(seq, event.as_bytes()));
        let feed = Feed::new();
        let seen = || locked(&feed.ring).last_seen();
        assert_eq!(seen(), None);
        feed.push(5, &bytes("ab"));
        assert_eq!(seen(), of(6, "b"));
        feed.grown(8);
        assert_eq!(seen(), of(6, "b"));
        feed.saw(Fingerprint::of(8, b"d"));
        feed.saw(Fingerprint::of(7, b"c"));
        assert_eq!(seen(), of(8, "d"));
        feed.lost(7);
        assert_eq!((seen(), feed.since(8)), (None, Since::Unknown));
        feed.saw(Fingerprint::of(8, b"D"));
        feed.looked(7);
        assert_eq!(seen(), of(8, "D"));
        feed.looked(6);
        assert_eq!(seen(), None);
    }

    #[test]
    fn a_loss_is_told_once_to_those_who_may_have_seen_it() {
        let hub = Arc::new(Hub::new());
        let key = SessionKey::new("n", "s");
        let (mut one, mut fresh) = (Seat::take(&hub, &key), Seat::take(&hub, &key));
        hub.appended(&key, 1, &bytes("abc"));
        hub.lost(&key, 2);
        let mut late = Seat::take(&hub, &key);
        assert_eq!(one.look(3), Since::Lost(2));
        assert_eq!(fresh.look(0), Since::Unknown);
        for seat in [&mut one, &mut fresh, &mut late] {
            assert_eq!(seat.look(3), Since::Unknown);
        }
    }

    #[test]
    fn a_journal_that_got_shorter_is_looked_up() {
        let feed = Feed::new();
        feed.push(1, &bytes("abc"));
        feed.looked(3);
        assert_eq!(feed.since(3), Since::Nothing);
        feed.looked(2);
        assert_eq!(feed.since(3), Since::Unknown);
        assert_eq!(locked(&feed.ring).top(), 0);
    }

    #[test]
    fn a_feed_is_bounded_in_events_and_bytes() {
        let feed = Feed::new();
        for seq in 1..=1000 {
            feed.push(seq, &bytes("x"));
        }
        assert_eq!(locked(&feed.ring).events.len(), MAX_EVENTS);
        assert_eq!(feed.since(1000 - 257), Since::Unknown);
        assert_eq!(seqs(feed.since(1000 - 256)).len(), MAX_EVENTS);
        let large = Bytes::from(vec![0; MAX_BYTES / 4 + 1]);
        feed.push(1001, &[large.clone(), large.clone(), large.clone(), large]);
        assert_eq!(locked(&feed.ring).events.len(), 3);
    }

    #[test]
    fn a_feed_lives_as_long_as_it_has_followers() {
        let hub = Arc::new(Hub::new());
        let key = SessionKey::new("n", "s");
        let one = Seat::take(&hub, &key);
        let two = Seat::take(&hub, &key);
        drop(one);
        assert!(locked(&hub.feeds).get(&key).is_some());
        drop(two);
        assert!(locked(&hub.feeds).get(&key).is_none());
    }
}
