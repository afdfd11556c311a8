//! Blobs that events list: what keeps them, what brings them along, and how they count.

use super::copies::completing;
use super::support::*;
use super::transcripts::{page, whole};
use crate::apart::digest_of;
use crate::port::{BlobUse, End, Limit, SessionKey, Source, StoreError, StoreResult};
use bytes::Bytes;
use cairn_proto::event::{Blob, Event};
use prost::Message as _;

/// Bytes of the blobs of the cases, of which six are too many for a session.
const SIZE: usize = 100_000;

fn part(fill: u8) -> Bytes {
    vec![fill; SIZE].into()
}

/// An event that lists these blobs.
fn listing(blobs: &[Bytes]) -> Bytes {
    let blob = |data: &Bytes| Blob {
        digest: digest_of(data),
        size: u32::try_from(data.len()).unwrap(),
    };
    let event = Event {
        at_unix_ms: 1,
        blobs: blobs.iter().map(blob).collect(),
        ..Default::default()
    };
    event.encode_to_vec().into()
}

impl Subject {
    async fn put(&self, key: &SessionKey, data: &Bytes, what: BlobUse) -> StoreResult<()> {
        let digest = self.store.put_blob(key, data.clone(), what).await?;
        assert_eq!(digest, digest_of(data));
        Ok(())
    }

    async fn has(&self, key: &SessionKey, data: &Bytes) -> bool {
        match self.store.get_blob(key, &digest_of(data)).await {
            Ok(found) => found == *data,
            Err(error) => {
                assert_eq!(error, StoreError::NotFound);
                false
            }
        }
    }

    /// The blobs of the session have so many bytes: there is room for what is left of the quota, and for
    /// no more.
    async fn check_blob_bytes(&self, key: &SessionKey, count: usize) {
        let mut left = (512 << 10) - count;
        let mut fill = 200;
        while left > 0 {
            let size = left.min(256 << 10);
            let data = Bytes::from(vec![fill; size]);
            self.put(key, &data, BlobUse::Event).await.unwrap();
            (left, fill) = (left - size, fill + 1);
        }
        let refused = self.put(key, &bytes("x"), BlobUse::Event).await;
        let full = StoreError::limit(Limit::SessionBlobBytes, 512 << 10);
        assert_eq!(refused, Err(full));
    }
}

impl Owner {
    /// A transition with these events.
    async fn make_events(&mut self, events: Vec<Bytes>) {
        let mut commit = self.next("");
        commit.events = events;
        self.make(commit).await.unwrap();
    }
}

/// Events 3 and 4 list three blobs, the second of them both, and event 5 lists another; one is listed by none.
async fn listed(subject: &Subject) -> (Owner, [Bytes; 5]) {
    let mut owner = subject.owned("source", "one").await;
    let parts = [part(1), part(2), part(3), bytes("late"), bytes("unnamed")];
    for data in &parts {
        subject.put(&owner.key, data, BlobUse::Part).await.unwrap();
    }
    owner.make_events(vec![listing(&parts[..2])]).await;
    owner.make_events(vec![listing(&parts[1..3])]).await;
    owner.make_events(vec![listing(&parts[3..4])]).await;
    (owner, parts)
}

pub async fn a_copy_brings_the_blobs_that_its_events_list(subject: &Subject) {
    let (owner, parts) = listed(subject).await;
    let (child, cut) = subject.child(&owner.key, "child", 4).await;
    let (all, cut_at_end) = subject.child(&owner.key, "all", 0).await;
    assert_eq!((cut, cut_at_end), (4, 5));
    subject.store.delete(&owner.key).await.unwrap();
    for (place, data) in parts.iter().enumerate() {
        assert_eq!(subject.has(&child, data).await, place < 3, "{place}");
        assert_eq!(subject.has(&all, data).await, place < 4, "{place}");
    }
    // The blob of two events counts once.
    subject.check_blob_bytes(&child, 3 * SIZE).await;
    subject.check_blob_bytes(&all, 3 * SIZE + 4).await;
}

pub async fn a_copy_of_a_transition_ends_with_its_blobs(subject: &Subject) {
    let mut owner = subject.owned("source", "one").await;
    let parts = [part(1), part(2), part(3)];
    for data in &parts {
        subject.put(&owner.key, data, BlobUse::Part).await.unwrap();
    }
    owner.make_events(vec![listing(&parts[..1])]).await;
    let both = vec![listing(&parts[1..2]), listing(&parts[2..])];
    owner.make_events(both).await;
    // Event 4 begins a transition that ends after the cut.
    let (child, cut) = subject.child(&owner.key, "child", 4).await;
    assert_eq!(cut, 3);
    for (place, data) in parts.iter().enumerate() {
        assert_eq!(subject.has(&child, data).await, place == 0, "{place}");
    }
}

pub async fn parts_of_results_leave_room_for_events(subject: &Subject) {
    let key = subject.parked("a").await;
    let data = |fill: u8, size: usize| Bytes::from(vec![fill; size]);
    let put = async |data: &Bytes, what| subject.put(&key, data, what).await;
    put(&data(1, 256 << 10), BlobUse::Part).await.unwrap();
    put(&data(2, 128 << 10), BlobUse::Part).await.unwrap();
    let full = StoreError::limit(Limit::SessionBlobBytes, 384 << 10);
    assert_eq!(put(&data(3, 1), BlobUse::Part).await, Err(full));
    put(&data(2, 128 << 10), BlobUse::Part).await.unwrap();
    put(&data(4, 128 << 10), BlobUse::Event).await.unwrap();
    let full = StoreError::limit(Limit::SessionBlobBytes, 512 << 10);
    assert_eq!(put(&data(5, 1), BlobUse::Event).await, Err(full));
}

/// An owner that is killed between a blob and its commit leaves a blob that no event lists.
pub async fn blobs_that_no_event_lists_stay_with_the_session(subject: &Subject) {
    let first = subject.owned("a", "one").await;
    let (again, other) = (part(1), part(2));
    for data in [&again, &other] {
        subject.put(&first.key, data, BlobUse::Part).await.unwrap();
    }
    subject.outlive_leases().await;
    let mut next = subject.claim_one("two").await;
    let key = next.key.clone();
    subject.put(&key, &again, BlobUse::Part).await.unwrap();
    let lists = listing(std::slice::from_ref(&again));
    next.make_events(vec![lists]).await;
    assert!(subject.has(&key, &again).await && subject.has(&key, &other).await);
    let (child, _) = subject.child(&key, "child", 0).await;
    assert!(subject.has(&child, &again).await && !subject.has(&child, &other).await);
    subject.check_blob_bytes(&key, 2 * SIZE).await;
    subject.check_blob_bytes(&child, SIZE).await;
    assert_eq!(subject.store.delete(&key).await, Ok(true));
    for data in [&again, &other] {
        let gone = subject.store.get_blob(&key, &digest_of(data)).await;
        assert_eq!(gone, Err(StoreError::Terminal(End::Deleted)));
    }
    assert!(subject.has(&child, &again).await);
}

pub async fn a_transcript_brings_the_blobs_that_its_events_list(subject: &Subject) {
    let (owner, parts) = listed(subject).await;
    let (whole, _) = whole(subject, &owner.key).await;
    let child = key("child");
    let send = |from, to, blobs: &[Bytes]| {
        let mut copy = page(&child, &whole, from, to);
        if let Source::Transcript(page) = &mut copy.source {
            page.blobs = blobs.to_vec();
        }
        copy
    };
    let missing = |seq, data: &Bytes| StoreError::BlobMissing {
        seq,
        digest: digest_of(data),
    };
    let refused = subject.refused(send(0, 5, &[])).await;
    assert_eq!(refused, missing(3, &parts[0]));
    let refused = subject.refused(send(0, 5, &parts[..2])).await;
    assert_eq!(refused, missing(4, &parts[2]));
    // Before the event, with a page that is not the next one, without events, and with the event.
    for (copy, through) in [
        (send(0, 2, &parts[..1]), 2),
        (send(0, 2, &parts[1..2]), 2),
        (send(2, 2, &parts[2..3]), 2),
        (send(2, 4, &[]), 4),
        (send(2, 4, &parts[..3]), 4),
        (send(4, 5, &parts[3..4]), 5),
    ] {
        let copied = subject.store.copy_events(copy).await.unwrap();
        assert_eq!(
            (copied.copied_through, copied.is_complete),
            (through, false)
        );
    }
    let completed = completing(&send(5, 5, &[]), "");
    let completed = subject.store.copy_events(completed).await.unwrap();
    assert!(completed.is_complete);
    assert_eq!(super::transcripts::whole(subject, &child).await.0, whole);
    for (place, data) in parts.iter().enumerate() {
        assert_eq!(subject.has(&child, data).await, place < 4, "{place}");
    }
    subject.check_blob_bytes(&child, 3 * SIZE + 4).await;
}

pub async fn blobs_of_a_transcript_hold_to_the_limits(subject: &Subject) {
    let (owner, _) = listed(subject).await;
    let (whole, _) = whole(subject, &owner.key).await;
    let with = |blobs: Vec<Bytes>| {
        let mut copy = page(&key("child"), &whole, 0, 0);
        if let Source::Transcript(page) = &mut copy.source {
            page.blobs = blobs;
        }
        copy
    };
    let too_large = with(vec![vec![1; (256 << 10) + 1].into()]);
    let limit = StoreError::limit(Limit::BlobBytes, 256 << 10);
    assert_eq!(subject.refused(too_large).await, limit);
    // One and the same counts once.
    let copied = subject.store.copy_events(with(vec![part(1); 8])).await;
    assert_eq!(copied.unwrap().copied_through, 0);
    let too_many = with((1..=6).map(part).collect());
    let limit = StoreError::limit(Limit::SessionBlobBytes, 512 << 10);
    assert_eq!(subject.refused(too_many).await, limit);
}
