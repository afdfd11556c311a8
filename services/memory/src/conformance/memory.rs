//! Session memory.

use super::support::*;
use crate::port::{
    Commit, Limit, MemoryEntry, MemoryList, MemoryWrite, SessionKey, StoreError, StoreResult,
};
use cairn_proto::event::{self as wire, Event, event::Kind};
use cairn_rpc::{Authentication, Principal};
use prost::Message as _;

pub(super) fn set(key: &str, value: &str) -> MemoryWrite {
    MemoryWrite::set(key, value)
}

pub(super) fn remove(key: &str) -> MemoryWrite {
    MemoryWrite::Remove {
        key: key.to_owned(),
    }
}

impl Subject {
    pub(super) async fn remember(&self, session: &SessionKey, change: MemoryWrite) -> u64 {
        self.try_remember(session, change).await.unwrap()
    }

    pub(super) async fn try_remember(
        &self,
        session: &SessionKey,
        change: MemoryWrite,
    ) -> StoreResult<u64> {
        let by = client(session);
        self.store.write_memory(session, change, &by).await
    }

    async fn value(&self, session: &SessionKey, key: &str) -> Option<String> {
        let entry = self.store.get_memory(session, key).await.unwrap();
        entry.map(|entry| entry.value)
    }

    /// All of a session's memory: `a=1 b=2`.
    pub(super) async fn memory(&self, session: &SessionKey) -> String {
        let list = self.store.list_memory(session).await.unwrap();
        let show = |MemoryEntry { key, value, .. }| format!("{key}={value}");
        list.entries
            .into_iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

pub async fn memory_is_set_and_overwritten(subject: &Subject) {
    let session = subject.parked("a").await;
    assert_eq!(subject.remember(&session, set("k", "1")).await, 3);
    assert_eq!(subject.remember(&session, set("k", "2")).await, 4);
    assert_eq!(subject.value(&session, "k").await.as_deref(), Some("2"));
    let empty = subject.remember(&session, set("empty", "")).await;
    assert_eq!(empty, 5);
    assert_eq!(subject.value(&session, "empty").await.as_deref(), Some(""));
}

pub async fn an_absent_key_is_none(subject: &Subject) {
    let session = subject.parked("a").await;
    let get = |name| subject.store.get_memory(&session, name);
    assert_eq!(get("k").await, Ok(None));
    let nothing = MemoryList {
        entries: Vec::new(),
        last_seq: 2,
    };
    assert_eq!(subject.store.list_memory(&session).await, Ok(nothing));
    let missing = subject.store.get_memory(&key("unknown"), "k").await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn memory_is_removed_and_cleared(subject: &Subject) {
    let session = subject.parked("a").await;
    for name in ["x", "y", "z"] {
        subject.remember(&session, set(name, "1")).await;
    }
    assert_eq!(subject.remember(&session, remove("y")).await, 6);
    assert_eq!(subject.memory(&session).await, "x=1 z=1");
    // Taking out what is not there is no error, and an event all the same.
    assert_eq!(subject.remember(&session, remove("y")).await, 7);
    assert_eq!(subject.remember(&session, MemoryWrite::Clear).await, 8);
    assert_eq!(subject.memory(&session).await, "");
    subject.remember(&session, set("x", "2")).await;
    assert_eq!(subject.memory(&session).await, "x=2");
}

pub async fn memory_of_sessions_and_namespaces_is_apart(subject: &Subject) {
    let (one, two) = (subject.parked("a").await, subject.parked("b").await);
    let elsewhere = SessionKey::new("elsewhere", "a");
    subject.store.create(creation(&elsewhere)).await.unwrap();
    for (session, value) in [(&one, "1"), (&two, "2"), (&elsewhere, "3")] {
        subject.remember(session, set("k", value)).await;
    }
    subject.remember(&one, MemoryWrite::Clear).await;
    assert_eq!(subject.memory(&one).await, "");
    assert_eq!(subject.memory(&two).await, "k=2");
    assert_eq!(subject.memory(&elsewhere).await, "k=3");
}

pub async fn memory_is_listed_sorted(subject: &Subject) {
    let session = subject.parked("a").await;
    for name in ["b", "ä", "B", "a:b", "a"] {
        subject.remember(&session, set(name, "1")).await;
    }
    assert_eq!(subject.memory(&session).await, "B=1 a=1 a:b=1 b=1 ä=1");
}

pub async fn each_change_of_memory_is_an_event(subject: &Subject) {
    let session = subject.parked("a").await;
    let before = subject.store.now().await.unwrap();
    subject.remember(&session, set("k", "1")).await;
    subject.remember(&session, remove("k")).await;
    subject.remember(&session, MemoryWrite::Clear).await;
    let page = subject.store.read(&session, 2, 10).await.unwrap();
    let events: Vec<_> = page
        .events
        .iter()
        .map(|stored| Event::decode(stored.event.clone()).unwrap())
        .collect();
    assert!(events.iter().all(|event| event.at_unix_ms >= before));
    let [one, two, three] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(matches!(&one.kind, Some(Kind::MemorySet(set)) if set.key == "k" && set.value == "1"));
    assert!(matches!(&two.kind, Some(Kind::MemoryRemoved(removed)) if removed.key == "k"));
    assert!(matches!(&three.kind, Some(Kind::MemoryCleared(_))));
}

pub async fn a_change_of_memory_names_its_principal(subject: &Subject) {
    let session = subject.parked("a").await;
    let ways = [
        (Authentication::Process, wire::Authentication::Process),
        (Authentication::Socket, wire::Authentication::Socket),
        (Authentication::Token, wire::Authentication::Token),
        (Authentication::Anonymous, wire::Authentication::Anonymous),
        (Authentication::Service, wire::Authentication::Service),
    ];
    let changes = [set("k", "1"), remove("k"), MemoryWrite::Clear];
    for ((way, _), change) in ways.into_iter().zip(changes.into_iter().cycle()) {
        let by = Principal::new(way, "anne@example.com", SPACE.parse().unwrap()).unwrap();
        let written = subject.store.write_memory(&session, change, &by).await;
        written.unwrap();
    }
    let page = subject.store.read(&session, 2, 10).await.unwrap();
    let events = page.events.into_iter();
    let found = events.map(|stored| Event::decode(stored.event).unwrap().principal);
    let wanted = ways.map(|(_, authentication)| {
        Some(wire::Principal {
            subject: "anne@example.com".to_owned(),
            namespace: SPACE.to_owned(),
            authentication: authentication.into(),
        })
    });
    assert_eq!(found.collect::<Vec<_>>(), wanted);
}

pub async fn an_owners_memory_writes_come_with_its_commit(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let commit = Commit {
        memory_writes: vec![
            set("x", "1"),
            MemoryWrite::Clear,
            set("y", "2"),
            set("z", "3"),
            remove("z"),
            set("y", "4"),
        ],
        ..owner.next("changed")
    };
    owner.make(commit).await.unwrap();
    assert_eq!(subject.memory(&owner.key).await, "y=4");
    assert_eq!(
        subject.journal(&owner.key).await,
        "1:made 2:first 3:changed"
    );
    let stale = Commit {
        version: 0,
        memory_writes: vec![set("y", "5")],
        ..owner.next("stale")
    };
    assert_eq!(owner.error(stale).await, StoreError::Conflict);
    assert_eq!(subject.memory(&owner.key).await, "y=4");
}

pub async fn a_repeated_commit_writes_memory_once(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let commit = Commit {
        memory_writes: vec![set("k", "old")],
        ..owner.next("x")
    };
    subject.store.commit(commit.clone()).await.unwrap();
    subject.remember(&owner.key, set("k", "new")).await;
    assert!(subject.store.commit(commit).await.unwrap().duplicate);
    assert_eq!(subject.memory(&owner.key).await, "k=new");
}

pub async fn memory_does_not_wake_or_hinder_anybody(subject: &Subject) {
    let session = subject.parked("a").await;
    subject.remember(&session, set("k", "1")).await;
    assert_eq!(subject.claimed("one").await, [""; 0]);

    let mut owner = subject.owned("b", "one").await;
    subject.remember(&owner.key, set("k", "1")).await;
    let parked = owner.park(None).await;
    assert_eq!(parked.others.len(), 1);
    assert!(!parked.owned());
}

pub async fn memory_is_limited_in_keys(subject: &Subject) {
    let session = subject.parked("a").await;
    for name in 0..8 {
        subject
            .remember(&session, set(&name.to_string(), "1"))
            .await;
    }
    let refused = subject.try_remember(&session, set("more", "1")).await;
    assert_eq!(refused, Err(StoreError::limit(Limit::MemoryKeys, 8)));
    subject.remember(&session, set("7", "2")).await;
    subject.remember(&session, remove("7")).await;
    subject.remember(&session, set("more", "1")).await;
    let last = subject
        .store
        .read(&session, u64::MAX, 1)
        .await
        .unwrap()
        .last_seq;
    assert_eq!(last, 2 + 8 + 3);
}

pub async fn memory_is_limited_in_bytes(subject: &Subject) {
    let session = subject.parked("a").await;
    let largest = "x".repeat(64 << 10);
    let refused = subject
        .try_remember(&session, set("k", &format!("{largest}x")))
        .await;
    assert_eq!(refused, Err(StoreError::limit(Limit::ValueBytes, 64 << 10)));
    subject.remember(&session, set("k", &largest)).await;
    let refused = subject.try_remember(&session, set("l", &largest)).await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::MemoryBytes, 128 << 10))
    );
    // Overwriting counts what goes as well as what comes.
    subject.remember(&session, set("k", &largest)).await;
    subject.remember(&session, set("k", "small")).await;
    subject.remember(&session, set("l", &largest)).await;
    assert_eq!(subject.value(&session, "l").await, Some(largest));
}

/// The owner decides by what it has seen. Clients then fill memory as far as they may, and what
/// the owner has decided finds room all the same.
pub async fn clients_fill_memory_and_owners_still_set_theirs(subject: &Subject) {
    // Half of what the owner may set has been there before, and a client takes it out.
    let mut owner = subject.owned("a", "one").await;
    let share = "x".repeat((16 << 10) - 1);
    let mine = ["a", "b", "c", "d"].map(|name| set(name, &share));
    let early = Commit {
        memory_writes: mine[..2].to_vec(),
        ..owner.next("early")
    };
    owner.make(early).await.unwrap();
    let late = Commit {
        memory_writes: mine.to_vec(),
        ..owner.next("late")
    };
    subject.remember(&owner.key, MemoryWrite::Clear).await;
    for name in 0..8 {
        let value = "x".repeat((16 << 10) - 1);
        subject
            .remember(&owner.key, set(&name.to_string(), &value))
            .await;
    }
    let refused = subject.try_remember(&owner.key, set("more", "")).await;
    assert_eq!(refused, Err(StoreError::limit(Limit::MemoryKeys, 8)));
    let committed = owner.make(late).await.unwrap();
    assert_eq!(committed.others.len(), 9);
    let names = subject.store.list_memory(&owner.key).await.unwrap().entries;
    let names: Vec<_> = names.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(names.concat(), "01234567abcd");
}

pub async fn a_transition_is_limited_in_memory_too(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    let many = |count: usize| (0..count).map(|name| set(&name.to_string(), "1"));
    let mut full = owner.next("x");
    full.memory_writes = many(13).collect();
    let refused = StoreError::limit(Limit::MemoryKeys, 12);
    assert_eq!(owner.error(full.clone()).await, refused);
    assert_eq!(subject.memory(&owner.key).await, "");
    full.memory_writes = many(12).collect();
    owner.make(full).await.unwrap();
    let value = "x".repeat(64 << 10);
    let large = |names: &[&str]| names.iter().map(|name| set(name, &value)).collect();
    let mut full = owner.next("y");
    full.memory_writes = large(&["0", "1", "2"]);
    let refused = StoreError::limit(Limit::MemoryBytes, 192 << 10);
    assert_eq!(owner.error(full.clone()).await, refused);
    full.memory_writes = large(&["0", "1"]);
    owner.make(full).await.unwrap();
    // Clients have no part in this room: they may only lessen what is there.
    for (change, allowed) in [(set("2", "11"), false), (set("0", "1"), true)] {
        let done = subject.try_remember(&owner.key, change).await;
        assert_eq!(done.is_ok(), allowed, "{done:?}");
    }
    let refused = subject.try_remember(&owner.key, set("z", "")).await;
    assert_eq!(refused, Err(StoreError::limit(Limit::MemoryKeys, 8)));
}

pub async fn a_transition_may_make_room_in_memory(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    for name in 0..8 {
        subject
            .remember(&owner.key, set(&name.to_string(), "1"))
            .await;
    }
    let mut full = owner.next("x");
    full.memory_writes = ["a", "b", "c", "d"].map(|name| set(name, "1")).to_vec();
    owner.make(full).await.unwrap();
    let mut full = owner.next("x");
    full.memory_writes = vec![set("more", "1")];
    let refused = StoreError::limit(Limit::MemoryKeys, 12);
    assert_eq!(owner.error(full.clone()).await, refused);
    full.memory_writes = vec![set("more", "1"), remove("0")];
    owner.make(full).await.unwrap();
    assert_eq!(
        subject
            .store
            .list_memory(&owner.key)
            .await
            .unwrap()
            .entries
            .len(),
        12
    );
}
