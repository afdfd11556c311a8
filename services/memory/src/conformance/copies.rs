//! Sessions that begin as copies of others.

use super::support::*;
use crate::port::{
    BlobUse, Completion, Copied, CopyEvents, Header, ListQuery, SessionKey, Source, StoreError,
    StoreResult,
};
use bytes::Bytes;
use cairn_proto::event::{Event, StoredApart, event::Kind};
use prost::Message as _;

pub(super) fn copy(source: &SessionKey, child: &SessionKey, at_seq: u64) -> CopyEvents {
    CopyEvents {
        source: Source::Session(source.clone()),
        child: child.clone(),
        request: request("copy"),
        at_seq: Some(at_seq).filter(|&at| at > 0),
        completion: None,
    }
}

/// The completing call, with one event a word.
pub(super) fn completing(copy: &CopyEvents, words: &str) -> CopyEvents {
    let completion = Completion {
        events: events(words),
        memory: Vec::new(),
        header: Header::default(),
        due_unix_ms: None,
    };
    CopyEvents {
        completion: Some(completion),
        ..copy.clone()
    }
}

impl Subject {
    /// Copies until everything is there; answers the cut and how many calls it took.
    pub(super) async fn copy_all(&self, copy: &CopyEvents) -> StoreResult<(u64, usize)> {
        for calls in 1.. {
            let copied: Copied = self.store.copy_events(copy.clone()).await?;
            assert!(!copied.is_complete);
            if copied.copied_through == copied.cut_seq {
                return Ok((copied.cut_seq, calls));
            }
        }
        unreachable!()
    }

    /// A child that is complete, and where it was cut.
    pub(super) async fn child(&self, source: &SessionKey, id: &str, at: u64) -> (SessionKey, u64) {
        let child = key(id);
        let copy = copy(source, &child, at);
        let (cut, _) = self.copy_all(&copy).await.unwrap();
        let completed = self.store.copy_events(completing(&copy, "forked")).await;
        assert!(completed.unwrap().is_complete);
        (child, cut)
    }

    pub(super) async fn refused(&self, copy: CopyEvents) -> StoreError {
        self.store.copy_events(copy).await.unwrap_err()
    }
}

/// `1:made 2:first 3:a 4:b 5:c 6:from-outside 7:d 8:e`, of which two are the creation.
pub(super) async fn source(subject: &Subject) -> Owner {
    let mut owner = subject.owned("source", "one").await;
    owner.commit("a b c").await;
    subject.append(&owner.key, "from-outside").await;
    owner.commit("d e").await;
    owner
}

pub async fn a_cut_falls_back_to_the_end_of_a_transition(subject: &Subject) {
    let owner = source(subject).await;
    let whole = subject.journal(&owner.key).await;
    for (at, ends) in [
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 2),
        (5, 5),
        (6, 6),
        (7, 6),
        (8, 8),
        (0, 8),
    ] {
        let (child, cut) = subject.child(&owner.key, &format!("at-{at}"), at).await;
        assert_eq!(cut, ends, "at {at}");
        let words = whole.split(' ').take(cut as usize);
        let want = words
            .map(str::to_owned)
            .chain([format!("{}:forked", cut + 1)]);
        let want: Vec<_> = want.collect();
        assert_eq!(subject.journal(&child).await, want.join(" "));
    }
    assert_eq!(subject.journal(&owner.key).await, whole);
}

pub async fn a_copy_of_a_copy_has_the_same_ends(subject: &Subject) {
    let owner = source(subject).await;
    let (child, _) = subject.child(&owner.key, "child", 7).await;
    for (at, ends) in [(1, 1), (4, 2), (5, 5), (6, 6), (7, 7), (0, 7)] {
        let (grandchild, cut) = subject.child(&child, &format!("at-{at}"), at).await;
        assert_eq!(cut, ends, "at {at}");
        let journal = subject.journal(&grandchild).await;
        assert!(
            journal.ends_with(&format!(" {}:forked", cut + 1)),
            "{journal}"
        );
    }
    let (child, _) = subject.child(&owner.key, "another", 5).await;
    let copy = copy(&child, &key("third"), 0);
    subject.copy_all(&copy).await.unwrap();
    let completed = completing(&copy, "x y");
    subject.store.copy_events(completed).await.unwrap();
    let (_, cut) = subject.child(&key("third"), "fourth", 7).await;
    assert_eq!(cut, 6, "what completes a child is a transition");
}

pub async fn a_copy_is_not_there_before_it_is_complete(subject: &Subject) {
    let owner = source(subject).await;
    let child = key("child");
    let copy = copy(&owner.key, &child, 5);
    subject.copy_all(&copy).await.unwrap();
    let store = &subject.store;
    let missing = StoreError::NotFound;
    assert_eq!(store.read(&child, 0, 10).await.err(), Some(missing.clone()));
    assert_eq!(store.list_memory(&child).await.err(), Some(missing.clone()));
    assert_eq!(store.follow(&child, 0).await.err(), Some(missing.clone()));
    assert_eq!(store.delete(&child).await, Err(missing.clone()));
    let appended = store.append_command(command(&child, "c")).await;
    assert_eq!(appended.err(), Some(missing.clone()));
    let put = store.put_blob(&child, bytes("blob"), BlobUse::Event).await;
    assert_eq!(put.err(), Some(missing));
    let listed = store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap()
        .sessions;
    assert_eq!(listed.len(), 1, "{listed:?}");
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, ["source"]);

    store
        .copy_events(completing(&copy, "forked"))
        .await
        .unwrap();
    let listed = store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap()
        .sessions;
    let ids: Vec<_> = listed.iter().map(|entry| &entry.session).collect();
    assert_eq!(ids, ["child", "source"]);
    assert_eq!(listed[0].last_seq, 6);
}

pub async fn every_part_of_a_copy_may_be_repeated(subject: &Subject) {
    let mut owner = source(subject).await;
    let child = key("child");
    let copy = copy(&owner.key, &child, 0);
    subject.copy_all(&copy).await.unwrap();
    // What is copied is decided by the first call.
    owner.commit("later").await;
    assert_eq!(subject.copy_all(&copy).await.unwrap(), (8, 1));
    let last = completing(&copy, "forked");
    for _ in 0..2 {
        let completed = subject.store.copy_events(last.clone()).await.unwrap();
        assert_eq!((completed.cut_seq, completed.is_complete), (8, true));
    }
    // Nothing more is copied to one that is there, and other events do not complete it anew.
    for again in [copy.clone(), completing(&copy, "other")] {
        let again = subject.store.copy_events(again).await.unwrap();
        assert_eq!((again.cut_seq, again.is_complete), (8, true));
    }
    let journal = subject.journal(&child).await;
    assert!(journal.ends_with("8:e 9:forked"), "{journal}");
    // Nor does it need its source any more.
    subject.store.delete(&owner.key).await.unwrap();
    assert!(subject.store.copy_events(copy).await.unwrap().is_complete);
    assert_eq!(subject.journal(&child).await, journal);
}

pub async fn another_request_makes_no_copy_of_the_same_name(subject: &Subject) {
    let owner = source(subject).await;
    let child = key("child");
    let first = copy(&owner.key, &child, 5);
    let other_id = CopyEvents {
        request: request("another"),
        ..first.clone()
    };
    let mut other_digest = first.clone();
    other_digest.request.digest = bytes("another");
    let other_source = CopyEvents {
        source: Source::Session(subject.parked("other-source").await),
        ..first.clone()
    };
    subject.copy_all(&first).await.unwrap();
    let mismatch = StoreError::RequestMismatch;
    for other in [&other_id, &other_digest, &other_source] {
        assert_eq!(subject.refused(other.clone()).await, mismatch);
        assert_eq!(subject.refused(completing(other, "x")).await, mismatch);
    }
    let completed = subject
        .store
        .copy_events(completing(&first, "forked"))
        .await;
    assert!(completed.unwrap().is_complete);
    for other in [&other_id, &other_digest] {
        assert_eq!(subject.refused(other.clone()).await, mismatch);
    }
    let created = subject.store.create(creation(&child)).await;
    assert_eq!(created.err(), Some(mismatch.clone()));
    // A session that is there is not copied over; one that comes meanwhile stays.
    let there = copy(&owner.key, &subject.parked("there").await, 5);
    assert_eq!(subject.refused(there).await, mismatch);
    let overtaken = copy(&owner.key, &key("overtaken"), 5);
    subject.copy_all(&overtaken).await.unwrap();
    subject.parked("overtaken").await;
    let late = subject.refused(completing(&overtaken, "forked")).await;
    assert_eq!(late, mismatch);
    assert_eq!(subject.journal(&key("overtaken")).await, "1:made 2:first");
}

pub async fn what_cannot_be_copied_is_refused(subject: &Subject) {
    let owner = source(subject).await;
    let child = key("child");
    let beyond = subject.refused(copy(&owner.key, &child, 9)).await;
    let went_back = StoreError::WentBack {
        known: 9,
        stored: 8,
    };
    assert_eq!(beyond, went_back);
    let far = subject.refused(copy(&owner.key, &child, u64::MAX)).await;
    assert!(
        matches!(far, StoreError::WentBack { stored: 8, .. }),
        "{far}"
    );
    let unknown = subject.refused(copy(&key("unknown"), &child, 0)).await;
    assert_eq!(unknown, StoreError::NotFound);
    let whole = copy(&owner.key, &child, 0);
    let early = subject.refused(completing(&whole, "forked")).await;
    assert_eq!(early, StoreError::Conflict);
    subject.copy_all(&whole).await.unwrap();
    subject.store.delete(&owner.key).await.unwrap();
    for late in [whole.clone(), completing(&whole, "forked")] {
        let refused = subject.refused(late).await;
        assert!(matches!(refused, StoreError::Terminal(_)), "{refused}");
    }
    // A child that was deleted is not made again.
    let source = subject.parked("another").await;
    let (gone, _) = subject.child(&source, "gone", 0).await;
    subject.store.delete(&gone).await.unwrap();
    let again = subject.refused(copy(&source, &gone, 0)).await;
    assert!(matches!(again, StoreError::Terminal(_)), "{again}");
}

pub async fn a_large_copy_takes_several_calls(subject: &Subject) {
    let mut owner = subject.owned("source", "one").await;
    for number in 0..3 {
        let mut commit = owner.next("");
        commit.events = (0..14)
            .map(|_| Bytes::from(vec![b'0' + number; 60_000]))
            .collect();
        owner.make(commit).await.unwrap();
    }
    let (child, copy) = (key("child"), copy(&owner.key, &key("child"), 0));
    let begun = subject.store.copy_events(copy.clone()).await.unwrap();
    assert_eq!(begun.cut_seq, 44);
    assert!((1..44).contains(&begun.copied_through), "{begun:?}");
    let early = subject.refused(completing(&copy, "forked")).await;
    assert_eq!(early, StoreError::Conflict);
    // Two that do the same at the same time are in nobody's way.
    let (one, two) = (subject.copy_all(&copy), subject.copy_all(&copy));
    let (one, two) = tokio::join!(one, two);
    assert_eq!((one.unwrap().0, two.unwrap().0), (44, 44));
    subject
        .store
        .copy_events(completing(&copy, "forked"))
        .await
        .unwrap();
    let mut after = 0;
    while after < 44 {
        let (was, is) = (&owner.key, &child);
        let was = subject.store.read(was, after, 10).await.unwrap().events;
        let is = subject.store.read(is, after, 10).await.unwrap().events;
        let copied = is.iter().filter(|event| event.seq <= 44);
        assert!(copied.eq(&was), "after {after}");
        after += 10;
    }
}

pub async fn blobs_come_with_the_events_that_name_them(subject: &Subject) {
    let mut owner = subject.owned("source", "one").await;
    let put = |data: Bytes| subject.store.put_blob(&owner.key, data, BlobUse::Event);
    let early = put(Bytes::from(vec![1; 200_000])).await.unwrap();
    let late = put(Bytes::from(vec![2; 100])).await.unwrap();
    let unnamed = put(Bytes::from(vec![3; 100])).await.unwrap();
    for digest in [&early, &early, &late] {
        let (digest, size) = (digest.clone(), 1);
        let event = Event {
            at_unix_ms: 1,
            kind: Some(Kind::StoredApart(StoredApart { digest, size })),
            ..Default::default()
        };
        let mut commit = owner.next("");
        commit.events = vec![event.encode_to_vec().into()];
        owner.make(commit).await.unwrap();
    }
    let (child, _) = subject.child(&owner.key, "child", 4).await;
    subject.store.delete(&owner.key).await.unwrap();
    let blob = subject.store.get_blob(&child, &early).await.unwrap();
    assert_eq!(blob, vec![1; 200_000]);
    for digest in [late, unnamed] {
        let missing = subject.store.get_blob(&child, &digest).await;
        assert_eq!(missing, Err(StoreError::NotFound));
    }
    // What was copied counts once.
    let more = |fill: u8, size| {
        subject
            .store
            .put_blob(&child, vec![fill; size].into(), BlobUse::Event)
    };
    more(4, 256 << 10).await.unwrap();
    assert!(more(5, 60_000).await.is_ok());
    assert!(more(6, 60_000).await.is_err());
}
