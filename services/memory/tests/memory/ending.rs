//! Sessions whose time has come: archived, deleted, and left alone if anything changes.

#[cfg(target_os = "linux")]
mod redis;

use crate::support::work::{creation, key};
use bytes::Bytes;
use cairn_memory::archive::{Item, Reader};
use cairn_memory::janitor::{Archive, Janitor, Swept};
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_proto::event::{Blob, Event, StoredApart, event::Kind};
use cairn_rpc::ManualClock;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const AFTER: Duration = Duration::from_secs(60);

const NOTHING: Swept = Swept {
    found: 0,
    ended: 0,
    failed: 0,
};

struct World {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let options = SqliteOptions {
            clock: clock.clone(),
            ..SqliteOptions::default()
        };
        let store = Arc::new(SqliteStore::in_memory(options).unwrap());
        Self { store, clock }
    }

    /// A session with its first event and a command that was answered.
    async fn session(&self, id: &str, more: &[&str]) {
        let mut create = creation(id, None);
        let more = more
            .iter()
            .map(|event| Bytes::copy_from_slice(event.as_bytes()));
        create.events.extend(more);
        self.store.create(create).await.unwrap();
    }

    fn janitor(&self, archive: &Path) -> Janitor {
        let archive = Archive::open(archive).unwrap();
        Janitor::new(self.store.clone(), Some(AFTER), Some(archive))
    }

    fn pass(&self) {
        self.clock.advance(AFTER + Duration::from_secs(1));
    }

    async fn end_of(&self, id: &str) -> Option<StoreError> {
        self.store.read(&key(id), 0, 1).await.err()
    }
}

fn ended(ended: usize) -> Swept {
    Swept {
        found: ended,
        ended,
        failed: 0,
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("space")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with(".lock")).collect();
    names.sort_unstable();
    names
}

/// What an archive holds: the id of its session, the events, and the blobs that events list.
fn read(folder: &Path, name: &str) -> (String, Transcript, Vec<Bytes>) {
    let file = File::open(folder.join("space").join(name)).unwrap();
    let mut reader = Reader::new(BufReader::new(file)).unwrap();
    let mut transcript = Transcript {
        time_to_live_ms: reader.header().time_to_live_ms,
        ..Transcript::default()
    };
    let mut blobs = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Part(data) => blobs.push(data),
            Item::Event(event) => transcript.events.push(event),
        }
    }
    transcript.last_seq = reader.seq();
    assert_eq!(reader.header().namespace, "space");
    (reader.header().session.clone(), transcript, blobs)
}

/// The events of an archive of session `a`, numbered: those stored apart by their blobs.
fn file(folder: &Path, name: &str) -> String {
    let (session, transcript, _) = read(folder, name);
    assert!(name.starts_with(&format!("{session}.")), "{session}");
    let shown = |event: &TranscriptEvent| {
        let bytes = event.blob.as_ref().unwrap_or(&event.event);
        String::from_utf8_lossy(bytes).into_owned()
    };
    let lines = (1..).zip(&transcript.events);
    let lines = lines.map(|(seq, event): (u64, _)| format!("{seq} {}\n", shown(event)));
    lines.collect()
}

fn digest_of(data: &[u8]) -> String {
    cairn_engine::key::hex(&Sha256::digest(data))
}

/// An event of session `a` that lists two blobs, the first of them twice; and the blobs of the list.
async fn listing(store: &Arc<dyn Store>) -> (Bytes, Vec<Bytes>) {
    let parts = ["one", "two", "one"].map(Bytes::from);
    let mut blobs = Vec::new();
    for part in &parts {
        let digest = store.put_blob(&key("a"), part.clone(), BlobUse::Part).await;
        let (digest, size) = (digest.unwrap(), 3);
        blobs.push(Blob { digest, size });
    }
    let event = Event {
        at_unix_ms: 1,
        blobs,
        ..Default::default()
    };
    (event.encode_to_vec().into(), parts.into())
}

/// Claims session `a` for its command, which is event 4, and parks it with an event.
async fn park(store: &Arc<dyn Store>, event: Bytes) {
    let claims = store.claim(crate::support::work::claim("one")).await;
    let [claim] = &claims.unwrap().claims[..] else {
        panic!("the command can be handled");
    };
    let parks = Commit {
        epoch: claim.lease.epoch,
        seen_seq: 4,
        events: vec![event],
        header: Header {
            handled_through: 4,
            ..Header::default()
        },
        lease: LeaseChange::Park { due_unix_ms: None },
        ..crate::support::work::transition("a", "one", 0)
    };
    store.commit(parks).await.unwrap();
}

/// Makes the session of an archive, as an import does.
async fn import(store: &Arc<dyn Store>, folder: &Path, name: &str) {
    let (session, transcript, blobs) = read(folder, name);
    let copy = |completion: Option<Completion>| CopyEvents {
        source: Source::Transcript(TranscriptPage {
            transcript: transcript.clone(),
            after_seq: 0,
            continues: false,
            blobs: blobs.clone(),
        }),
        child: key(&session),
        request: RequestId {
            id: "import".to_owned(),
            digest: Bytes::from("digest"),
        },
        at_seq: None,
        completion,
    };
    let completion = Completion {
        events: Vec::new(),
        memory: Vec::new(),
        header: Header::default(),
        due_unix_ms: None,
    };
    store.copy_events(copy(None)).await.unwrap();
    let made = store.copy_events(copy(Some(completion))).await.unwrap();
    assert!(made.is_complete);
}

#[tokio::test]
async fn sessions_are_deleted_when_their_time_has_come() {
    let world = World::new();
    let for_ever = Janitor::new(world.store.clone(), None, None);
    let janitor = Janitor::new(world.store.clone(), Some(AFTER), None);
    world.session("a", &[]).await;
    assert_eq!(janitor.sweep().await, Ok(NOTHING));
    world.pass();
    world.session("b", &[]).await;
    assert_eq!(for_ever.sweep().await, Ok(NOTHING));
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
    assert_eq!(janitor.sweep().await, Ok(NOTHING));
    let gone = Some(StoreError::Terminal(End::Expired));
    assert_eq!(
        (world.end_of("a").await, world.end_of("b").await),
        (gone, None)
    );
}

#[tokio::test]
async fn a_time_to_live_counts_without_a_default() {
    let world = World::new();
    let create = Create {
        time_to_live_ms: Some(1000),
        ..creation("a", None)
    };
    world.store.create(create).await.unwrap();
    world.session("b", &[]).await;
    world.pass();
    let janitor = Janitor::new(world.store.clone(), None, None);
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
    assert!(world.end_of("a").await.is_some() && world.end_of("b").await.is_none());
}

#[tokio::test]
async fn a_journal_is_archived_whole_before_its_session_goes() {
    let (world, folder) = (World::new(), folder());
    let janitor = world.janitor(&folder.path().join("new/archive"));
    world.session("a", &["x", "y"]).await;
    let large = Bytes::from("a large one");
    let digest = world
        .store
        .put_blob(&key("a"), large, BlobUse::Event)
        .await
        .unwrap();
    let apart = Event {
        at_unix_ms: 1,
        kind: Some(Kind::StoredApart(StoredApart { digest, size: 11 })),
        ..Default::default()
    };
    let command = AppendCommand {
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
        key: key("a"),
        request: RequestId {
            id: "c".to_owned(),
            digest: Bytes::from("digest"),
        },
        event: apart.encode_to_vec().into(),
    };
    world.store.append_command(command).await.unwrap();
    let (listing, parts) = listing(&world.store).await;
    let a = key("a");
    let orphan = world.store.put_blob(&a, "orphan".into(), BlobUse::Part);
    let orphan = orphan.await.unwrap();
    park(&world.store, listing.clone()).await;
    world.pass();
    let was = world.store.transcript(&key("a"), 0).await.unwrap();
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
    let archive = folder.path().join("new/archive");
    assert_eq!(files(&archive), ["a.jsonl"]);
    let listing = String::from_utf8_lossy(&listing);
    let lines = format!("1 created\n2 x\n3 y\n4 a large one\n5 {listing}\n");
    assert_eq!(file(&archive, "a.jsonl"), lines);
    assert_eq!(read(&archive, "a.jsonl").2, parts);
    let mode = fs::metadata(archive.join("space/a.jsonl")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let gone = Some(StoreError::Terminal(End::Archived));
    assert_eq!(world.end_of("a").await, gone);

    // None of these events can be decoded by any version, and all come back byte by byte.
    import(&world.store, &archive, "a.jsonl").await;
    assert_eq!(world.store.transcript(&key("a"), 0).await.unwrap(), was);
    for part in parts {
        let digest = digest_of(&part);
        assert_eq!(world.store.get_blob(&key("a"), &digest).await, Ok(part));
    }
    let orphan = world.store.get_blob(&key("a"), &orphan).await;
    assert_eq!(orphan, Err(StoreError::NotFound), "no event names it");
    // Archived again, it takes the place of its own file.
    world.pass();
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
    assert_eq!(files(&archive), ["a.jsonl"]);
    assert_eq!(file(&archive, "a.jsonl"), lines);
}

/// A process that is killed after it wrote the file and before it deleted the session leaves both.
#[tokio::test]
async fn what_a_killed_process_left_is_written_again() {
    let folder = folder();
    let go = async |events: &[&str]| {
        let world = World::new();
        world.session("a", events).await;
        world.pass();
        assert_eq!(world.janitor(folder.path()).sweep().await, Ok(ended(1)));
    };
    go(&["x"]).await;
    // The file is there, and so is the session; a part of another file, too.
    fs::write(
        folder.path().join("space/.partial"),
        "1 created and much more than",
    )
    .unwrap();
    go(&["x"]).await;
    assert_eq!(files(folder.path()), ["a.jsonl"]);
    assert_eq!(file(folder.path(), "a.jsonl"), "1 created\n2 x\n");
    // It had gone on before it was idle again.
    go(&["x", "y"]).await;
    assert_eq!(files(folder.path()), ["a.jsonl"]);
    assert_eq!(file(folder.path(), "a.jsonl"), "1 created\n2 x\n3 y\n");
    // Others of its name, after the mark of the first was forgotten.
    go(&["x"]).await;
    go(&["z"]).await;
    go(&["z"]).await;
    assert_eq!(files(folder.path()), ["a.2.jsonl", "a.3.jsonl", "a.jsonl"]);
    assert_eq!(file(folder.path(), "a.jsonl"), "1 created\n2 x\n3 y\n");
    assert_eq!(file(folder.path(), "a.3.jsonl"), "1 created\n2 z\n");
}

#[tokio::test]
async fn a_session_stays_that_cannot_be_archived() {
    let (world, folder) = (World::new(), folder());
    let janitor = world.janitor(folder.path());
    world.session("a", &[]).await;
    world.pass();
    // Nothing can be written in the namespace's folder.
    let place = folder.path().join("space");
    fs::write(&place, "a file").unwrap();
    let failed = Swept {
        failed: 1,
        ended: 0,
        ..ended(1)
    };
    assert_eq!(janitor.sweep().await, Ok(failed));
    assert_eq!(world.end_of("a").await, None);
    fs::remove_file(&place).unwrap();
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
    let refused = Archive::open(folder.path().join("space/a.jsonl"));
    assert!(refused.unwrap_err().to_string().contains("a.jsonl"));
}

#[tokio::test]
async fn only_one_writes_in_a_folder() {
    let (world, folder) = (World::new(), folder());
    let janitor = world.janitor(folder.path());
    world.session("a", &[]).await;
    world.pass();
    fs::create_dir(folder.path().join("space")).unwrap();
    let other = File::create(folder.path().join("space/.lock")).unwrap();
    other.lock().unwrap();
    let left = Swept {
        ended: 0,
        ..ended(1)
    };
    assert_eq!(janitor.sweep().await, Ok(left));
    assert_eq!(world.end_of("a").await, None);
    other.unlock().unwrap();
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(janitor.sweep().await, Ok(ended(1)));
}

#[tokio::test]
async fn a_batch_is_bounded_and_the_next_one_has_the_rest() {
    let world = World::new();
    for number in 0..100 {
        world.session(&format!("s{number}"), &[]).await;
    }
    world.pass();
    let janitor = Janitor::new(world.store.clone(), Some(AFTER), None);
    let first = janitor.sweep().await.unwrap();
    let second = janitor.sweep().await.unwrap();
    assert_eq!((first, second), (ended(64), ended(36)));
}

#[tokio::test]
async fn the_janitor_ends_with_its_store() {
    let world = World::new();
    let janitor = Janitor::new(world.store.clone(), Some(Duration::from_millis(1)), None);
    let running = tokio::spawn(async move { janitor.run().await });
    world.store.close().await;
    running.await.unwrap();
}
