//! Slots that move while servers fail: a server that has to be held against what is known while keys
//! are being moved from it, and one that dies with what it has got.

use super::super::lost_writes::{answered, caught_up, command};
use super::*;
use bytes::Bytes;

/// Sessions on all servers, many of them beside `a`.
const OTHERS: [&str; 12] = [
    "o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9", "o10", "o11",
];

/// Asks until the answer is that the session is there.
async fn is_served(store: &RedisStore, session: &str) {
    let start = Instant::now();
    while let Err(error) = store.read(&key(session), 0, 10).await {
        assert!(start.elapsed() < Duration::from_secs(30), "{error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The server that `a` is moved from has begun anew, so that it has to be looked at as a whole.
async fn begun_anew_amid_a_move(cluster: &mut RedisCluster, store: &RedisStore) -> Move {
    for session in OTHERS.into_iter().chain(["a"]) {
        store.create(creation(session, Some("one"))).await.unwrap();
    }
    let moving = Move::begin(cluster);
    cluster.servers[moving.source].start_again();
    for session in OTHERS {
        is_served(store, session).await;
    }
    let amid = store.read(&key("a"), 0, 10).await;
    assert!(
        matches!(amid, Err(StoreError::Unavailable { .. })),
        "{amid:?}"
    );
    assert_eq!(*store.losses().borrow(), 0);
    moving
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_its_way_keeps_no_other_of_its_server_waiting() {
    let mut cluster = RedisCluster::start();
    let store = open(&cluster).await;
    let moving = begun_anew_amid_a_move(&mut cluster, &store).await;
    moving.end(&cluster);
    is_served(&store, "a").await;
    assert_eq!(*store.losses().borrow(), 0);
}

/// What could not be looked at is looked at later.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_move_given_up_has_lost_is_told_of() {
    let mut cluster = RedisCluster::start();
    let store = open(&cluster).await;
    let moving = begun_anew_amid_a_move(&mut cluster, &store).await;
    moving.give_up(&cluster);
    let (losses, start) = (store.losses(), Instant::now());
    while *losses.borrow() == 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "never told");
        // A server that is asked nothing is not looked at.
        let _ = store.read(&key("a"), 0, 10).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*losses.borrow(), 1);
    for session in OTHERS {
        is_served(&store, session).await;
    }
}

/// Nothing is gone on with in that partition before it was looked at, and so nobody gets past what was
/// lost, although others who know nothing of it have.
#[tokio::test(flavor = "multi_thread")]
async fn who_followed_what_a_move_given_up_has_lost_is_told_although_others_have_written_past_it() {
    let mut cluster = RedisCluster::start();
    let (store, other) = (open(&cluster).await, open(&cluster).await);
    for session in OTHERS.into_iter().chain(["a"]) {
        store.create(creation(session, Some("one"))).await.unwrap();
    }
    store.commit(transition("a", "one", 0)).await.unwrap();
    let mut follower = caught_up(&store, "a").await;
    let moving = Move::begin(&cluster);
    cluster.servers[moving.source].start_again();
    for session in OTHERS {
        is_served(&store, session).await;
    }
    moving.give_up(&cluster);
    // Another session of that name, as long as that one, and longer.
    let anew = answered(|| other.create(creation("a", Some("other")))).await;
    assert!(!anew.unwrap().duplicate);
    for version in 0..3 {
        let next = Commit {
            events: vec![Bytes::from("written by another")],
            ..transition("a", "other", version)
        };
        assert_eq!(other.commit(next).await.unwrap().first_seq, 2 + version);
    }
    let appended = answered(|| store.append_command(command("a"))).await;
    assert_eq!(appended.unwrap().seq, 5);
    let told = tokio::time::timeout(Duration::from_secs(60), follower.next()).await;
    let told = told.expect("to be told in time");
    assert!(
        matches!(told, Some(Err(StoreError::WentBack { .. }))),
        "{told:?}"
    );
}

/// The slot is another master's before that dies, and the replica that takes over has got nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_lacks_of_a_slot_that_has_moved_is_told_to_who_follows() {
    let mut cluster = RedisCluster::with_replicas();
    let (store, elsewhere) = (open(&cluster).await, open(&cluster).await);
    for session in OTHERS.into_iter().chain(["a"]) {
        store.create(creation(session, Some("one"))).await.unwrap();
    }
    let mut followers = [
        caught_up(&store, "a").await,
        caught_up(&elsewhere, "a").await,
    ];
    let (_, target) = source_and_target(&cluster);
    cluster.wait_until_replicated();
    cluster.cut_off_replica(target);
    let moving = Move::begin(&cluster);
    let slot = format!(" {} ", moving.slot);
    moving.end(&cluster);
    let start = Instant::now();
    while !cluster.replicas[target]
        .ask(&["CLUSTER", "NODES"])
        .contains(&slot)
    {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "it does not hear of it"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let moved = answered(|| store.commit(transition("a", "one", 0))).await;
    assert_eq!(moved.unwrap().first_seq, 2);
    for follower in &mut followers {
        assert_eq!(follower.next().await.unwrap().unwrap()[0].seq, 2);
    }
    cluster.servers[target].kill();
    for follower in &mut followers {
        let told = tokio::time::timeout(Duration::from_secs(60), follower.next()).await;
        let gone = StoreError::WentBack {
            known: 2,
            stored: 0,
        };
        assert_eq!(told.expect("to be told in time"), Some(Err(gone)));
    }
    assert_eq!(*store.losses().borrow(), 1);
    assert_eq!(*elsewhere.losses().borrow(), 1);
}
