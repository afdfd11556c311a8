//! Journals that leave a store and come back, or come to another one.

use super::copies::{completing, copy, source};
use super::support::*;
use crate::port::{
    BlobUse, CopyEvents, End, LeaseChange, ListQuery, SessionKey, Source, StoreError, Transcript,
    TranscriptEvent, TranscriptPage,
};
use bytes::Bytes;
use cairn_proto::event::{Event, StoredApart, event::Kind};
use prost::Message as _;

/// The whole journal, however many pages it takes; and how many it took.
pub(super) async fn whole(subject: &Subject, key: &SessionKey) -> (Transcript, usize) {
    let mut whole = subject.store.transcript(key, 0).await.unwrap();
    let mut pages = 1;
    while whole.events.len() < whole.last_seq as usize {
        let after = whole.events.len() as u64;
        let page = subject.store.transcript(key, after).await.unwrap();
        assert_eq!(page.last_seq, whole.last_seq);
        assert_eq!(page.time_to_live_ms, whole.time_to_live_ms);
        assert!(!page.events.is_empty());
        whole.events.extend(page.events);
        pages += 1;
    }
    (whole, pages)
}

/// The call with the events of these places, from 0.
pub(super) fn page(child: &SessionKey, whole: &Transcript, from: usize, to: usize) -> CopyEvents {
    let before = from.checked_sub(1).map(|before| &whole.events[before]);
    let transcript = Transcript {
        events: whole.events[from..to].to_vec(),
        ..whole.clone()
    };
    CopyEvents {
        source: Source::Transcript(TranscriptPage {
            transcript,
            after_seq: from as u64,
            continues: before.is_some_and(|before| !before.ends),
            blobs: Vec::new(),
        }),
        ..copy(child, child, 0)
    }
}

impl Subject {
    /// Makes a session of a transcript, with pages of so many events.
    async fn made_from(&self, whole: &Transcript, id: &str, size: usize) -> SessionKey {
        let child = key(id);
        let mut from = 0;
        while from < whole.events.len() {
            let to = whole.events.len().min(from + size);
            let copied = self.store.copy_events(page(&child, whole, from, to)).await;
            let copied = copied.unwrap();
            assert_eq!(
                (copied.copied_through, copied.is_complete),
                (to as u64, false)
            );
            from = to;
        }
        let completed = completing(&page(&child, whole, from, from), "");
        let completed = self.store.copy_events(completed).await.unwrap();
        assert_eq!(
            (completed.cut_seq, completed.is_complete),
            (whole.last_seq, true)
        );
        child
    }

    /// A session with everything that a journal can have, and no owner.
    async fn storied(&self) -> SessionKey {
        let mut owner = source(self).await;
        let data = Bytes::from(vec![7; 100_000]);
        let digest = self
            .store
            .put_blob(&owner.key, data, BlobUse::Event)
            .await
            .unwrap();
        let (size, at_unix_ms) = (100_000, 1);
        let event = Event {
            at_unix_ms,
            kind: Some(Kind::StoredApart(StoredApart { digest, size })),
            ..Default::default()
        };
        let mut commit = owner.next("before after");
        commit.events.insert(1, event.encode_to_vec().into());
        owner.make(commit).await.unwrap();
        let mut parking = owner.parking(None);
        parking.header.handled_through = owner.seen;
        assert!(!owner.make(parking).await.unwrap().owned());
        owner.key
    }
}

pub async fn a_session_made_from_a_transcript_is_the_same(subject: &Subject) {
    let was = subject.storied().await;
    let (whole, _) = whole(subject, &was).await;
    assert_eq!(whole.last_seq, 12);
    let ends: Vec<_> = whole.events.iter().map(|event| event.ends).collect();
    let of_transitions = [
        false, false, true, true, false, true, false, false, true, true,
    ];
    assert_eq!(ends[..2], [true, true]);
    assert_eq!(ends[2..], of_transitions);
    for size in [1, 4, 100] {
        let is = subject.made_from(&whole, &format!("by-{size}"), size).await;
        assert_eq!(super::transcripts::whole(subject, &is).await.0, whole);
        assert_eq!(subject.journal(&is).await, subject.journal(&was).await);
        // Forks are cut at the same places.
        for at in 1..=whole.last_seq {
            let (_, is_cut) = subject.child(&is, &format!("is-{size}-{at}"), at).await;
            let (_, was_cut) = subject.child(&was, &format!("was-{size}-{at}"), at).await;
            assert_eq!(is_cut, was_cut, "at {at}");
        }
    }
}

pub async fn a_long_journal_is_read_in_pages(subject: &Subject) {
    let mut owner = subject.owned("source", "one").await;
    for number in 0..3 {
        let mut commit = owner.next("");
        commit.events = (0..14)
            .map(|_| vec![b'0' + number; 60_000].into())
            .collect();
        owner.make(commit).await.unwrap();
    }
    let (whole, pages) = whole(subject, &owner.key).await;
    assert!(pages > 1, "{pages}");
    let ends = whole.events.iter().map(|event| usize::from(event.ends));
    assert_eq!(ends.sum::<usize>(), 5);
    let made = subject.made_from(&whole, "made", 20).await;
    assert_eq!(super::transcripts::whole(subject, &made).await.0, whole);
    let beyond = subject.store.transcript(&made, 44).await.unwrap();
    assert_eq!((beyond.last_seq, beyond.events), (44, Vec::new()));
    let unknown = subject.store.transcript(&key("unknown"), 0).await;
    assert_eq!(unknown.err(), Some(StoreError::NotFound));
}

pub async fn a_time_to_live_comes_with_the_transcript(subject: &Subject) {
    let mut creation = creation(&key("source"));
    creation.time_to_live_ms = Some(10_000);
    subject.store.create(creation).await.unwrap();
    let (whole, _) = whole(subject, &key("source")).await;
    assert_eq!(whole.time_to_live_ms, Some(10_000));
    subject.pass(9_000).await;
    let made = subject.made_from(&whole, "made", 10).await;
    subject.pass(2_000).await;
    let idle = subject.store.idle(None, 10).await.unwrap();
    let idle: Vec<_> = idle.into_iter().map(|session| session.key).collect();
    assert_eq!(idle, [key("source")], "it is counted anew");
    subject.pass(9_000).await;
    let idle = subject.store.idle(None, 10).await.unwrap();
    assert!(idle.iter().any(|session| session.key == made), "{idle:?}");
}

pub async fn an_archived_session_is_made_again_from_its_transcript(subject: &Subject) {
    let was = subject.storied().await;
    let late = subject.owner_before(&was).await;
    let (whole, _) = whole(subject, &was).await;
    let journal = subject.journal(&was).await;
    let is_gone = subject.store.delete_unchanged(&was, 13, End::Archived);
    assert_eq!(is_gone.await, Ok(true));
    let terminal = StoreError::Terminal(End::Archived);
    let other = subject.parked("other").await;
    assert_eq!(subject.refused(copy(&other, &was, 0)).await, terminal);

    let made = subject.made_from(&whole, "source", 5).await;
    assert_eq!((&made, subject.journal(&made).await), (&was, journal));
    let listed = subject
        .store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap()
        .sessions;
    let listed: Vec<_> = listed.iter().map(|entry| &entry.session[..]).collect();
    assert_eq!(listed, ["source", "other"]);
    // The owner of the earlier session stays without rights.
    assert_eq!(late.error(late.next("late")).await, StoreError::Fenced);
    subject.append(&made, "again").await;
    let mut owner = subject.claim_one("two").await;
    assert!(
        owner.epoch > late.epoch + 1,
        "{} {}",
        owner.epoch,
        late.epoch
    );
    owner.commit("on").await;
    // Its mark would be forgotten after thirty days; the session is not.
    subject.pass(31 * 24 * 60 * 60 * 1000).await;
    assert!(subject.journal(&made).await.ends_with("14:again 15:on"));
}

impl Subject {
    /// The owner that the session had last.
    async fn owner_before(&self, session: &SessionKey) -> Owner {
        self.append(session, "work").await;
        let mut owner = self.claim_one("late").await;
        let mut commit = owner.next("");
        commit.header.handled_through = owner.seen;
        commit.lease = LeaseChange::Park { due_unix_ms: None };
        owner.make(commit).await.unwrap();
        owner
    }
}

pub async fn a_session_that_was_deleted_is_not_made_again(subject: &Subject) {
    for end in [None, Some(End::Expired)] {
        let name = format!("{end:?}").replace(['(', ')'], "");
        let was = subject.parked(&name).await;
        let (whole, _) = whole(subject, &was).await;
        let is_gone = match end {
            None => subject.store.delete(&was).await,
            Some(end) => subject.store.delete_unchanged(&was, 2, end).await,
        };
        assert_eq!(is_gone, Ok(true));
        let refused = subject.refused(page(&was, &whole, 0, 2)).await;
        assert_eq!(refused, StoreError::Terminal(end.unwrap_or(End::Deleted)));
    }
}

pub async fn pages_of_a_transcript_may_be_repeated(subject: &Subject) {
    let was = subject.storied().await;
    let (whole, _) = whole(subject, &was).await;
    let child = key("child");
    let progress = async |from, to| {
        let copied = subject
            .store
            .copy_events(page(&child, &whole, from, to))
            .await;
        copied.unwrap().copied_through
    };
    // Only the page that comes next counts.
    for (from, to, through) in [
        (0, 0, 0),
        (3, 6, 0),
        (0, 5, 5),
        (0, 5, 5),
        (3, 8, 5),
        (5, 12, 12),
    ] {
        assert_eq!(progress(from, to).await, through, "{from} to {to}");
        let is_there = subject.store.read(&child, 0, 1).await;
        assert_eq!(is_there.err(), Some(StoreError::NotFound));
        if through < 12 {
            let early = completing(&page(&child, &whole, 0, 0), "");
            assert_eq!(subject.refused(early).await, StoreError::Conflict);
        }
    }
    let complete = completing(&page(&child, &whole, 0, 0), "");
    for _ in 0..2 {
        let completed = subject.store.copy_events(complete.clone()).await.unwrap();
        assert!(completed.is_complete);
    }
    assert_eq!(subject.journal(&child).await, subject.journal(&was).await);
    // Another journal, and a session that is there, are refused.
    let mut other = page(&key("another"), &whole, 0, 2);
    subject.store.copy_events(other.clone()).await.unwrap();
    if let Source::Transcript(page) = &mut other.source {
        page.transcript.last_seq = 2;
    }
    let mismatch = StoreError::RequestMismatch;
    assert_eq!(subject.refused(other).await, mismatch);
    assert_eq!(subject.refused(page(&was, &whole, 0, 3)).await, mismatch);
    let from_session = copy(&was, &key("another"), 0);
    assert_eq!(subject.refused(from_session).await, mismatch);
}

pub async fn a_transcript_holds_to_the_limits(subject: &Subject) {
    let of = |event: Bytes, blob: Option<Bytes>| {
        let ends = true;
        let events = vec![TranscriptEvent { event, blob, ends }];
        let (last_seq, time_to_live_ms) = (1, None);
        let whole = Transcript {
            last_seq,
            time_to_live_ms,
            events,
        };
        page(&key("child"), &whole, 0, 1)
    };
    let named = |data: &[u8]| {
        let digest = crate::apart::digest_of(data);
        let apart = StoredApart {
            digest,
            size: data.len() as u64,
        };
        let (at_unix_ms, kind) = (1, Some(Kind::StoredApart(apart)));
        Bytes::from(
            Event {
                at_unix_ms,
                kind,
                ..Default::default()
            }
            .encode_to_vec(),
        )
    };
    let too_large = vec![1; (256 << 10) + 1];
    let cases = [
        of(vec![1; (65 << 10) + 1].into(), None),
        of(named(&too_large), Some(too_large.into())),
        {
            let mut long = of(bytes("event"), None);
            if let Source::Transcript(page) = &mut long.source {
                page.transcript.last_seq = 2021;
            }
            long
        },
    ];
    for case in cases {
        let refused = subject.refused(case).await;
        assert!(matches!(refused, StoreError::Limit { .. }), "{refused}");
    }
    // All blobs of the session together.
    let blobs = [1_u8, 2, 3].map(|fill| vec![fill; 200_000]);
    let events = blobs.map(|data| TranscriptEvent {
        event: named(&data),
        blob: Some(data.into()),
        ends: true,
    });
    let whole = Transcript {
        last_seq: 3,
        time_to_live_ms: None,
        events: events.into(),
    };
    let refused = subject.refused(page(&key("child"), &whole, 0, 3)).await;
    assert!(matches!(refused, StoreError::Limit { .. }), "{refused}");
    again(subject, &page(&key("half"), &whole, 0, 2)).await;
}

/// A page that is there already adds nothing, also if it fills more than half of the room.
async fn again(subject: &Subject, page: &CopyEvents) {
    for _ in 0..2 {
        let copied = subject.store.copy_events(page.clone()).await;
        assert_eq!(copied.unwrap().copied_through, 2);
    }
}
