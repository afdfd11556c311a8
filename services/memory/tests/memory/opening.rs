//! Opening a file: what is refused, and that nothing is changed then.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::sqlite::{OpenError, SqliteOptions, SqliteStore};
use std::path::{Path, PathBuf};

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn in_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    (folder, path)
}

/// Everything in a folder, byte for byte.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
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
    for text in [
        "this is a diary, and no database at all\n".repeat(100),
        "short".to_owned(),
    ] {
        std::fs::write(&path, &text).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        let error = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(content(folder.path()), [(path.clone(), text.into_bytes())]);
    }
}

/// What is left of a process that was killed while it made its store.
#[test]
fn a_store_that_was_not_made_yet_is_missing_to_readers_and_made_by_a_holder() {
    type Begin = fn(&Path);
    let empty: Begin = |path| std::fs::write(path, "").unwrap();
    let with_log: Begin = |path| {
        let conn = rusqlite::Connection::open(path).unwrap();
        let set = conn.query_row("PRAGMA journal_mode = WAL", [], |row| {
            row.get::<_, String>(0)
        });
        assert_eq!(set.unwrap(), "wal");
    };
    let rolled_back: Begin = |path| {
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.execute_batch(
            "CREATE TABLE session (sid INTEGER); DROP TABLE session; BEGIN IMMEDIATE; \
             CREATE TABLE journal (pos INTEGER); PRAGMA application_id = 7; ROLLBACK",
        )
        .unwrap();
    };
    for begin in [empty, with_log, rolled_back] {
        let (_folder, path) = in_folder();
        begin(&path);
        let error = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::Missing { .. }), "{error}");
        drop(open(&path).unwrap());
        SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let (folder, path) = in_folder();
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch("CREATE TABLE diary (entry TEXT)")
        .unwrap();
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
    newer
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 7")
        .unwrap();
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
    assert!(
        matches!(&error, OpenError::ReadOnly { path: named } if *named == path),
        "{error}"
    );
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
    for file in ["cairn.db", "cairn.db-wal", "cairn.db-shm", "cairn.db.lock"] {
        let mode = std::fs::metadata(path.with_file_name(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
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
    assert_eq!(refused, StoreError::limit(Limit::Disk, 60));
    assert!(version > 5);
    // What one session cannot do, a smaller transition of another in the same group still can.
    let large = Commit {
        events: vec![vec![1; 10_000].into()],
        ..transition("a", "one", version)
    };
    let (large, small) = tokio::join!(store.commit(large), store.commit(transition("b", "one", 0)));
    assert_eq!(large, Err(StoreError::limit(Limit::Disk, 60)));
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
