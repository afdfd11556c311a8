//! Reading journals.

use super::support::*;
use crate::port::{Commit, Header, SessionStatus, StoreError};
use bytes::Bytes;

pub async fn events_are_read_in_pages(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("x y z").await;
    subject.append(&owner.key, "c").await;
    let mut pages = Vec::new();
    let mut after = 0;
    loop {
        let page = subject.store.read(&owner.key, after, 4).await.unwrap();
        assert_eq!(page.last_seq, 6);
        let Some(last) = page.events.last() else {
            break;
        };
        after = last.seq;
        pages.push(shown(&page.events));
    }
    assert_eq!(pages, ["1:made 2:first 3:x 4:y", "5:z 6:c"]);
}

pub async fn a_page_may_begin_inside_a_transition(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    owner.commit("u v w").await;
    owner.commit("x").await;
    for (after, want) in [
        (3, "4:v 5:w 6:x"),
        (4, "5:w 6:x"),
        (5, "6:x"),
        (2, "3:u 4:v 5:w 6:x"),
    ] {
        let page = subject.store.read(&owner.key, after, 10).await.unwrap();
        assert_eq!(shown(&page.events), want);
    }
    let page = subject.store.read(&owner.key, 3, 1).await.unwrap();
    assert_eq!(shown(&page.events), "4:v");
}

pub async fn a_cursor_at_the_end_reads_nothing(subject: &Subject) {
    let session = subject.parked("a").await;
    for after in [2, 3, 1 << 40, u64::MAX] {
        let page = subject.store.read(&session, after, 10).await.unwrap();
        assert!(page.events.is_empty(), "{after}");
        assert_eq!(page.last_seq, 2);
    }
    let missing = subject.store.read(&key("unknown"), 0, 10).await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn a_page_is_limited_in_bytes(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let event = Bytes::from(vec![7; 60 << 10]);
    for _ in 0..2 {
        let commit = Commit {
            events: vec![event.clone(); 20],
            ..owner.next("")
        };
        owner.make(commit).await.unwrap();
    }
    let page = subject.store.read(&owner.key, 0, 1000).await.unwrap();
    let bytes: usize = page.events.iter().map(|event| event.event.len()).sum();
    assert!(page.events.len() < 42, "{}", page.events.len());
    assert!((900 << 10..=1100 << 10).contains(&bytes), "{bytes}");
    assert_eq!(page.last_seq, 42);
    let after = page.events.last().unwrap().seq;
    let next = subject.store.read(&owner.key, after, 1000).await.unwrap();
    assert_eq!(next.events[0].seq, after + 1);
}

pub async fn a_page_tells_version_and_header(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let header = Header {
        status: SessionStatus::Waiting,
        handled_through: 2,
        title: "a goal".to_owned(),
        ..Header::default()
    };
    let commit = Commit {
        header: header.clone(),
        ..owner.next("x")
    };
    owner.make(commit).await.unwrap();
    subject.append(&owner.key, "c").await;
    let page = subject.store.read(&owner.key, 0, 1).await.unwrap();
    assert_eq!((page.last_seq, page.version, page.header), (4, 1, header));
}

pub async fn a_large_transition_is_whole(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let large: Vec<_> = (0..1024_u32)
        .map(|number| Bytes::from(number.to_le_bytes().repeat(800)))
        .collect();
    let commit = Commit {
        events: large.clone(),
        ..owner.next("")
    };
    assert_eq!(owner.make(commit).await.unwrap().first_seq, 3);
    owner.commit("after").await;
    let mut read = Vec::new();
    loop {
        let after = 2 + u64::try_from(read.len()).unwrap();
        let page = subject.store.read(&owner.key, after, 10_000).await.unwrap();
        if page.events.is_empty() {
            break;
        }
        assert!(page.events.len() < 1024);
        read.extend(page.events.into_iter().map(|event| event.event));
    }
    assert_eq!(read.pop(), Some(bytes("after")));
    assert!(read == large);
}

pub async fn time_is_told_and_passes(subject: &Subject) {
    let before = subject.store.now().await.unwrap();
    subject.pass(250).await;
    let after = subject.store.now().await.unwrap();
    assert!(after >= before + 250);
    assert!(subject.claims("one").await.now_unix_ms >= after);
}
