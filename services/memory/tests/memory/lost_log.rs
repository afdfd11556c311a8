//! Stores in a file whose write-ahead log is lost or damaged: they are refused, and nothing else is.

use crate::damage::random;
use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::sqlite::{OpenError, SqliteOptions, SqliteStore};
use std::fs;
use std::path::{Path, PathBuf};

/// Transitions of the session in the store.
const TRANSITIONS: u64 = 16;

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn read_only(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open_readonly(path, SqliteOptions::default())
}

fn accept(path: &Path) -> SqliteStore {
    let options = SqliteOptions {
        accept_loss: true,
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options).unwrap()
}

fn log_of(path: &Path) -> PathBuf {
    path.with_file_name("cairn.db-wal")
}

/// The files of a store, and of its log.
#[derive(Clone)]
struct Files {
    store: Vec<u8>,
    log: Vec<u8>,
}

impl Files {
    fn read(path: &Path) -> Self {
        Self {
            store: fs::read(path).unwrap(),
            log: fs::read(log_of(path)).unwrap_or_default(),
        }
    }

    /// A store that begins with these; without a log if that is empty.
    fn put(&self) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.db");
        fs::write(&path, &self.store).unwrap();
        if !self.log.is_empty() {
            fs::write(log_of(&path), &self.log).unwrap();
        }
        (folder, path)
    }
}

/// What a kill leaves, and what the store has once it was closed.
async fn killed_and_closed() -> [Files; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = open(&path).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    for version in 0..TRANSITIONS {
        store.commit(transition("a", "one", version)).await.unwrap();
    }
    let killed = Files::read(&path);
    drop(store);
    [killed, Files::read(&path)]
}

/// The transitions that are there; no session has none.
async fn transitions(store: &SqliteStore) -> Option<u64> {
    match store.read(&key("a"), 0, 100).await {
        Ok(page) => Some(page.version),
        Err(StoreError::NotFound) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_store_that_lost_its_log_is_refused_until_the_loss_is_accepted() {
    let [killed, _] = killed_and_closed().await;
    let no_header = vec![0; killed.log.len()];
    for log in [&[][..], &killed.log[..20], &no_header] {
        let (_folder, path) = Files {
            log: log.to_vec(),
            ..killed.clone()
        }
        .put();
        for refused in [open(&path), read_only(&path), open(&path)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, OpenError::LogMissing { .. }), "{error}");
            let text = error.to_string();
            for part in ["cairn.db\" was not closed", "cairn.db-wal", "--accept-loss"] {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(fs::read(&path).unwrap(), killed.store);
        }
        assert_eq!(transitions(&accept(&path)).await, None, "it had been lost");
        open(&path).unwrap();
        read_only(&path).unwrap();
    }
}

#[tokio::test]
async fn a_log_without_its_store_is_refused_and_left_alone() {
    let [killed, _] = killed_and_closed().await;
    for is_empty in [true, false] {
        let (_folder, path) = killed.put();
        match is_empty {
            true => fs::write(&path, "").unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        for refused in [open(&path), read_only(&path)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, OpenError::FileMissing { .. }), "{error}");
            assert_eq!(path.exists(), is_empty);
            assert_eq!(fs::read(log_of(&path)).unwrap(), killed.log);
        }
        // The file comes back.
        fs::write(&path, &killed.store).unwrap();
        assert_eq!(transitions(&open(&path).unwrap()).await, Some(TRANSITIONS));
    }
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_a_killed_one_is_two() {
    for files in killed_and_closed().await {
        let (_folder, path) = files.put();
        let store = read_only(&path).unwrap();
        assert_eq!(transitions(&store).await, Some(TRANSITIONS));
        // A reader leaves the log to the next holder.
        drop(store);
        assert_eq!(Files::read(&path).log, files.log);
        assert_eq!(transitions(&open(&path).unwrap()).await, Some(TRANSITIONS));
        assert!(!log_of(&path).exists(), "closed with its log");
    }
}

#[tokio::test]
async fn a_kill_before_the_first_write_and_after_a_full_disk_leaves_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    drop(open(&path).unwrap());
    let options = SqliteOptions {
        max_pages: Some(60),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(&path, options).unwrap();
    let opened = Files::read(&path);
    store.create(creation("a", Some("one"))).await.unwrap();
    let mut version = 0;
    let full = loop {
        let large = Commit {
            events: vec![vec![1; 10_000].into()],
            ..transition("a", "one", version)
        };
        match store.commit(large).await {
            Ok(_) => version += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, StoreError::limit(Limit::Disk, 60));
    for (files, left) in [(opened, None), (Files::read(&path), Some(version))] {
        let (_folder, path) = files.put();
        assert_eq!(transitions(&read_only(&path).unwrap()).await, left);
        assert_eq!(transitions(&open(&path).unwrap()).await, left);
    }
}

/// What is cut off may be a commit that was not acknowledged.
#[tokio::test]
async fn a_log_that_ends_anywhere_is_taken_up() {
    let [killed, _] = killed_and_closed().await;
    let mut most = None;
    for length in (32..killed.log.len()).step_by(1009) {
        let mut cut = killed.clone();
        cut.log.truncate(length);
        let (_folder, path) = cut.put();
        let now = transitions(&read_only(&path).unwrap()).await;
        assert!(now >= most, "{now:?} after {most:?} transitions");
        most = now;
    }
    assert_eq!(most, Some(TRANSITIONS - 1));
}

/// With the file of its lock a store knows how far its log was written.
#[tokio::test]
async fn a_log_that_is_cut_off_is_refused_where_it_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = open(&path).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    for version in 0..TRANSITIONS {
        store.commit(transition("a", "one", version)).await.unwrap();
    }
    let lock_of = |path: &Path| path.with_file_name("cairn.db.lock");
    let (killed, lock) = (Files::read(&path), fs::read(lock_of(&path)).unwrap());
    drop(store);
    let (mut refused, mut whole) = (0, 0);
    // Each end of a frame, and places between.
    let frame = 24 + 4096;
    let ends = (0..).map(|number| 32 + number * frame);
    let ends = ends.take_while(|end| *end <= killed.log.len());
    for length in ends.flat_map(|end| [end, end + 100]) {
        let mut cut = killed.clone();
        cut.log.truncate(length);
        let (_folder, path) = cut.put();
        fs::write(lock_of(&path), &lock).unwrap();
        match read_only(&path) {
            Ok(store) => {
                assert_eq!(transitions(&store).await, Some(TRANSITIONS), "{length}");
                whole += 1;
            }
            Err(error) => {
                assert!(matches!(error, OpenError::LogDamaged { .. }), "{error}");
                let error = open(&path).unwrap_err();
                assert!(matches!(error, OpenError::LogDamaged { .. }), "{error}");
                assert_eq!(Files::read(&path).log, cut.log, "it was changed");
                let left = transitions(&accept(&path)).await;
                assert!(left < Some(TRANSITIONS), "{length}: {left:?}");
                assert_eq!(transitions(&open(&path).unwrap()).await, left);
                refused += 1;
            }
        }
    }
    assert!(
        refused > 20 && whole > 0,
        "{refused} refused, {whole} whole"
    );
}

#[tokio::test]
async fn every_flipped_byte_of_a_log_is_reported_but_in_its_last_commit() {
    let [killed, _] = killed_and_closed().await;
    let (mut state, mut refused) = (20_261_126, 0);
    for number in 0..100 {
        let place = match number {
            // The header and the one of the first frame.
            0..20 => random(&mut state) % 56,
            _ => random(&mut state) % killed.log.len(),
        };
        let mut flipped = killed.clone();
        flipped.log[place] ^= u8::try_from(1 + random(&mut state) % 255).unwrap();
        let (_folder, path) = flipped.put();
        match read_only(&path) {
            Ok(store) => {
                let left = transitions(&store).await;
                assert!(left >= Some(TRANSITIONS - 1), "byte {place}: {left:?} left");
            }
            Err(OpenError::LogMissing { .. }) => assert!(place < 32, "byte {place}"),
            Err(OpenError::LogDamaged { at, .. }) => {
                refused += 1;
                assert!(usize::try_from(at).unwrap() <= place);
                let error = open(&path).unwrap_err();
                assert!(matches!(error, OpenError::LogDamaged { .. }), "{error}");
                assert_eq!(Files::read(&path).log, flipped.log, "it was changed");
            }
            Err(error) => panic!("byte {place}: {error}"),
        }
    }
    assert!(refused > 50, "{refused} were refused");
}

#[tokio::test]
async fn a_damaged_log_is_taken_up_as_far_as_it_goes_once_the_loss_is_accepted() {
    let [mut killed, _] = killed_and_closed().await;
    let middle = killed.log.len() / 2;
    killed.log[middle] ^= 1;
    let (_folder, path) = killed.put();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::LogDamaged { .. }), "{error}");
    let left = transitions(&accept(&path)).await;
    assert!((Some(1)..Some(TRANSITIONS)).contains(&left), "{left:?}");
    assert_eq!(transitions(&open(&path).unwrap()).await, left);
}

#[test]
fn a_store_is_found_with_its_log_by_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (
        folder.path().join("cairn.db"),
        folder.path().join("link.db"),
    );
    let _store = open(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    read_only(&link).unwrap();
}
