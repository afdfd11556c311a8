//! Random operations, repeated, stale and out of order, on a store and on a reference: every
//! answer and everything that can be read must be the same.

mod copies;
mod documents;
mod idle;
mod lists;
mod ownership;
mod place;
#[cfg(target_os = "linux")]
mod redis;

use crate::support::ops::{
    Body, LEASE, Op, What, change, decided, key, level, listing, name, needs, ops, waits_for,
};
use crate::support::reference::Reference;
use crate::support::remote::RemoteStore;
use bytes::Bytes;
use cairn_memory::Memory;
use cairn_memory::conformance::client;
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_rpc::{Exposure, ManualClock, ServerBuilder};
use place::Place;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What an owner believes of a session.
#[derive(Debug, Clone, Default)]
struct Belief {
    epoch: u64,
    version: u64,
    seen: u64,
    sent: Vec<Commit>,
}

struct Run {
    place: Place,
    store: Option<Arc<dyn Store>>,
    clock: Arc<ManualClock>,
    reference: Reference,
    beliefs: HashMap<(u8, u8), Belief>,
    numbers: u64,
    /// When the store was asked last which sessions may go.
    looked: i64,
}

impl Run {
    async fn new(place: Place) -> Self {
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let mut run = Self {
            place,
            store: None,
            clock,
            reference: Reference::at(1_800_000_000_000),
            beliefs: HashMap::new(),
            numbers: 0,
            looked: 0,
        };
        run.open().await;
        run
    }

    async fn open(&mut self) {
        self.store = Some(open(&self.place, &self.clock).await);
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn unique(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    async fn apply(&mut self, op: Op) {
        let store = self.store();
        match op {
            Op::Create {
                session,
                request,
                owner,
                command,
            } => self.create(session, request, owner, command).await,
            Op::Commit {
                session,
                owner,
                what,
                body,
            } => self.commit((owner, session), what, &body).await,
            Op::Append {
                session,
                request,
                digest,
                owner,
                is_newer,
            } => {
                self.append(session, request, digest, owner, is_newer).await;
            }
            Op::Claim { owner } => self.claim(owner).await,
            Op::Renew { owner } => self.renew(owner).await,
            Op::Release { session, owner } => self.release(session, owner).await,
            Op::ReleaseQuarantine { session } => {
                let want = self.reference.release_quarantine(&key(session));
                assert_eq!(store.release_quarantine(&key(session), false).await, want);
            }
            Op::Wake { session } => self.wake(session).await,
            Op::WriteMemory {
                session,
                change: number,
            } => {
                let (key, change) = (key(session), change(number));
                let by = client(&key);
                let want = self.reference.write_memory(&key, &change, &by);
                assert_eq!(store.write_memory(&key, change, &by).await, want);
            }
            Op::Blob { session, number } => self.put_blob(session, number).await,
            Op::Fork { source, child, at } => self.fork(source, child, at).await,
            Op::Delete { session } => {
                let want = self.reference.delete(&key(session));
                assert_eq!(store.delete(&key(session)).await, want);
            }
            Op::Idle { after } => self.idle(after).await,
            Op::End {
                session,
                is_current,
                end,
            } => self.end(session, is_current, end).await,
            Op::Pass { ms } => self.pass(ms),
            Op::Reopen => {
                drop(store);
                self.reopen().await;
            }
        }
    }

    fn pass(&mut self, ms: u16) {
        self.clock.advance(Duration::from_millis(ms.into()));
        self.reference.now += i64::from(ms);
    }

    async fn reopen(&mut self) {
        let died = match self.place {
            Place::Memory | Place::Grpc => return,
            Place::Disk(_) => "local",
            // Nobody is known to be dead; only hints are lost.
            #[cfg(target_os = "linux")]
            Place::Redis(_) => "nobody",
        };
        self.store = None;
        self.open().await;
        self.reference.reopen(died);
        self.compare_blobs().await;
    }

    async fn append(
        &mut self,
        session: u8,
        request: u8,
        digest: bool,
        owner: Option<u8>,
        is_newer: bool,
    ) {
        let command = AppendCommand {
            key: key(session),
            request: RequestId {
                id: format!("r{request}"),
                digest: Bytes::from(if digest { "digest" } else { "other" }),
            },
            event: Bytes::from(format!("command {}", self.unique())),
            repeat_only: false,
            lease: owner.map(|owner| LeaseRequest {
                owner: name(owner),
                lease_ms: LEASE,
            }),
            operation_id: format!("append-{request}"),
            needs: needs(is_newer),
            level: owner.map_or(Level::FIRST, level),
        };
        let want = self.reference.append(&command);
        assert_eq!(self.store().append_command(command).await, want);
        let taken = want.ok().and_then(|appended| appended.taken);
        if let (Some(owner), Some(taken)) = (owner, taken) {
            let page = self.store().read(&key(session), u64::MAX, 1).await.unwrap();
            let belief = self.belief((owner, session));
            belief.epoch = taken.lease.epoch;
            (belief.version, belief.seen) = (page.version, page.last_seq);
        }
    }

    fn belief(&mut self, whose: (u8, u8)) -> &mut Belief {
        self.beliefs.entry(whose).or_default()
    }

    async fn create(&mut self, session: u8, request: u8, owner: Option<u8>, command: bool) {
        let create = Create {
            key: key(session),
            request: RequestId {
                id: format!("r{request}"),
                digest: Bytes::from("digest"),
            },
            operation_id: format!("create-{request}"),
            events: vec![Bytes::from("created"), Bytes::from("asked")],
            last_command_seq: if command { 2 } else { 0 },
            header: Header {
                title: format!("made by {request}"),
                ..Header::default()
            },
            lease: owner.map(|owner| LeaseRequest {
                owner: name(owner),
                lease_ms: LEASE,
            }),
            time_to_live_ms: (session == 2).then_some(1000),
        };
        let want = self.reference.create(&create);
        let got = self.store().create(create).await;
        assert_eq!(got, want);
        if let (
            Some(owner),
            Ok(Created {
                lease: Some(lease), ..
            }),
        ) = (owner, got)
        {
            let belief = self.belief((owner, session));
            (belief.epoch, belief.version, belief.seen) = (lease.epoch, 0, 2);
        }
    }

    async fn commit(&mut self, whose: (u8, u8), what: What, body: &Body) {
        let number = self.unique();
        let now = self.reference.now;
        let (owner, session) = (name(whose.0), key(whose.1));
        let belief = self.belief(whose);
        let (mut version, mut seen) = (belief.version, belief.seen);
        match what {
            What::WrongVersion => version += number % 3,
            What::SeenLess => seen = seen.saturating_sub(1),
            What::SeenMore => seen += 1,
            What::Next | What::Repeat | What::Older => {}
        }
        let fresh = Commit {
            key: session,
            owner,
            epoch: belief.epoch,
            version,
            operation_id: format!("operation-{number}"),
            seen_seq: seen,
            events: (0..body.events)
                .map(|i| match i == 0 && !body.lists.is_empty() {
                    true => listing(&body.lists),
                    false => Bytes::from(format!("event {number}.{i}")),
                })
                .collect(),
            memory_writes: decided(&body.memory, now),
            header: Header {
                status: match number % 3 {
                    0 => SessionStatus::Running,
                    _ => SessionStatus::Idle,
                },
                handled_through: if body.handles { seen } else { 0 },
                title: format!("title {}", number % 3),
                agent: format!("agent {}", number % 2),
                tokens: number,
                cost_nano_usd: 7 * number,
                pending: lists::open_questions(number),
                needs: needs(number.is_multiple_of(16)),
                waits_for: waits_for(number),
            },
            lease: match body.park {
                None => LeaseChange::Renew,
                Some(due) => LeaseChange::Park {
                    due_unix_ms: due.map(|ms| now + i64::from(ms)),
                },
            },
            lease_ms: LEASE,
            checkpoint: None,
            from_reserve: false,
            no_progress: body.no_progress,
        };
        let sent = |back: usize| belief.sent.iter().rev().nth(back).cloned();
        let again = match what {
            What::Repeat => sent(0),
            What::Older => sent(1),
            _ => None,
        };
        self.send(whose, again.unwrap_or(fresh)).await;
    }

    async fn send(&mut self, whose: (u8, u8), commit: Commit) {
        let want = self.reference.commit(&commit);
        let got = self.store().commit(commit.clone()).await;
        assert_eq!(got, want);
        if let Ok(committed) = got {
            let belief = self.belief(whose);
            belief.version = commit.version + 1;
            belief.seen = committed.first_seq + commit.events.len() as u64 - 1;
            if !committed.duplicate {
                belief.sent.push(commit);
            }
        }
    }

    /// Everything that can be read is as the reference has it.
    async fn compare(&self) {
        let store = self.store();
        let mut listed = Vec::new();
        for (id, session) in &self.reference.sessions {
            let key = SessionKey::new("space", id.as_str());
            if let Some(end) = session.end {
                assert_eq!(store.read(&key, 0, 1).await, Err(StoreError::Terminal(end)));
                continue;
            }
            let page = store.read(&key, 0, 10_000).await.unwrap();
            let events: Vec<_> = page.events.into_iter().map(|stored| stored.event).collect();
            assert_eq!(events, session.events);
            assert_eq!(
                (page.version, &page.header, page.quarantined.is_some()),
                (session.version, &session.header, session.quarantined)
            );
            assert_eq!(page.journal_permille, session.journal_permille());
            let memory = store.list_memory(&key).await.unwrap().entries;
            let expected: Vec<_> = session.memory.values().cloned().collect();
            assert_eq!(memory, expected);
            for name in ["k0", "k1", "k2"] {
                let entry = store.get_memory(&key, name).await.unwrap();
                assert_eq!(entry.as_ref(), session.memory.get(name));
            }
            let entry = SessionEntry {
                session: id.clone(),
                status: session.header.status,
                title: session.header.title.clone(),
                agent: session.header.agent.clone(),
                tokens: session.header.tokens,
                cost_nano_usd: session.header.cost_nano_usd,
                pending: session.header.pending.clone(),
                needs: session.header.needs,
                created_unix_ms: session.created_at,
                updated_unix_ms: session.updated_at,
                last_seq: session.events.len() as u64,
                quarantined: session.quarantined.then_some(Quarantine::Claims),
            };
            listed.push((session.rank, entry));
        }
        listed.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let listed: Vec<_> = listed.into_iter().map(|(_, entry)| entry).collect();
        self.compare_lists(listed).await;
        self.compare_waiting().await;
    }
}

async fn open(place: &Place, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let options = SqliteOptions {
        clock: clock.clone(),
        local_owners: vec!["local".to_owned()],
        ..SqliteOptions::default()
    };
    match place {
        Place::Memory => Arc::new(SqliteStore::in_memory(options).unwrap()),
        Place::Disk(path) => Arc::new(SqliteStore::open(path, options).unwrap()),
        Place::Grpc => {
            let store = SqliteStore::in_memory(options).unwrap();
            let builder = ServerBuilder::new(Exposure::Internal);
            let memory = Memory::over(Arc::new(store));
            let server = memory.register_internal(builder).build().await.unwrap();
            Arc::new(RemoteStore::new(server.link(), memory.store().clone()))
        }
        #[cfg(target_os = "linux")]
        Place::Redis(config) => {
            let options = cairn_memory::redis::RedisOptions {
                clock: Some(clock.clone()),
                ..Default::default()
            };
            let store = cairn_memory::redis::RedisStore::open(config, options);
            Arc::new(store.await.unwrap())
        }
    }
}

fn check(place: Place, ops: Vec<Op>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut run = Run::new(place).await;
        for op in ops {
            run.apply(op).await;
            run.compare().await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_store_in_memory_is_as_the_reference(ops in ops()) {
        check(Place::Memory, ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_store_on_disk_is_as_the_reference_and_stays_so_when_it_is_opened_anew(ops in ops()) {
        let folder = tempfile::tempdir().unwrap();
        check(Place::Disk(folder.path().join("cairn.db")), ops);
    }

    #[test]
    fn a_store_behind_a_link_is_as_the_reference(ops in ops()) {
        check(Place::Grpc, ops);
    }
}
