//! A server that has to be held against what is known while keys are being moved from it.

use super::*;

/// Sessions on all servers, many of them beside `a`.
const OTHERS: [&str; 12] = [
    "o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9", "o10", "o11",
];

/// Asks until the answer is that the session is there.
async fn is_served(store: &RedisStore, session: &str) {
    let start = Instant::now();
    while let Err(error) = store.read(&key(session), 0, 10).await {
        assert!(start.elapsed() < Duration::from_secs(30), "{error}");
        tokio::task::yield_now().await;
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
        tokio::task::yield_now().await;
    }
    assert_eq!(*losses.borrow(), 1);
    for session in OTHERS {
        is_served(&store, session).await;
    }
}
