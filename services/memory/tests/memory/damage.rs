//! Bytes that change behind a store's back: each is reported with the event, checkpoint or blob that it
//! belongs to, and none is read as if it were what was written.

use crate::support::remote::RemoteStore;
use crate::support::work::{creation, key, transition};
use cairn_memory::Memory;
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_proto::event::{Event, StoredApart, event::Kind};
use cairn_rpc::{Exposure, Principal, Server, ServerBuilder};
use prost::Message as _;
use rusqlite::{Connection, params};
use std::sync::Arc;
use std::time::Duration;

/// Some bytes as they are stored, and where they lie.
pub(crate) struct Cell {
    pub(crate) table: String,
    pub(crate) row: String,
    pub(crate) bytes: Vec<u8>,
    /// What the bytes from a place on belong to.
    pub(crate) parts: Vec<(usize, Stored)>,
}

/// A store, and its bytes.
pub(crate) trait Vault {
    fn store(&self) -> &dyn Store;
    /// Every event, checkpoint and blob of session "a", in the order of their numbers.
    fn cells(&self) -> Vec<Cell>;
    /// Puts bytes in a cell's place, or takes the cell away.
    fn put(&self, cell: &Cell, bytes: Option<&[u8]>);
}

fn command(session: &str, id: &str) -> AppendCommand {
    AppendCommand {
        key: key(session),
        request: RequestId {
            id: id.to_owned(),
            digest: "digest".into(),
        },
        event: "command".into(),
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
    }
}

/// Events 2, 3 and 4 are one transition, and 8 and 9; 5 is a command, and 7 a change of session memory.
async fn fill(store: &dyn Store) {
    for session in ["a", "b"] {
        let key = key(session);
        store.create(creation(session, Some("one"))).await.unwrap();
        let data = vec![7; 300];
        let digest = store
            .put_blob(&key, data.into(), BlobUse::Event)
            .await
            .unwrap();
        let apart = Event {
            at_unix_ms: 1,
            kind: Some(Kind::StoredApart(StoredApart { digest, size: 300 })),
            ..Default::default()
        };
        let commit = |version, seen_seq, events: &[&str]| Commit {
            seen_seq,
            events: events.iter().map(|it| (*it).to_owned().into()).collect(),
            ..transition(session, "one", version)
        };
        let mut first = commit(0, 1, &["apart", "the third", "the fourth"]);
        first.events[0] = apart.encode_to_vec().into();
        store.commit(first).await.unwrap();
        store
            .append_command(command(session, "first"))
            .await
            .unwrap();
        let checkpoint = |through_seq, fill| {
            let state = vec![fill; 200].into();
            Some(Checkpoint { through_seq, state })
        };
        let second = Commit {
            checkpoint: checkpoint(5, 1),
            ..commit(1, 5, &["the sixth"])
        };
        store.commit(second).await.unwrap();
        let by = Principal::service("test", key.namespace().parse().unwrap());
        let cleared = store.write_memory(&key, MemoryWrite::Clear, &by).await;
        cleared.unwrap();
        let third = Commit {
            checkpoint: checkpoint(7, 2),
            ..commit(2, 7, &["the eighth", "the ninth"])
        };
        store.commit(third).await.unwrap();
    }
}

/// What each way to read a part of session "a" answers.
async fn read(store: &dyn Store, part: &Stored) -> Vec<StoreResult<()>> {
    let key = key("a");
    let whole = async || store.transcript(&key, 0).await.map(drop);
    match part {
        Stored::Event(_) => {
            let copy = CopyEvents {
                source: Source::Session(key.clone()),
                child: crate::support::work::key("child"),
                request: creation("child", None).request,
                at_seq: None,
                completion: None,
            };
            let page = store.read(&key, 0, 100).await.map(drop);
            let copied = store.copy_events(copy.clone()).await.map(drop);
            let mut answers = vec![page, copied, whole().await];
            if matches!(part, Stored::Event(2 | 3)) {
                // The cut falls back to event 1, by what events 2 and 3 say.
                let inside = CopyEvents {
                    child: crate::support::work::key("inside"),
                    at_seq: Some(3),
                    ..copy
                };
                answers.push(store.copy_events(inside).await.map(drop));
            }
            answers
        }
        Stored::Checkpoint(seq) => vec![store.checkpoint(&key, *seq).await.map(drop)],
        Stored::Blob(digest) => {
            let blob = store.get_blob(&key, digest).await.map(drop);
            vec![blob, whole().await]
        }
        Stored::Document(id) => panic!("{id} is no part of a session"),
    }
}

/// splitmix64
pub(crate) fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ (mixed >> 31)) & u64::from(u32::MAX)).unwrap()
}

/// A hundred copies of a session, each with one byte that is not as it was.
pub(crate) async fn every_flipped_byte_is_reported(vault: &impl Vault) {
    let store = vault.store();
    fill(store).await;
    let cells = vault.cells();
    let mut kinds = [const { Vec::new() }; 3];
    for cell in &cells {
        let ends = cell.parts.iter().skip(1).map(|(start, _)| *start);
        let ends = ends.chain([cell.bytes.len()]);
        for ((start, part), end) in cell.parts.iter().zip(ends) {
            let kind = match part {
                Stored::Event(_) => 0,
                Stored::Checkpoint(_) => 1,
                Stored::Blob(_) => 2,
                Stored::Document(id) => panic!("{id} is no part of a session"),
            };
            kinds[kind].push((cell, *start..end, part));
        }
    }
    let mut state = 20_261_125;
    for number in 0..100 {
        let kind = &kinds[number % 3];
        let (cell, range, part) = &kind[number / 3 % kind.len()];
        let place = range.start + random(&mut state) % range.len();
        let mut bytes = cell.bytes.clone();
        bytes[place] ^= u8::try_from(1 + random(&mut state) % 255).unwrap();
        vault.put(cell, Some(&bytes));
        let damaged = Err(StoreError::Damaged((*part).clone()));
        for answer in read(store, part).await {
            assert_eq!(answer, damaged, "byte {place} of {part:?}");
        }
        let other = store.read(&key("b"), 0, 100).await.unwrap();
        assert_eq!(other.events.len(), 9, "another session is not affected");
        vault.put(cell, Some(&cell.bytes));
    }
    for part in cells.iter().flat_map(|cell| &cell.parts) {
        let answers = read(store, &part.1).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}: {part:?}");
    }
}

/// Whole events, each with its checksum, but not where they were written.
pub(crate) async fn what_is_elsewhere_or_gone_is_reported(vault: &impl Vault) {
    let store = vault.store();
    fill(store).await;
    let cells = vault.cells();
    let cell_of = |part| cells.iter().find(|cell| cell.parts[0].1 == part).unwrap();
    for (one, other) in [
        (Stored::Event(5), Stored::Event(6)),
        (Stored::Checkpoint(5), Stored::Checkpoint(7)),
    ] {
        let (here, there) = (cell_of(one.clone()), cell_of(other));
        vault.put(here, Some(&there.bytes));
        vault.put(there, Some(&here.bytes));
        for answer in read(store, &one).await {
            assert_eq!(answer, Err(StoreError::Damaged(one.clone())));
        }
        vault.put(here, Some(&here.bytes));
        vault.put(there, Some(&there.bytes));
    }
    for cell in cells.iter().filter(|it| it.parts.len() == 1) {
        let part = &cell.parts[0].1;
        // A checkpoint that is gone was never promised.
        if matches!(part, Stored::Checkpoint(_)) {
            continue;
        }
        vault.put(cell, None);
        let answers = read(store, part).await;
        let damaged = |answer: &StoreResult<()>| match answer {
            Err(StoreError::NotFound) => matches!(part, Stored::Blob(_)),
            answer => *answer == Err(StoreError::Damaged(part.clone())),
        };
        assert!(answers.iter().all(damaged), "{answers:?} without {part:?}");
        vault.put(cell, Some(&cell.bytes));
    }
    // An owner that has not seen these yet.
    for id in ["one", "another"] {
        store.append_command(command("a", id)).await.unwrap();
    }
    let cells = vault.cells();
    for part in [Stored::Event(10), Stored::Event(11)] {
        let cell = cells.iter().find(|cell| cell.parts[0].1 == part).unwrap();
        vault.put(cell, None);
        let next = Commit {
            seen_seq: 9,
            ..transition("a", "one", 3)
        };
        let refused = store.commit(next).await;
        assert_eq!(refused, Err(StoreError::Damaged(part)));
        vault.put(cell, Some(&cell.bytes));
    }
}

/// A store in a file, asked directly or over a link, and another connection to the file.
struct File {
    store: Arc<dyn Store>,
    file: Connection,
    _kept: (tempfile::TempDir, Option<Server>),
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        let file = Connection::open(&path).unwrap();
        file.execute_batch("PRAGMA synchronous = OFF").unwrap();
        file.busy_timeout(Duration::from_secs(10)).unwrap();
        Self {
            store: Arc::new(store),
            file,
            _kept: (folder, None),
        }
    }

    async fn behind_a_link() -> Self {
        let file = Self::new();
        let memory = Memory::over(file.store);
        let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
        let server = builder.build().await.unwrap();
        let remote = RemoteStore::new(server.link(), memory.store().clone());
        Self {
            store: Arc::new(remote),
            _kept: (file._kept.0, Some(server)),
            ..file
        }
    }

    fn rows(&self, sql: &str) -> Vec<(i64, Vec<u8>, String)> {
        let mut select = self.file.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        select
            .query_map([], row)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }
}

/// Where the events of a row of the journal begin.
fn parts(first_seq: u64, row: &[u8]) -> Vec<(usize, Stored)> {
    let (mut parts, mut place) = (Vec::new(), 1);
    while place < row.len() {
        let length = u32::from_le_bytes(row[place..place + 4].try_into().unwrap());
        let seq = first_seq + parts.len() as u64;
        parts.push((place, Stored::Event(seq)));
        place += 8 + length as usize;
    }
    parts[0].0 = 0;
    parts
}

const SESSION: &str = "(SELECT sid FROM session WHERE id = 'a')";

impl Vault for File {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn cells(&self) -> Vec<Cell> {
        let at = format!("pos >> 32 = {SESSION} ORDER BY pos");
        let seq = |pos: i64| u64::try_from(pos & i64::from(u32::MAX)).unwrap();
        let cell = |table: &str, row: i64, bytes, parts| Cell {
            table: table.to_owned(),
            row: row.to_string(),
            bytes,
            parts,
        };
        let mut cells = Vec::new();
        for (pos, bytes, _) in self.rows(&format!("SELECT pos, events, '' FROM journal WHERE {at}"))
        {
            let parts = parts(seq(pos), &bytes);
            cells.push(cell("journal", pos, bytes, parts));
        }
        for (pos, mut bytes, sum) in self.rows(&format!(
            "SELECT pos, state, sum || '' FROM checkpoint WHERE {at}"
        )) {
            bytes.extend(sum.parse::<u32>().unwrap().to_le_bytes());
            let parts = vec![(0, Stored::Checkpoint(seq(pos)))];
            cells.push(cell("checkpoint", pos, bytes, parts));
        }
        let blobs = format!("SELECT num, data, digest FROM blob WHERE sid = {SESSION}");
        for (num, bytes, digest) in self.rows(&blobs) {
            cells.push(cell("blob", num, bytes, vec![(0, Stored::Blob(digest))]));
        }
        cells
    }

    fn put(&self, cell: &Cell, bytes: Option<&[u8]>) {
        let row: i64 = cell.row.parse().unwrap();
        let key = if cell.table == "blob" { "num" } else { "pos" };
        let Some(bytes) = bytes else {
            // A blob keeps its digest in its row: under another one it is not found.
            let sql = match &*cell.table {
                "blob" => "UPDATE blob SET digest = 'gone' WHERE num = ?1".to_owned(),
                table => format!("DELETE FROM {table} WHERE {key} = ?1"),
            };
            self.file.execute(&sql, [row]).unwrap();
            return;
        };
        let changed = match &*cell.table {
            "journal" => {
                let sql = "INSERT OR REPLACE INTO journal (pos, events) VALUES (?1, ?2)";
                self.file.execute(sql, params![row, bytes])
            }
            "checkpoint" => {
                let (state, sum) = bytes.split_last_chunk().unwrap();
                let sql = "UPDATE checkpoint SET state = ?2, sum = ?3 WHERE pos = ?1";
                let sum = u32::from_le_bytes(*sum);
                self.file.execute(sql, params![row, state, sum])
            }
            _ => {
                let Stored::Blob(digest) = &cell.parts[0].1 else {
                    panic!("a blob has a digest");
                };
                let sql = "UPDATE blob SET data = ?2, digest = ?3 WHERE num = ?1";
                self.file.execute(sql, params![row, bytes, digest])
            }
        };
        assert_eq!(changed.unwrap(), 1);
    }
}

#[tokio::test]
async fn every_flipped_byte_of_a_file_is_reported() {
    every_flipped_byte_is_reported(&File::new()).await;
}

#[tokio::test]
async fn every_flipped_byte_of_a_file_is_reported_over_a_link() {
    every_flipped_byte_is_reported(&File::behind_a_link().await).await;
}

#[tokio::test]
async fn what_a_file_has_elsewhere_or_not_any_more_is_reported() {
    what_is_elsewhere_or_gone_is_reported(&File::new()).await;
}
