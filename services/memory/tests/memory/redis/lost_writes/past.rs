//! Losses that others have written past, so that sessions are no shorter than they were.

use super::documents::{begin, lose};
use super::*;
use cairn_rpc::ManualClock;
use std::sync::Arc;

pub(super) async fn open_timed(config: &RedisConfig, clock: &Arc<ManualClock>) -> RedisStore {
    let options = RedisOptions {
        clock: Some(clock.clone()),
        ..RedisOptions::default()
    };
    RedisStore::open(config, options).await.unwrap()
}

/// What another client sends than the one of [`command`].
fn other_command(session: &str) -> AppendCommand {
    AppendCommand {
        request: RequestId {
            id: "other".to_owned(),
            digest: Bytes::from("other"),
        },
        event: Bytes::from("other command"),
        ..command(session)
    }
}

/// A transition of whoever claimed the session after `one`, with another event.
pub(super) fn transition_of_next(session: &str, version: u64) -> Commit {
    Commit {
        epoch: 2,
        events: vec![Bytes::from("written by the next")],
        ..transition(session, "two", version)
    }
}

/// The key of a session's journal.
pub(super) fn journal(server: &RedisServer, session: &str) -> String {
    let keys = server.ask(&["KEYS", &format!("cairn:*:s:space/{session}:j")]);
    keys.lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn what_was_lost_is_told_although_others_have_written_past_it() {
    is_told_although_written_past(TestStore::sentinel()).await;
}

#[tokio::test]
async fn what_a_cluster_lost_is_told_although_others_have_written_past_it() {
    is_told_although_written_past(TestStore::cluster_with_replicas()).await;
}

async fn create_all(store: &RedisStore) {
    for session in ["commanded", "owned", "remembered", "repeated", "untouched"] {
        store.create(creation(session, Some("one"))).await.unwrap();
        let first = store.commit(transition(session, "one", 0)).await;
        assert_eq!(first.unwrap().first_seq, 2);
    }
}

/// Somebody who knew nothing of what was lost continues before those who knew are back: the sessions
/// are as long as they were, and longer. One master of a cluster has them all, and the documents.
async fn is_told_although_written_past(mut servers: TestStore) {
    let config = found(&servers);
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let store = open_timed(&config, &clock).await;
    let elsewhere = open_timed(&config, &clock).await;
    create_all(&store).await;
    let documents = begin(&store, "owned").await;
    servers.wait_until_replicated();
    servers.cut_off_replica("space/owned");
    let documents = lose(&store, documents).await;
    store.commit(transition("owned", "one", 1)).await.unwrap();
    for session in ["commanded", "repeated"] {
        assert_eq!(store.append_command(command(session)).await.unwrap().seq, 3);
    }
    let remembered = key("remembered");
    assert_eq!(remember(&store, &remembered, "lost").await, Ok(3));
    for _ in 0..3 {
        let list = store.list_memory(&remembered).await.unwrap();
        assert_eq!(list.entries[0].value, "lost");
    }
    servers.kill_master("space/owned");

    clock.advance(Duration::from_secs(11));
    // Other servers of a cluster answer while that one is gone.
    let (start, mut claimed) = (Instant::now(), 0);
    while claimed < 5 {
        assert!(start.elapsed() < RedisSentinel::PATIENCE, "no failover");
        let claims = answered(|| elsewhere.claim(claim("two"))).await;
        claimed += claims.unwrap().claims.len();
    }
    for version in [1, 2] {
        let next = elsewhere.commit(transition_of_next("owned", version)).await;
        assert_eq!(next.unwrap().first_seq, 2 + version);
    }
    let other = elsewhere.append_command(other_command("commanded")).await;
    assert_eq!(other.unwrap().seq, 3);
    assert_eq!(remember(&elsewhere, &remembered, "new").await, Ok(3));
    documents.write_over(&elsewhere).await;
    // A client that sends its command again mends the loss.
    let again = elsewhere.append_command(command("repeated")).await;
    assert_eq!(again.unwrap().seq, 3);
    assert_eq!(*elsewhere.losses().borrow(), 0);

    // Whether that call or the look at the servers finds it first. What was kept here of session
    // memory is not what the same number stands for now.
    let list = answered(|| store.list_memory(&remembered)).await.unwrap();
    assert_eq!((list.entries[0].value.as_str(), list.last_seq), ("new", 3));
    let owned = key("owned");
    let mut want = vec!["commanded", "owned", "remembered"];
    // The look may also have come before the command was sent again.
    if *store.losses().borrow() > want.len() as u64 {
        want.push("repeated");
    }
    assert_eq!(*store.losses().borrow(), want.len() as u64);
    assert_eq!(quarantine(&store).await, want);
    documents.check_noticed([&store, &elsewhere]).await;
    // Who has gone on from the older state gets no further.
    let next = elsewhere.commit(transition_of_next("owned", 3)).await;
    assert_eq!(next, Err(StoreError::Fenced));
    let goes_on = elsewhere.commit(transition_of_next("untouched", 1)).await;
    assert_eq!(goes_on.unwrap().first_seq, 3);
    let unaware = store.release_quarantine(&owned, false).await;
    assert_eq!(unaware, Err(StoreError::WritesLost));
    store.release_quarantine(&owned, true).await.unwrap();
    let claims = store.claim(claim("three")).await.unwrap().claims;
    assert_eq!(claims[0].key, owned);
}

/// The replica takes writes of others while it lacks some, so that nobody sees it before.
#[tokio::test]
async fn who_followed_what_was_written_past_is_told() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let store = open_timed(&config, &clock).await;
    let elsewhere = open_timed(&config, &clock).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    store.commit(transition("a", "one", 0)).await.unwrap();
    servers.wait_until_replicated();
    servers.cut_off_replica();
    store.commit(transition("a", "one", 1)).await.unwrap();
    let mut followers = [
        caught_up(&store, "a").await,
        caught_up(&elsewhere, "a").await,
    ];

    servers.replica.ask(&["REPLICAOF", "NO", "ONE"]);
    clock.advance(Duration::from_secs(11));
    let there = RedisConfig::standalone(servers.replica.url());
    let other = open_timed(&there, &clock).await;
    assert_eq!(other.claim(claim("two")).await.unwrap().claims.len(), 1);
    for version in [1, 2] {
        other
            .commit(transition_of_next("a", version))
            .await
            .unwrap();
    }
    servers.master.kill();
    for follower in &mut followers {
        let told = tokio::time::timeout(Duration::from_secs(120), follower.next()).await;
        let lost = StoreError::WentBack {
            known: 3,
            stored: 2,
        };
        assert_eq!(told.expect("to be told in time"), Some(Err(lost)));
    }
    assert_eq!(*store.losses().borrow(), 1);
    assert_eq!(*elsewhere.losses().borrow(), 1);
    assert_eq!(quarantine(&store).await, ["a"]);
    // Who begins anew is shown what there is.
    let page = elsewhere.follow(&key("a"), 0).await.unwrap().next().await;
    assert_eq!(page.unwrap().unwrap().len(), 4);
}

/// A transition may have no event of its own: the last is then one that its owner is told of.
#[tokio::test]
async fn transitions_without_events_and_forks_are_held_against_what_is_stored() {
    let mut server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let (store, elsewhere) = (open(&config).await, open(&config).await);
    store.create(creation("a", Some("one"))).await.unwrap();
    let appended = elsewhere.append_command(command("a")).await;
    assert_eq!(appended.unwrap().seq, 2);
    let silent = Commit {
        events: Vec::new(),
        ..transition("a", "one", 0)
    };
    assert_eq!(store.commit(silent).await.unwrap().others.len(), 1);
    let copy = |completion| CopyEvents {
        source: Source::Session(key("a")),
        child: key("fork"),
        request: RequestId {
            id: "fork".to_owned(),
            digest: Bytes::from("digest"),
        },
        at_seq: Some(1),
        completion,
    };
    store.copy_events(copy(None)).await.unwrap();
    let completion = Completion {
        events: vec![Bytes::from("forked")],
        header: Header::default(),
        memory: Vec::new(),
        due_unix_ms: None,
    };
    let forked = store.copy_events(copy(Some(completion))).await.unwrap();
    assert!(forked.is_complete);
    server.start_again();
    answered(|| store.now()).await.unwrap();
    assert_eq!(*store.losses().borrow(), 0);
    for session in ["a", "fork"] {
        assert_eq!(
            server.ask(&["XDEL", &journal(&server, session), "2-0"]),
            ":1\r\n"
        );
    }
    server.start_again();
    answered(|| store.now()).await.unwrap();
    assert_eq!(*store.losses().borrow(), 2);
}
