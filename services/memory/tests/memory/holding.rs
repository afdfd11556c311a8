//! Holding a file: one holder, what outlives it, and readers beside it.

use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::sqlite::{OpenError, SqliteOptions, SqliteStore};
use cairn_rpc::ManualClock;
use futures::StreamExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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

/// Where the clock of a test begins, in milliseconds since 1970.
const START: u64 = 1_800_000_000_000;

/// A store in memory with a clock that the test sets.
fn on_clock() -> (Arc<ManualClock>, SqliteStore) {
    let clock = Arc::new(ManualClock::at(START));
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    (clock, SqliteStore::in_memory(options).unwrap())
}

/// Session `a` with a lease of the owner `one`: when it began, and how long it lasts in milliseconds.
async fn leased(store: &SqliteStore) -> (i64, u64) {
    let create = creation("a", Some("one"));
    let lease = u64::from(create.lease.as_ref().unwrap().lease_ms);
    (store.create(create).await.unwrap().now_unix_ms, lease)
}

fn in_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    (folder, path)
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

#[tokio::test]
async fn a_closed_store_gives_up_its_file_whole_while_others_still_hold_the_value() {
    let (_folder, path) = in_folder();
    let store = Arc::new(open(&path).unwrap());
    store.create(creation("a", Some("one"))).await.unwrap();
    let mut followed = store.follow(&key("a"), 0).await.unwrap();
    followed.next().await.unwrap().unwrap();
    let committing = store.clone();
    let committed = async move { committing.commit(transition("a", "one", 0)).await };
    let (committed, ()) = tokio::join!(committed, store.close());
    committed.unwrap();
    store.close().await;

    let alone = std::fs::read(&path).unwrap();
    assert!(
        !path.with_extension("db-wal").exists(),
        "the log was not taken up"
    );
    let refused = store.commit(transition("a", "one", 1)).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Unavailable { .. }),
        "{refused}"
    );
    let refused = store.read(&key("a"), 0, 10).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Unavailable { .. }),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), alone);

    let copy = path.with_file_name("copy.db");
    std::fs::write(&copy, alone).unwrap();
    let copied = open(&copy).unwrap();
    assert_eq!(copied.read(&key("a"), 0, 10).await.unwrap().last_seq, 2);
    open(&path).unwrap();
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
    store
        .create(creation("remote", Some("theirs")))
        .await
        .unwrap();
    drop(store);

    let store = open_with_local(&path, "mine-2");
    let claims = store.claim(claim("mine-2")).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].key, key("local"));
    assert_eq!(claims[0].lease.epoch, 2);
    assert!(claims[0].previous_holder_dead);
    // The owner in another process continues as if nothing had happened.
    assert!(
        store
            .commit(transition("remote", "theirs", 0))
            .await
            .unwrap()
            .owned()
    );
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
        delay_ms: 0,
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
    let (clock, store) = on_clock();
    for id in ["a", "b", "c"] {
        store.create(creation(id, None)).await.unwrap();
    }
    store.delete(&key("a")).await.unwrap();
    clock.advance(DAY * 29);
    store.delete(&key("b")).await.unwrap();
    let gone = store.create(creation("a", None)).await;
    assert_eq!(gone, Err(StoreError::Terminal(End::Deleted)));
    clock.advance(DAY + Duration::from_millis(1));
    store.delete(&key("c")).await.unwrap();
    assert!(!store.create(creation("a", None)).await.unwrap().duplicate);
    let gone = store.create(creation("b", None)).await;
    assert_eq!(gone, Err(StoreError::Terminal(End::Deleted)));
}

#[tokio::test]
async fn no_operation_follows_a_clock_that_is_set() {
    let (clock, store) = on_clock();
    let before = store.now().await.unwrap();
    clock.set_unix_ms(5);
    assert_eq!(store.now().await, Ok(before));
    let created = store.create(creation("a", Some("one"))).await.unwrap();
    assert_eq!(created.now_unix_ms, before);
}

#[tokio::test]
async fn leases_do_not_follow_a_clock_that_is_set() {
    let (clock, store) = on_clock();
    let (begin, lease) = leased(&store).await;
    let hour = 3_600_000;

    clock.set_unix_ms(START + hour);
    let claimed = store.claim(claim("two")).await.unwrap();
    assert!(claimed.claims.is_empty(), "the lease runs on");
    clock.set_unix_ms(START - hour);
    clock.advance(Duration::from_millis(lease));
    let claimed = store.claim(claim("two")).await.unwrap();
    assert_eq!(claimed.claims.len(), 1, "the lease ends when it should");
    assert_eq!(claimed.now_unix_ms, begin + lease as i64);

    let release = ReleaseRequest {
        key: key("a"),
        owner: "two".to_owned(),
        epoch: claimed.claims[0].lease.epoch,
        delay_ms: 0,
    };
    clock.set_unix_ms(START + hour);
    clock.advance(Duration::from_millis(lease * 2));
    store.release(release).await.unwrap();
    let again = store.claim(claim("two")).await.unwrap();
    assert_eq!(again.claims.len(), 1);
    let now = (START + hour + 2 * lease).cast_signed();
    assert_eq!(store.now().await, Ok(now), "nobody held one");
}

/// An owner in the same process could not renew its lease meanwhile.
#[tokio::test]
async fn a_lease_lasts_longer_by_the_time_for_which_the_machine_slept() {
    let (clock, store) = on_clock();
    let (begin, lease) = leased(&store).await;
    clock.sleep(Duration::from_secs(3600));
    let claimed = store.claim(claim("two")).await.unwrap();
    assert_eq!(claimed.claims, []);
    assert_eq!(claimed.now_unix_ms, begin + 3_600_000, "the time is right");
    for (passes, claims) in [(lease - 1, 0), (1, 1)] {
        clock.advance(Duration::from_millis(passes));
        let claimed = store.claim(claim("two")).await.unwrap();
        assert_eq!(claimed.claims.len(), claims);
    }
}

/// As after a wrong clock was corrected, or while a machine slept.
#[tokio::test]
async fn a_claim_follows_the_time_of_day_while_nobody_holds_a_lease() {
    let (start, hour) = (START, 3_600_000);
    for only in [None, Some(key("a"))] {
        let (clock, store) = on_clock();
        store.create(creation("a", None)).await.unwrap();
        for shown in [start + hour, start + 2 * hour, start + 1000] {
            clock.set_unix_ms(shown);
            let request = ClaimRequest {
                only: only.clone(),
                ..claim("one")
            };
            assert_eq!(store.claim(request).await.unwrap().claims, []);
            assert_eq!(store.now().await, Ok(shown.cast_signed()), "{only:?}");
        }
        // A clock that is slowed down to be right does not make time run backwards.
        clock.set_unix_ms(start + 500);
        assert_eq!(store.claim(claim("one")).await.unwrap().claims, []);
        assert_eq!(store.now().await, Ok(start.cast_signed() + 1000));
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
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = reader.delete(&key("a")).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = reader.claim(claim("two")).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );

    // Following tells what there is and then that it cannot tell more.
    let followed: Vec<_> = reader.follow(&key("a"), 0).await.unwrap().collect().await;
    let [
        Ok(events),
        Ok(caught_up),
        Err(StoreError::Unavailable { .. }),
    ] = &followed[..]
    else {
        panic!("{followed:?}");
    };
    assert_eq!((events.len(), caught_up.len()), (2, 0));
    store.commit(transition("a", "one", 1)).await.unwrap();
}

#[tokio::test]
async fn a_store_that_nobody_holds_can_be_read() {
    let (_folder, path) = in_folder();
    let store = open(&path).unwrap();
    store.create(creation("a", None)).await.unwrap();
    drop(store);
    let reader = SqliteStore::open_readonly(&path, SqliteOptions::default()).unwrap();
    assert_eq!(reader.read(&key("a"), 0, 10).await.unwrap().last_seq, 1);
    // Readers are in nobody's way.
    let store = open(&path).unwrap();
    store.create(creation("b", None)).await.unwrap();
    assert_eq!(
        reader
            .list("space", &ListQuery::newest(10))
            .await
            .unwrap()
            .sessions
            .len(),
        2
    );
    drop((store, reader));
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
    assert!(
        matches!(last, Some(Err(StoreError::Unavailable { .. }))),
        "{last:?}"
    );
    assert_eq!(follower.next().await, None);
    open(&path).unwrap();
}
