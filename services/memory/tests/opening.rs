//! Opening a file: who holds it, what a crash leaves, what is refused.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "support/work.rs"]
mod work;

use cairn_memory::port::*;
use cairn_memory::sqlite::{OpenError, SqliteOptions, SqliteStore};
use cairn_rpc::ManualClock;
use futures::StreamExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use work::{claim, creation, key, transition};

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn open_with_local(path: &Path, owner: &str) -> SqliteStore {
    let options = SqliteOptions {
        local_owners: vec![owner.to_owned()],
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options).unwrap()
}

fn in_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    (folder, path)
}

/// Everything in a folder, byte for byte.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file() && !path.to_string_lossy().ends_with(".lock"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn what_was_answered_is_there_when_the_store_is_opened_anew() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    let first = store.commit(transition("a", "one", 0)).await.unwrap();
    drop(store);
    let store = open(&path).unwrap();
    let page = store.read(&key("a"), 0, 10).await.unwrap();
    assert_eq!((page.last_seq, page.version), (2, 1));
    let again = store.commit(transition("a", "one", 0)).await.unwrap();
    assert!(again.duplicate && again.owned());
    assert_eq!(again.first_seq, first.first_seq);
    store.commit(transition("a", "one", 1)).await.unwrap();
}

#[test]
fn a_store_has_one_holder() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    let held = open(&path).unwrap_err();
    assert!(matches!(&held, OpenError::Held { .. }), "{held}");
    assert!(held.to_string().contains("cairn.db"), "{held}");
    drop(store);
    open(&path).unwrap();
}

#[test]
#[cfg(unix)]
fn two_names_of_a_store_have_one_holder() {
    let (folder, path) = in_folder();
    let _store = open(&path).unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(open(&link), Err(OpenError::Held { .. })));
}

#[tokio::test]
async fn opening_ends_the_leases_of_owners_that_died_with_the_holder() {
    let (_folder, path) = in_folder();
    let store = open_with_local(&path, "mine");
    store.create(creation("local", Some("mine"))).await.unwrap();
    store.create(creation("remote", Some("theirs"))).await.unwrap();
    drop(store);

    let store = open_with_local(&path, "mine-2");
    let claims = store.claim(claim("mine-2")).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].key, key("local"));
    assert_eq!(claims[0].lease.epoch, 2);
    assert!(claims[0].previous_holder_dead);
    // The owner in another process goes on as if nothing had happened.
    assert!(store.commit(transition("remote", "theirs", 0)).await.unwrap().owned());
    let late = store.commit(transition("local", "mine", 0)).await;
    assert_eq!(late, Err(StoreError::Fenced));
    drop(store);

    // Nobody died by a claim that came after: the proof is used up.
    let store = open(&path).unwrap();
    let claims = store.claim(claim("three")).await.unwrap().claims;
    assert!(claims[0].previous_holder_dead);
    let release = ReleaseRequest {
        key: key("local"),
        owner: "three".to_owned(),
        epoch: 3,
    };
    store.release(release).await.unwrap();
    let claims = store.claim(claim("four")).await.unwrap().claims;
    assert!(!claims[0].previous_holder_dead);
}

#[tokio::test]
async fn a_due_time_ends_the_wait_of_a_claimer() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    let now = store.now().await.unwrap();
    let park = Commit {
        lease: LeaseChange::Park {
            due_unix_ms: Some(now + 60),
        },
        ..transition("a", "one", 0)
    };
    store.commit(park).await.unwrap();
    let wait = ClaimRequest {
        wait: Duration::from_secs(30),
        ..claim("two")
    };
    let claims = store.claim(wait).await.unwrap();
    assert_eq!(claims.claims.len(), 1);
    assert!((now + 60..now + 5_000).contains(&claims.now_unix_ms));
}

#[tokio::test]
async fn a_wait_for_claims_ends() {
    let store = SqliteStore::in_memory(SqliteOptions::default()).unwrap();
    let wait = ClaimRequest {
        wait: Duration::from_millis(30),
        ..claim("one")
    };
    let claims = store.claim(wait).await.unwrap();
    assert!(claims.claims.is_empty() && claims.woken.is_empty());
}

#[tokio::test]
async fn a_deleted_session_is_remembered_for_thirty_days() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    for id in ["a", "b", "c"] {
        store.create(creation(id, None)).await.unwrap();
    }
    store.delete(&key("a")).await.unwrap();
    clock.advance(DAY * 29);
    store.delete(&key("b")).await.unwrap();
    let gone = store.create(creation("a", None)).await;
    assert_eq!(gone, Err(StoreError::Terminal));
    clock.advance(DAY + Duration::from_millis(1));
    store.delete(&key("c")).await.unwrap();
    assert!(!store.create(creation("a", None)).await.unwrap().duplicate);
    let gone = store.create(creation("b", None)).await;
    assert_eq!(gone, Err(StoreError::Terminal));
}

#[tokio::test]
async fn the_stores_time_never_runs_backwards() {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    let before = store.now().await.unwrap();
    clock.set_unix_ms(5);
    assert_eq!(store.now().await, Ok(before));
    let created = store.create(creation("a", Some("one"))).await.unwrap();
    assert_eq!(created.now_unix_ms, before);
}

#[test]
fn a_folder_is_not_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotAFile { .. }), "{error}");
    let error = SqliteStore::open_readonly(folder.path(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::NotAFile { .. }), "{error}");
    assert!(content(folder.path()).is_empty());
}

#[test]
fn a_file_that_is_something_else_is_refused_and_left_alone() {
    let (folder, path) = in_folder();
    for text in ["this is a diary, and no database at all\n".repeat(100), "short".to_owned()] {
        std::fs::write(&path, &text).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        let error = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(content(folder.path()), [(path.clone(), text.into_bytes())]);
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let (folder, path) = in_folder();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE diary (entry TEXT)").unwrap();
    other.close().unwrap();
    let before = content(folder.path());
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(content(folder.path()), before);
}

#[test]
fn a_store_of_a_newer_format_is_refused_and_left_alone() {
    let (folder, path) = in_folder();
    drop(open(&path).unwrap());
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 7").unwrap();
    newer.close().unwrap();
    let before = content(folder.path());
    let error = open(&path).unwrap_err();
    let OpenError::Newer { found, known, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((found, known), (7, 1));
    let error = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { .. }), "{error}");
    assert_eq!(content(folder.path()), before);
}

#[test]
fn a_read_only_file_or_folder_is_refused() {
    let (folder, path) = in_folder();
    drop(open(&path).unwrap());
    let change = |path: &Path, readonly| {
        let mut permissions = std::fs::metadata(path).unwrap().permissions();
        permissions.set_readonly(readonly);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    change(&path, true);
    let error = open(&path).unwrap_err();
    assert!(matches!(&error, OpenError::ReadOnly { path: named } if *named == path), "{error}");
    change(&path, false);
    change(folder.path(), true);
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    change(folder.path(), false);
    open(&path).unwrap();
}

#[test]
fn a_path_that_cannot_be_is_a_clear_error() {
    let (folder, path) = in_folder();
    std::fs::write(&path, "a file, not a folder").unwrap();
    let error = open(&path.join("cairn.db")).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    let missing = folder.path().join("missing.db");
    let error = SqliteStore::open_readonly(&missing, SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!missing.exists());
}

#[test]
#[cfg(unix)]
fn a_store_is_made_with_its_folder_and_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/.cairn/cairn.db");
    let _store = open(&path).unwrap();
    for file in ["cairn.db", "cairn.db-wal", "cairn.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_reader_sees_what_the_holder_writes_and_changes_nothing() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    assert_eq!(reader.read(&key("a"), 0, 10).await.unwrap().last_seq, 1);
    store.commit(transition("a", "one", 0)).await.unwrap();
    assert_eq!(reader.read(&key("a"), 0, 10).await.unwrap().last_seq, 2);
    let refused = reader.commit(transition("a", "one", 1)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    let refused = reader.delete(&key("a")).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    let refused = reader.claim(claim("two")).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");

    // Following tells what there is and then that it cannot tell more.
    let followed: Vec<_> = reader.follow(&key("a"), 0).await.unwrap().collect().await;
    let [Ok(events), Ok(caught_up), Err(StoreError::Unavailable { .. })] = &followed[..] else {
        panic!("{followed:?}");
    };
    assert_eq!((events.len(), caught_up.len()), (2, 0));
    store.commit(transition("a", "one", 1)).await.unwrap();
}

#[tokio::test]
async fn a_store_that_nobody_holds_can_be_read() {
    let (folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", None)).await.unwrap();
    drop(store);
    let before = content(folder.path());
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    assert_eq!(reader.read(&key("a"), 0, 10).await.unwrap().last_seq, 1);
    // Readers are in nobody's way.
    let store = open(&path).unwrap();
    store.create(creation("b", None)).await.unwrap();
    assert_eq!(reader.list("space", None, 10).await.unwrap().sessions.len(), 2);
    drop((store, reader));
    assert_eq!(before[0].0, content(folder.path())[0].0);
}

#[tokio::test]
async fn closing_ends_followers_and_pending_waits() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", None)).await.unwrap();
    let mut follower = store.follow(&key("a"), 1).await.unwrap();
    assert_eq!(follower.next().await, Some(Ok(Vec::new())));
    drop(store);
    let last = follower.next().await;
    assert!(matches!(last, Some(Err(StoreError::Unavailable { .. }))), "{last:?}");
    assert_eq!(follower.next().await, None);
    open(&path).unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_and_harms_nothing() {
    let (_folder, path) = in_folder();
    let full = SqliteOptions {
        max_pages: Some(60),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(&path, full).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    store.create(creation("b", Some("one"))).await.unwrap();
    let mut version = 0;
    let refused = loop {
        let large = Commit {
            events: vec![vec![1; 10_000].into()],
            ..transition("a", "one", version)
        };
        match store.commit(large).await {
            Ok(_) => version += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, StoreError::limit(Limit::Disk, 0));
    assert!(version > 5);
    // What one session cannot do, a smaller transition of another in the same group still can.
    let large = Commit {
        events: vec![vec![1; 10_000].into()],
        ..transition("a", "one", version)
    };
    let (large, small) = tokio::join!(store.commit(large), store.commit(transition("b", "one", 0)));
    assert_eq!(large, Err(StoreError::limit(Limit::Disk, 0)));
    small.unwrap();
    let page = store.read(&key("a"), 0, 100).await.unwrap();
    assert_eq!((page.last_seq, page.version), (1 + version, version));
    // Deleting makes room.
    store.delete(&key("a")).await.unwrap();
    store.create(creation("c", Some("one"))).await.unwrap();
    let large = Commit {
        events: vec![vec![1; 10_000].into()],
        ..transition("c", "one", 0)
    };
    store.commit(large).await.unwrap();
    drop(store);
    open(&path).unwrap();
}
