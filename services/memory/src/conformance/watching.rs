//! Watching session memory, over a local link to the service.

use super::entries::{set_at, set_with};
use super::memory::{remove, set};
use super::support::*;
use crate::grpc::Memory;
use crate::port::{BlobUse, Commit, MemoryWrite, SessionKey};
use bytes::Bytes;
use cairn_proto::event::{self as wire, Event, event::Kind};
use cairn_proto::memory as pb;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{Exposure, Server, ServerBuilder, with_principal};
use pb::watch_memory_response::News;
use prost::Message as _;
use std::collections::BTreeMap;
use tonic::{Code, Request, Status, Streaming};

/// The service over the subject's store.
async fn served(subject: &Subject) -> Server {
    let memory = Memory::over(subject.store.clone());
    let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    builder.build().await.unwrap()
}

/// A watcher that checks on its way that the numbers rise.
struct Watcher {
    stream: Streaming<pb::WatchMemoryResponse>,
    seq: u64,
    memory: BTreeMap<String, String>,
}

impl Watcher {
    async fn open(server: &Server, key: &SessionKey, after: Option<u64>) -> Result<Self, Status> {
        let request = pb::WatchMemoryRequest {
            session: key.session().to_owned(),
            after_seq: after,
        };
        let request = with_principal(Request::new(request), &client(key));
        let mut client = SessionMemoryServiceClient::new(server.link());
        Ok(Self {
            stream: client.watch_memory(request).await?.into_inner(),
            seq: 0,
            memory: BTreeMap::new(),
        })
    }

    async fn all(server: &Server, key: &SessionKey) -> Self {
        Self::open(server, key, None).await.unwrap()
    }

    /// The next message as text: `3 [a=1 b=2]`, `4 a=2`, `5 -a`, `6 cleared`, and `6 .` for having
    /// caught up; ` by uid:1000` at the end for a change by a client.
    async fn next(&mut self) -> Option<String> {
        let message = self.stream.message().await.unwrap()?;
        let is_change = matches!(
            message.news,
            Some(News::Set(_) | News::Removed(_) | News::Cleared(_))
        );
        assert!(message.seq >= self.seq && !(is_change && message.seq == self.seq));
        self.seq = message.seq;
        let news = match message.news {
            None => ".".to_owned(),
            Some(News::Contents(contents)) => {
                let pairs = contents.entries.into_iter().map(|e| (e.key, e.value));
                self.memory = pairs.collect();
                format!("[{}]", self.shown())
            }
            Some(News::Set(entry)) => {
                let text = format!("{}={}", entry.key, entry.value);
                self.memory.insert(entry.key, entry.value);
                text
            }
            Some(News::Removed(key)) => {
                self.memory.remove(&key);
                format!("-{key}")
            }
            Some(News::Cleared(yes)) => {
                assert!(yes);
                self.memory.clear();
                "cleared".to_owned()
            }
        };
        let by = message.principal.map(|by| format!(" by {}", by.subject));
        Some(format!("{} {news}{}", message.seq, by.unwrap_or_default()))
    }

    /// The entry of the next message, which is about a key that was set.
    async fn set(&mut self) -> pb::MemoryEntry {
        let message = self.stream.message().await.unwrap().unwrap();
        match message.news {
            Some(News::Set(entry)) => entry,
            other => panic!("{other:?}"),
        }
    }

    async fn sees(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.next().await.as_deref(), Some(*expected));
        }
    }

    fn shown(&self) -> String {
        let show = |(key, value): (&String, &String)| format!("{key}={value}");
        self.memory.iter().map(show).collect::<Vec<_>>().join(" ")
    }
}

fn event(kind: Kind) -> Bytes {
    let event = Event {
        at_unix_ms: 1,
        kind: Some(kind),
        ..Default::default()
    };
    event.encode_to_vec().into()
}

fn set_event(key: &str, value: &str) -> Bytes {
    event(Kind::MemorySet(wire::MemorySet {
        key: key.to_owned(),
        value: value.to_owned(),
        writer: None,
        metadata: Default::default(),
    }))
}

/// What a run does: it sets a key among other events.
fn run_sets(owner: &Owner, key: &str, value: &str) -> Commit {
    let mut commit = owner.next("before after");
    commit.events.insert(1, set_event(key, value));
    commit.memory_writes = vec![set_at(key, value, 1)];
    commit
}

pub async fn watching_memory_begins_with_all_of_it(subject: &Subject) {
    let server = served(subject).await;
    let session = subject.parked("a").await;
    let mut early = Watcher::all(&server, &session).await;
    early.sees(&["2 []", "2 ."]).await;
    subject.remember(&session, set("b", "1")).await;
    subject.remember(&session, set("a", "2")).await;
    subject.append(&session, "c").await;
    let mut late = Watcher::all(&server, &session).await;
    late.sees(&["5 [a=2 b=1]", "5 ."]).await;
    early
        .sees(&["3 b=1 by uid:1000", "4 a=2 by uid:1000"])
        .await;
}

pub async fn watching_memory_goes_on_with_every_change(subject: &Subject) {
    let server = served(subject).await;
    let mut owner = subject.owned("a", "one").await;
    let other = subject.parked("b").await;
    let mut watcher = Watcher::all(&server, &owner.key).await;
    watcher.sees(&["2 []", "2 ."]).await;
    subject.remember(&owner.key, set("k", "1")).await;
    subject
        .remember(&other, set("k", "of another session"))
        .await;
    owner.make(run_sets(&owner, "run", "2")).await.unwrap();
    owner.commit("nothing of it").await;
    subject.remember(&owner.key, remove("k")).await;
    subject.remember(&owner.key, remove("k")).await;
    subject.remember(&owner.key, MemoryWrite::Clear).await;
    let seen = [
        "3 k=1 by uid:1000",
        "5 run=2",
        "10 -k by uid:1000",
        "11 -k by uid:1000",
        "12 cleared by uid:1000",
    ];
    watcher.sees(&seen).await;
}

pub async fn watching_memory_goes_on_after_any_event(subject: &Subject) {
    let server = served(subject).await;
    let mut owner = subject.owned("a", "one").await;
    subject.remember(&owner.key, set("k", "1")).await;
    owner.make(run_sets(&owner, "run", "2")).await.unwrap();
    subject.remember(&owner.key, remove("k")).await;
    let changes = [
        (3, "3 k=1 by uid:1000"),
        (5, "5 run=2"),
        (7, "7 -k by uid:1000"),
    ];
    for after in 0..=7 {
        let mut watcher = Watcher::open(&server, &owner.key, Some(after))
            .await
            .unwrap();
        for (seq, text) in changes {
            if seq > after {
                watcher.sees(&[text]).await;
            }
        }
        watcher.sees(&["7 ."]).await;
    }
}

pub async fn watching_memory_tells_of_what_is_stored_apart(subject: &Subject) {
    let server = served(subject).await;
    let mut owner = subject.owned("a", "one").await;
    let mut watcher = Watcher::all(&server, &owner.key).await;
    watcher.sees(&["2 []", "2 ."]).await;
    let mut commit = owner.next("");
    for data in [bytes("of something else"), set_event("k", "large")] {
        let size = data.len() as u64;
        let digest = subject
            .store
            .put_blob(&owner.key, data, BlobUse::Event)
            .await
            .unwrap();
        let apart = wire::StoredApart { digest, size };
        commit.events.push(event(Kind::StoredApart(apart)));
    }
    commit.memory_writes = vec![set("k", "large")];
    owner.make(commit).await.unwrap();
    watcher.sees(&["4 k=large"]).await;
}

pub async fn watching_memory_ends_with_the_session(subject: &Subject) {
    let server = served(subject).await;
    let session = subject.parked("a").await;
    let mut watcher = Watcher::all(&server, &session).await;
    watcher.sees(&["2 []", "2 ."]).await;
    subject.store.delete(&session).await.unwrap();
    assert_eq!(watcher.next().await, None);
    for (key, code) in [
        (session, Code::NotFound),
        (key("unknown"), Code::NotFound),
        (SessionKey::new("elsewhere", "a"), Code::NotFound),
    ] {
        for after in [None, Some(0)] {
            let refused = Watcher::open(&server, &key, after).await.err().unwrap();
            assert_eq!(refused.code(), code, "{key:?}: {refused}");
        }
    }
}

/// Whenever a watcher begins, what there was and what came add up to what there is.
pub async fn watchers_of_memory_add_up_to_what_is_stored(subject: &Subject) {
    const WRITES: u64 = 60;
    let server = served(subject).await;
    let session = subject.parked("a").await;
    let writes = async {
        for number in 0..WRITES {
            let key = format!("k{}", number % 7);
            let change = match number % 10 {
                9 => MemoryWrite::Clear,
                3 | 6 => remove(&key),
                _ => set(&key, &number.to_string()),
            };
            subject.remember(&session, change).await;
        }
    };
    let watching = async {
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut watcher = Watcher::all(&server, &session).await;
            watcher.next().await.unwrap();
            all.push(watcher);
        }
        all
    };
    let ((), watchers) = tokio::join!(writes, watching);
    let stored = subject.memory(&session).await;
    for mut watcher in watchers {
        while watcher.seq < 2 + WRITES {
            watcher.next().await.unwrap();
        }
        assert_eq!(watcher.shown(), stored);
    }
}

/// An entry as the service gives it.
async fn got(server: &Server, key: &SessionKey, name: &str) -> pb::MemoryEntry {
    let request = pb::GetMemoryRequest {
        session: key.session().to_owned(),
        key: name.to_owned(),
    };
    let mut service = SessionMemoryServiceClient::new(server.link());
    let request = with_principal(Request::new(request), &client(key));
    let answer = service.get_memory(request).await.unwrap().into_inner();
    answer.entry.unwrap()
}

pub async fn watching_memory_tells_metadata_and_times(subject: &Subject) {
    let server = served(subject).await;
    let mut owner = subject.owned("a", "one").await;
    let key = owner.key.clone();
    let first = set_with("k", "1", &[("source", "mail")]);
    subject.remember(&key, first).await;
    let mut watcher = Watcher::all(&server, &key).await;
    let first = watcher.stream.message().await.unwrap().unwrap();
    let Some(News::Contents(contents)) = first.news else {
        panic!("a stream begins with the contents");
    };
    assert_eq!(contents.entries, [got(&server, &key, "k").await]);
    watcher.sees(&["3 ."]).await;
    subject.pass(5).await;
    subject.remember(&key, set("k", "2")).await;
    assert_eq!(watcher.set().await, got(&server, &key, "k").await);
    owner.make(run_sets(&owner, "run", "3")).await.unwrap();
    assert_eq!(watcher.set().await, got(&server, &key, "run").await);
    // The clock of the owner is behind: the key is set when it was created, at the earliest.
    owner.make(run_sets(&owner, "k", "4")).await.unwrap();
    let set_last = watcher.set().await;
    assert_eq!(set_last.update_time, set_last.create_time);
    assert_eq!(set_last, got(&server, &key, "k").await);
    for change in [
        MemoryWrite::Clear,
        set("k", "5"),
        remove("k"),
        set("k", "6"),
    ] {
        subject.pass(5).await;
        subject.remember(&key, change).await;
    }
    watcher.sees(&["11 cleared by uid:1000"]).await;
    let again = watcher.set().await;
    assert_eq!(
        (again.value.as_str(), again.create_time),
        ("5", again.update_time)
    );
    watcher.sees(&["13 -k by uid:1000"]).await;
    assert_eq!(watcher.set().await, got(&server, &key, "k").await);
}

pub async fn a_watcher_that_comes_back_learns_times_of_creation(subject: &Subject) {
    let server = served(subject).await;
    let key = subject.parked("a").await;
    let first = set_with("k", "1", &[("source", "mail")]);
    subject.remember(&key, first).await;
    let created = got(&server, &key, "k").await;
    subject.pass(5).await;
    subject.remember(&key, set("k", "2")).await;
    let updated = got(&server, &key, "k").await;
    let mut watcher = Watcher::open(&server, &key, Some(2)).await.unwrap();
    assert_eq!(watcher.set().await, created);
    assert_eq!(watcher.set().await, updated);
    let mut watcher = Watcher::open(&server, &key, Some(3)).await.unwrap();
    assert_eq!(watcher.set().await, updated);

    for change in [remove("k"), set("k", "3")] {
        subject.pass(5).await;
        subject.remember(&key, change).await;
    }
    // The store has the key's present time of creation, which is after these sets.
    let mut watcher = Watcher::open(&server, &key, Some(2)).await.unwrap();
    for value in ["1", "2"] {
        let entry = watcher.set().await;
        assert_eq!((entry.value.as_str(), entry.create_time), (value, None));
        assert!(entry.update_time.is_some());
    }
    watcher.sees(&["5 -k by uid:1000"]).await;
    assert_eq!(watcher.set().await, got(&server, &key, "k").await);
}
