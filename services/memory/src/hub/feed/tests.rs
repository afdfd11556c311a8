//! What feeds keep, lose and tell.

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
    feed.lost(7, 0);
    assert_eq!((seen(), feed.since(8)), (None, Since::Unknown));
    feed.saw(Fingerprint::of(8, b"D"));
    feed.looked(7);
    assert_eq!(seen(), of(8, "D"));
    feed.looked(6);
    assert_eq!(seen(), None);
}

#[test]
fn what_was_seen_before_a_loss_was_accepted_is_forgotten() {
    let feed = Feed::new();
    feed.push(1, &bytes("abc"));
    feed.grown(5);
    for losses in [1, 1, 0] {
        feed.accepted(losses);
        let ring = locked(&feed.ring);
        assert_eq!((ring.accepted_losses, ring.top()), (1, 0));
        assert_eq!(ring.last_seen(), None);
    }
    // Followers ask the store instead.
    assert_eq!(feed.since(3), Since::Unknown);
    feed.push(4, &bytes("d"));
    feed.accepted(1);
    assert_eq!(seqs(feed.since(3)), [4]);
}

#[test]
fn a_loss_is_told_once_to_those_who_may_have_seen_it() {
    let hub = Arc::new(Hub::new());
    let key = SessionKey::new("n", "s");
    let (mut one, mut fresh) = (Seat::take(&hub, &key), Seat::take(&hub, &key));
    hub.appended(&key, 1, &bytes("abc"));
    hub.lost(&key, 2, 0);
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
