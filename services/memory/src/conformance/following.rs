//! Following journals.

use super::support::*;
use crate::port::{Commit, End, EventStream, SessionKey, StoreError, StoredEvent};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use std::time::Duration;

/// A follower that checks on its way that nothing is missing and nothing comes twice.
struct Follower {
    stream: EventStream,
    cursor: u64,
}

impl Follower {
    async fn new(subject: &Subject, key: &SessionKey, after: u64) -> Self {
        Self {
            stream: subject.store.follow(key, after).await.unwrap(),
            cursor: after,
        }
    }

    async fn batch(&mut self) -> Option<Vec<StoredEvent>> {
        let batch = self.stream.next().await?.unwrap();
        for event in &batch {
            assert_eq!(event.seq, self.cursor + 1, "in order, without gaps");
            self.cursor = event.seq;
        }
        Some(batch)
    }

    /// Reads until the event of this number.
    async fn until(&mut self, seq: u64) -> String {
        let mut events = Vec::new();
        while self.cursor < seq {
            events.extend(self.batch().await.expect("more events"));
        }
        shown(&events)
    }

    /// Reads until the stream says that it has caught up.
    async fn catch_up(&mut self) -> String {
        let mut events = Vec::new();
        loop {
            let batch = self.batch().await.expect("a word of having caught up");
            if batch.is_empty() {
                return shown(&events);
            }
            events.extend(batch);
        }
    }
}

pub async fn following_begins_with_what_there_is(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x y").await;
    let mut follower = Follower::new(subject, &owner.key, 0).await;
    assert_eq!(follower.catch_up().await, "1:made 2:first 3:x 4:y");
}

pub async fn following_goes_on_with_what_comes(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let mut follower = Follower::new(subject, &owner.key, 0).await;
    follower.catch_up().await;
    owner.commit("x").await;
    assert_eq!(follower.until(3).await, "3:x");
    subject.append(&owner.key, "c").await;
    owner.commit("").await;
    owner.commit("y z").await;
    assert_eq!(follower.until(6).await, "4:c 5:y 6:z");
    let set = crate::port::MemoryWrite::Clear;
    assert_eq!(subject.try_remember(&owner.key, set).await, Ok(7));
    follower.until(7).await;
}

pub async fn following_may_begin_in_the_middle(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x y z").await;
    let mut follower = Follower::new(subject, &owner.key, 3).await;
    assert_eq!(follower.catch_up().await, "4:y 5:z");
    let mut at_the_end = Follower::new(subject, &owner.key, 5).await;
    assert_eq!(at_the_end.catch_up().await, "");
    owner.commit("u").await;
    assert_eq!(at_the_end.until(6).await, "6:u");
}

pub async fn following_ends_with_the_session(subject: &Subject) {
    let key = subject.parked("a").await;
    let mut follower = Follower::new(subject, &key, 0).await;
    follower.catch_up().await;
    subject.store.delete(&key).await.unwrap();
    assert_eq!(follower.batch().await, None);
}

pub async fn following_nothing_is_an_error(subject: &Subject) {
    let missing = subject.store.follow(&key("unknown"), 0).await;
    assert_eq!(missing.err(), Some(StoreError::NotFound));
    let key = subject.parked("a").await;
    subject.store.delete(&key).await.unwrap();
    let deleted = subject.store.follow(&key, 0).await;
    assert_eq!(deleted.err(), Some(StoreError::Terminal(End::Deleted)));
}

pub async fn following_from_beyond_the_end_is_an_error(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for known in [3, 1 << 40, u64::MAX] {
        let beyond = subject.store.follow(&owner.key, known).await;
        let want = StoreError::WentBack { known, stored: 2 };
        assert_eq!(beyond.err(), Some(want));
    }
    owner.commit("x").await;
    assert_eq!(
        Follower::new(subject, &owner.key, 3).await.catch_up().await,
        ""
    );
}

pub async fn many_followers_get_everything_once(subject: &Subject) {
    const LAST: u64 = 2 + 60 * 2;
    let mut owner = subject.owned("a", "one").await;
    let key = owner.key.clone();
    let follow = |number: u64| {
        let key = &key;
        async move {
            // Each begins at its own time and place.
            for _ in 0..number {
                tokio::task::yield_now().await;
            }
            let mut follower = Follower::new(subject, key, number % 3).await;
            follower.until(LAST).await;
        }
    };
    let followers = futures::future::join_all((0..50).map(follow));
    let work = async {
        for number in 0..60 {
            owner.commit("x").await;
            subject.append(&owner.key, &format!("c{number}")).await;
            owner.seen += 1;
        }
    };
    tokio::join!(followers, work);
}

pub async fn a_slow_follower_holds_up_nobody_and_misses_nothing(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let mut slow = Follower::new(subject, &owner.key, 0).await;
    slow.catch_up().await;
    let large = Bytes::from(vec![1; 1000]);
    for _ in 0..20 {
        let commit = Commit {
            events: vec![large.clone(); 50],
            ..owner.next("")
        };
        owner.make(commit).await.unwrap();
    }
    slow.until(1002).await;
    owner.commit("x").await;
    assert_eq!(slow.until(1003).await, "1003:x");
}

/// As a stream that nobody reads for a while is not.
pub async fn who_asks_and_is_not_polled_keeps_nobody_waiting(subject: &Subject) {
    let session = subject.parked("a").await;
    let read = || Box::pin(subject.store.read(&session, 0, 10));
    let mut unpolled: Vec<_> = (0..100).map(|_| read()).collect();
    for asked in &mut unpolled {
        // What is there at once was not waited for.
        let _ = asked.now_or_never();
    }
    let page = tokio::time::timeout(Duration::from_secs(10), read()).await;
    let page = page.expect("nobody has what others need");
    assert_eq!(shown(&page.unwrap().events), "1:made 2:first");
}

pub async fn a_follower_that_comes_and_goes_misses_nothing(subject: &Subject) {
    const LAST: u64 = 202;
    let mut owner = subject.owned("a", "one").await;
    let key = owner.key.clone();
    let reconnecting = async {
        let mut cursor = 0;
        while cursor < LAST {
            let mut follower = Follower::new(subject, &key, cursor).await;
            follower.until((cursor + 7).min(LAST)).await;
            cursor = follower.cursor;
        }
    };
    let work = async {
        for _ in 0..100 {
            owner.commit("x y").await;
        }
    };
    tokio::join!(reconnecting, work);
}

pub async fn what_is_published_reaches_who_listens_in_order(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let other = subject.parked("b").await;
    let store = &subject.store;
    let text = |number: u8| Bytes::from(vec![b'a' + number]);
    store.publish_delta(&owner.key, text(0)).await.unwrap();
    let mut listener = store.deltas(&owner.key).await.unwrap();
    let mut elsewhere = store.deltas(&other).await.unwrap();
    for number in 1..20 {
        store.publish_delta(&owner.key, text(number)).await.unwrap();
    }
    store.publish_delta(&other, text(20)).await.unwrap();
    for number in 1..20 {
        assert_eq!(listener.next().await, Some(text(number)));
    }
    assert_eq!(elsewhere.next().await, Some(text(20)));
    // Nothing of it is kept.
    let page = store.read(&owner.key, 0, 100).await.unwrap();
    assert_eq!(page.last_seq, 2);
    let unheard = key("unknown");
    assert_eq!(store.publish_delta(&unheard, text(0)).await, Ok(()));
}
