//! Groups of operations, of which one goes wrong.

use super::operation::{Operation, Stop, Task, Tx};
use super::{SqliteOptions, SqliteStore};
use crate::port::{
    BlobUse, Collection, Create, DocumentKind, DocumentWrite, Documents as _, Expected, Header,
    LeaseRequest, Level, ListQuery, MemoryEntry, MemoryWrite, RequestId, SessionKey, Store,
    StoreError, StoreResult,
};
use bytes::Bytes;
use cairn_rpc::Principal;
use std::sync::mpsc;

fn creation(id: &str) -> Create {
    Create {
        key: SessionKey::new("space", id),
        request: RequestId {
            id: "request".to_owned(),
            digest: Bytes::from("digest"),
        },
        operation_id: "create".to_owned(),
        events: vec![Bytes::from("created")],
        last_command_seq: 0,
        header: Header::default(),
        lease: None,
        time_to_live_ms: None,
    }
}

/// What goes wrong.
#[derive(Clone, Copy)]
enum Fault {
    /// A statement fails after another one has written.
    Statement,
    /// Everything goes well until the COMMIT.
    Commit,
    /// The operation panics after it has written.
    Panic,
}

/// An operation that SQLite cannot do.
struct Faulty(Fault);

impl Operation for Faulty {
    type Answer = ();

    fn apply(&mut self, tx: &Tx<'_>) -> Result<(), Stop> {
        tx.conn.execute("UPDATE session SET status = 2", [])?;
        match self.0 {
            Fault::Statement => tx.conn.execute("INSERT INTO nowhere VALUES (1)", [])?,
            Fault::Commit => tx.conn.execute("INSERT INTO child VALUES (99)", [])?,
            Fault::Panic => panic!("on purpose"),
        };
        Ok(())
    }
}

/// Makes a constraint that SQLite looks at only when it commits.
struct Constraint;

impl Operation for Constraint {
    type Answer = ();

    fn apply(&mut self, tx: &Tx<'_>) -> Result<(), Stop> {
        tx.conn.execute_batch(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);",
        )?;
        Ok(())
    }
}

/// Holds the writer's thread until the other end of the channel is gone, so that what is sent
/// meanwhile becomes one group.
struct Held(mpsc::Receiver<()>);

impl Operation for Held {
    type Answer = ();

    fn apply(&mut self, _tx: &Tx<'_>) -> Result<(), Stop> {
        let _ = self.0.recv();
        Ok(())
    }
}

fn store() -> SqliteStore {
    SqliteStore::in_memory(SqliteOptions::default()).unwrap()
}

async fn send<O: Operation>(
    store: &SqliteStore,
    operation: O,
) -> tokio::sync::oneshot::Receiver<StoreResult<O::Answer>> {
    let (job, answer) = super::operation::pending(operation);
    let tasks = store.tasks.as_ref().unwrap();
    tasks.send(Task::Write(job)).await.unwrap();
    answer
}

async fn a_fault_hurts_only_itself(fault: Fault) {
    let store = store();
    send(&store, Constraint).await.await.unwrap().unwrap();
    let (release, held) = mpsc::channel();
    let held = send(&store, Held(held)).await;
    let mut good = Vec::new();
    for id in ["a", "b", "c", "d"] {
        good.push(send(&store, super::create::CreateOp::new(creation(id))).await);
    }
    let bad = send(&store, Faulty(fault)).await;
    let late = send(&store, super::create::CreateOp::new(creation("e"))).await;
    let refused = send(
        &store,
        super::create::CreateOp::new(Create {
            request: RequestId {
                id: "another".to_owned(),
                digest: Bytes::new(),
            },
            ..creation("a")
        }),
    )
    .await;
    drop(release);
    held.await.unwrap().unwrap();
    for answer in good.into_iter().chain([late]) {
        assert!(!answer.await.unwrap().unwrap().duplicate);
    }
    let error = bad.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(
        refused.await.unwrap().unwrap_err(),
        StoreError::RequestMismatch
    );
    let page = store.list("space", &ListQuery::newest(10)).await.unwrap();
    assert_eq!(page.sessions.len(), 5);
    let untouched = |entry: &crate::port::SessionEntry| entry.status == Default::default();
    assert!(
        page.sessions.iter().all(untouched),
        "the faulty operation left something"
    );
}

#[tokio::test]
async fn an_operation_that_fails_is_rolled_back_alone() {
    a_fault_hurts_only_itself(Fault::Statement).await;
}

#[tokio::test]
async fn a_commit_that_fails_is_rolled_back_and_its_operations_are_tried_alone() {
    a_fault_hurts_only_itself(Fault::Commit).await;
}

#[tokio::test]
async fn a_panic_is_rolled_back_and_the_thread_goes_on() {
    a_fault_hurts_only_itself(Fault::Panic).await;
}

#[tokio::test]
async fn whoever_panics_alone_is_told_so_each_time() {
    let store = store();
    for id in ["a", "b"] {
        let error = send(&store, Faulty(Fault::Panic)).await.await.unwrap();
        let error = error.unwrap_err();
        let StoreError::Unavailable { reason } = &error else {
            panic!("{error}");
        };
        assert!(reason.contains("on purpose"), "{reason}");
        store.create(creation(id)).await.unwrap();
    }
    let page = store.list("space", &ListQuery::newest(10)).await.unwrap();
    assert_eq!(page.sessions.len(), 2);
}

#[tokio::test]
async fn a_read_that_panics_hurts_nobody_else() {
    let store = store();
    store.create(creation("a")).await.unwrap();
    let read = store
        .readers
        .read(|_| -> Result<(), Stop> { panic!("on purpose") });
    let error = read.await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let key = SessionKey::new("space", "a");
    assert_eq!(store.read(&key, 0, 10).await.unwrap().last_seq, 1);
}

// The hook is there under debug assertions only.
#[cfg(debug_assertions)]
#[tokio::test]
async fn what_waits_is_made_durable_together() {
    let (release, held) = mpsc::channel();
    let commits = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = commits.clone();
    let options = SqliteOptions {
        commit_hook: Some(std::sync::Arc::new(move |number, _| {
            count.store(number, std::sync::atomic::Ordering::SeqCst);
        })),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    let held = send(&store, Held(held)).await;
    let mut answers = Vec::new();
    for number in 0..150 {
        let create = super::create::CreateOp::new(creation(&number.to_string()));
        answers.push(send(&store, create).await);
    }
    drop(release);
    held.await.unwrap().unwrap();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    let commits = commits.load(std::sync::atomic::Ordering::SeqCst);
    assert!(
        (3..=4).contains(&commits),
        "150 creations in {commits} groups of at most 64"
    );
}

#[tokio::test]
async fn a_dropped_caller_does_not_stop_its_operation() {
    let store = store();
    let (release, held) = mpsc::channel();
    let held = send(&store, Held(held)).await;
    drop(send(&store, super::create::CreateOp::new(creation("a"))).await);
    drop(release);
    held.await.unwrap().unwrap();
    let key = SessionKey::new("space", "a");
    assert_eq!(store.read(&key, 0, 10).await.unwrap().last_seq, 1);
}

#[tokio::test]
async fn the_mark_of_a_deleted_session_tells_nothing_of_it() {
    let store = store();
    let mut create = creation("a");
    create.header.title = "a goal that nobody else is to know".to_owned();
    store.create(create).await.unwrap();
    let key = SessionKey::new("space", "a");
    store.delete(&key).await.unwrap();
    let select = |conn: &rusqlite::Connection| -> Result<String, Stop> {
        Ok(conn.query_row("SELECT title FROM session", [], |row| row.get(0))?)
    };
    assert_eq!(store.readers.read(select).await, Ok(String::new()));
}

#[tokio::test]
async fn a_claimer_that_hung_up_gets_nothing() {
    let store = store();
    let (release, held) = mpsc::channel();
    let create = Create {
        last_command_seq: 1,
        ..creation("a")
    };
    store.create(create).await.unwrap();
    let claim = || super::claim::ClaimOp {
        owner: "one".to_owned(),
        max_sessions: 1,
        only: None,
        level: Level::FIRST,
        lease_ms: 10_000,
        woken: Vec::new(),
        quarantine: Vec::new(),
    };
    let held = send(&store, Held(held)).await;
    drop(send(&store, claim()).await);
    let claimed = send(&store, claim()).await;
    drop(release);
    held.await.unwrap().unwrap();
    let claims = claimed.await.unwrap().unwrap().claims.claims;
    assert_eq!((claims.len(), claims[0].lease.epoch), (1, 1));
}

/// It would look again and again.
#[tokio::test]
async fn a_claimer_is_not_woken_for_what_it_cannot_read() {
    let store = store();
    let needs = Level::of_number(2).unwrap();
    for (id, lease) in [("due", None), ("expired", Some("one"))] {
        let create = Create {
            header: Header {
                needs,
                ..Header::default()
            },
            last_command_seq: 1,
            lease: lease.map(|owner: &str| LeaseRequest {
                owner: owner.to_owned(),
                lease_ms: 0,
            }),
            ..creation(id)
        };
        store.create(create).await.unwrap();
    }
    for (level, claimed) in [(Level::FIRST, 0), (needs, 2)] {
        let claim = super::claim::ClaimOp {
            owner: "two".to_owned(),
            max_sessions: 9,
            only: None,
            level,
            lease_ms: 10_000,
            woken: Vec::new(),
            quarantine: Vec::new(),
        };
        let attempt = send(&store, claim).await.await.unwrap().unwrap();
        assert_eq!(attempt.claims.claims.len(), claimed);
        let is_later = |next: i64| next > attempt.claims.now_unix_ms;
        assert!(attempt.next_unix_ms.is_none_or(is_later));
    }
}

/// Opcodes of a statement's program, or its query plan.
fn explained(what: &str, sql: &str) -> Vec<String> {
    let conn = rusqlite::Connection::open_in_memory().unwrap();
    super::schema::create(&conn).unwrap();
    super::idle::prepare(&conn).unwrap();
    super::removal::prepare(&conn).unwrap();
    super::waiting::prepare(&conn).unwrap();
    let mut explain = conn.prepare(&format!("{what} {sql}")).unwrap();
    let parameters = explain.parameter_count();
    let nulls = rusqlite::params_from_iter(vec![rusqlite::types::Null; parameters]);
    let column = if what == "EXPLAIN" { 1 } else { 3 };
    let rows = explain.query_map(nulls, |row| row.get(column)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn the_common_transition_changes_no_index() {
    let program = explained("EXPLAIN", super::commit::UPDATE);
    assert!(program.iter().any(|opcode| opcode == "Insert"));
    assert!(
        !program.iter().any(|opcode| opcode.starts_with("Idx")),
        "{program:?}"
    );
}

#[test]
fn nothing_looks_at_all_sessions() {
    use super::{claim, copy, create, lease, list, row};
    for sql in [
        row::LOAD,
        claim::EXPIRED,
        claim::DUE,
        claim::NEXT_DUE,
        claim::NEXT_END,
        list::NEWEST,
        list::OLDEST,
        list::NEWEST_ASKING,
        list::OLDEST_ASKING,
        list::LAST_CHANGED,
        list::FIRST_CHANGED,
        create::FORGET,
        create::FREE,
        copy::UNFINISHED,
        lease::EXTEND,
    ] {
        let plan = explained("EXPLAIN QUERY PLAN", sql);
        let all = |step: &&String| step.contains("SCAN session") && !step.contains("USING");
        assert_eq!(plan.iter().find(all), None, "{sql}");
        assert!(plan.iter().any(|step| step.contains("session")), "{plan:?}");
    }
}

#[test]
fn nothing_looks_at_all_documents() {
    use super::document;
    for sql in [
        document::FIND_COLLECTION,
        document::FIND_WRITE,
        document::FIND,
        document::GET,
        document::LIST,
        document::TOMBSTONES,
    ] {
        let plan = explained("EXPLAIN QUERY PLAN", sql);
        let [step] = &plan[..] else {
            panic!("something is sorted: {plan:?}");
        };
        assert!(step.starts_with("SEARCH"), "{sql}: {step}");
    }
}

#[test]
fn listings_go_by_an_index_that_has_their_order() {
    use super::list;
    for sql in [
        list::NEWEST,
        list::OLDEST,
        list::NEWEST_ASKING,
        list::OLDEST_ASKING,
        list::LAST_CHANGED,
        list::FIRST_CHANGED,
    ] {
        let plan = explained("EXPLAIN QUERY PLAN", sql);
        assert!(
            plan[0].starts_with("SEARCH session USING INDEX"),
            "{plan:?}"
        );
        assert_eq!(plan.len(), 1, "nothing is sorted: {plan:?}");
    }
}

#[test]
fn a_frozen_file_is_read_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("100% #1 ?.db");
    drop(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let conn = super::readers::Target::Frozen(path).open().unwrap();
    let sessions: i64 = conn
        .query_row("SELECT count(*) FROM session", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sessions, 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before);
}

#[test]
fn a_look_for_idle_sessions_goes_by_their_times() {
    for sql in [super::idle::BY_DEFAULT, super::idle::BY_OWN] {
        let plan = explained("EXPLAIN QUERY PLAN", sql);
        let [rest, session] = &plan[..] else {
            panic!("{plan:?}");
        };
        assert!(
            rest.starts_with("SEARCH r USING INDEX rest_by_"),
            "{plan:?}"
        );
        assert!(
            session.starts_with("SEARCH s USING INTEGER PRIMARY KEY"),
            "{plan:?}"
        );
    }
}

#[test]
fn sessions_that_wait_are_found_by_their_times_alone() {
    let plan = explained("EXPLAIN QUERY PLAN", super::waiting::LONGEST);
    let [waiting, session] = &plan[..] else {
        panic!("something is sorted: {plan:?}");
    };
    assert_eq!(waiting, "SCAN w USING INDEX waiting_since");
    assert!(
        session.starts_with("SEARCH s USING INTEGER PRIMARY KEY"),
        "{plan:?}"
    );
}

#[tokio::test]
async fn a_file_from_before_is_read_and_takes_sessions_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    open().create(creation("a")).await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("DROP TABLE waiting").unwrap();
    drop(file);
    let a = SessionKey::new("space", "a");
    let before = std::fs::read(&path).unwrap();
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    assert_eq!(reader.read(&a, 0, 10).await.unwrap().last_seq, 1);
    assert_eq!(reader.waiting(10).await, Ok(Vec::new()));
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let store = open();
    assert_eq!(store.wake(&a).await, Ok(false));
    let mut create = creation("b");
    create.header.waits_for = vec!["gpu".to_owned()];
    store.create(create).await.unwrap();
    let waiting = store.waiting(10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].waits_for, ["gpu"]);
    assert_eq!(store.wake(&waiting[0].key).await, Ok(true));
}

/// Session memory in a file of a version that knew keys and values alone.
#[tokio::test]
async fn a_file_from_before_keeps_its_session_memory_and_gets_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let a = SessionKey::new("space", "a");
    let by = Principal::token();
    let store = open();
    store.create(creation("a")).await.unwrap();
    for key in ["changed", "kept"] {
        let set = MemoryWrite::set(key, "1");
        store.write_memory(&a, set, &by).await.unwrap();
    }
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    let columns = ["metadata", "created_ms", "updated_ms"];
    let drops = columns.map(|column| format!("ALTER TABLE memory DROP COLUMN {column};"));
    file.execute_batch(&drops.concat()).unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    let old = |key: &str| MemoryEntry {
        key: key.to_owned(),
        value: "1".to_owned(),
        ..MemoryEntry::default()
    };
    let read = reader.get_memory(&a, "kept").await;
    assert_eq!(read, Ok(Some(old("kept"))));
    let list = reader.list_memory(&a).await.unwrap();
    assert_eq!(list.entries, [old("changed"), old("kept")]);
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    for round in ["2", "3"] {
        let store = open();
        let set = MemoryWrite::set("changed", round);
        store.write_memory(&a, set, &by).await.unwrap();
        let changed = store.get_memory(&a, "changed").await.unwrap().unwrap();
        assert_eq!(
            (changed.value.as_str(), changed.created_unix_ms),
            (round, None)
        );
        assert!(changed.updated_unix_ms.is_some());
        let kept = store.get_memory(&a, "kept").await;
        assert_eq!(kept, Ok(Some(old("kept"))));
    }
}

#[tokio::test]
async fn sessions_of_a_file_from_before_may_go_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    open().create(creation("a")).await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("DROP TABLE rest").unwrap();
    drop(file);
    let store = open();
    let made = store.now().await.unwrap();
    while store.now().await.unwrap() <= made + 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.idle(Some(0), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_from_before_takes_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    drop(open());
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("DROP TABLE collection; DROP TABLE document; DROP TABLE document_write;")
        .unwrap();
    drop(file);
    let store = open();
    let collection = Collection::new("space", DocumentKind::Agent);
    let write = DocumentWrite {
        collection: collection.clone(),
        id: "a".to_owned(),
        value: Some(Bytes::from("value")),
        expected: Expected::Absent,
        operation_id: "put".to_owned(),
    };
    assert_eq!(store.write_document(write).await.unwrap().version, 1);
    assert_eq!(store.document_head(&collection).await.unwrap().counter, 1);
}

/// Where there is no room for what every opening writes.
#[tokio::test]
async fn a_store_on_a_full_disk_is_read_and_says_so() {
    use super::holder::Lock;
    use super::open::{FULL, Full, readable};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    store.create(creation("a")).await.unwrap();
    // As a kill leaves it, and as a process leaves it that ends.
    let killed = folder.path().join("killed.db");
    for end in ["", "-wal"] {
        let from = format!("{}{end}", path.display());
        std::fs::copy(from, format!("{}{end}", killed.display())).unwrap();
    }
    drop(store);
    // SQLite begins a log before it finds out.
    std::fs::write(format!("{}-wal", path.display()), "").unwrap();
    for path in [killed, path] {
        let full = Full {
            lock: Lock::take(&path).unwrap(),
            target: readable(&path).unwrap(),
        };
        let store = SqliteStore::full(full, SqliteOptions::default());
        assert_eq!(store.outage(), Some(FULL));
        let a = SessionKey::new("space", "a");
        assert_eq!(store.read(&a, 0, 10).await.unwrap().last_seq, 1);
        let refused = store.create(creation("b")).await;
        assert_eq!(refused, Err(StoreError::unavailable(FULL)));
        let held = SqliteStore::open(&path, SqliteOptions::default());
        assert!(
            matches!(held, Err(super::OpenError::Held { .. })),
            "{held:?}"
        );
        drop(store);
        // With room it is what it was.
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        assert_eq!(store.outage(), None);
        store.create(creation("b")).await.unwrap();
    }
}

/// Rows of a session that could not be removed when it ended, as where the disk was full.
struct Leftover;

impl Operation for Leftover {
    type Answer = ();

    fn apply(&mut self, tx: &Tx<'_>) -> Result<(), Stop> {
        let note = "INSERT INTO removal (sid) SELECT sid FROM session";
        tx.conn.execute(note, [])?;
        Ok(())
    }
}

#[tokio::test]
async fn what_could_not_be_removed_makes_room_when_the_file_is_full() {
    let options = SqliteOptions {
        // 2.4 MiB: there is room for one session, and not for two.
        max_pages: Some(600),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    for id in ["a", "b"] {
        store.create(creation(id)).await.unwrap();
        for number in 0..6 {
            let blob = Bytes::from(vec![number; 256 * 1024]);
            let key = SessionKey::new("space", id);
            store.put_blob(&key, blob, BlobUse::Event).await.unwrap();
        }
        if id == "a" {
            send(&store, Leftover).await.await.unwrap().unwrap();
        }
    }
}

/// A file from before, whose new table has no room.
#[tokio::test]
async fn an_opening_without_room_is_one_for_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    store.create(creation("a")).await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("DROP TABLE removal; VACUUM;").unwrap();
    let pages = conn.query_row("PRAGMA page_count", [], |row| row.get(0));
    let options = SqliteOptions {
        max_pages: Some(pages.unwrap()),
        ..SqliteOptions::default()
    };
    drop(conn);
    let store = SqliteStore::open(&path, options).unwrap();
    assert!(store.outage().is_some());
    let a = SessionKey::new("space", "a");
    assert_eq!(store.read(&a, 0, 10).await.unwrap().last_seq, 1);
    drop(store);
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    assert_eq!(store.outage(), None);
    store.create(creation("b")).await.unwrap();
}
