//! Losses that somebody has accepted: whoever learns of them later lets the sessions go on.

use super::past::{journal, open_timed, transition_of_next};
use super::*;
use cairn_rpc::ManualClock;
use std::sync::Arc;

/// A session that was quarantined continues, with the loss that somebody takes.
async fn accept(store: &RedisStore, session: &str) {
    let key = key(session);
    assert_eq!(store.quarantine(&key, None).await, Ok(true));
    store.release_quarantine(&key, true).await.unwrap();
}

/// Two processes know of what is lost, by what they wrote and by who follows there, and look only
/// after that has been accepted.
#[tokio::test]
async fn a_process_that_looks_late_does_not_set_aside_what_was_accepted() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let store = open_timed(&config, &clock).await;
    let elsewhere = open_timed(&config, &clock).await;
    for session in ["gone-on", "waiting"] {
        store.create(creation(session, Some("one"))).await.unwrap();
        store.commit(transition(session, "one", 0)).await.unwrap();
    }
    servers.wait_until_replicated();
    servers.cut_off_replica();
    let mut followers = Vec::new();
    for session in ["gone-on", "waiting"] {
        store.commit(transition(session, "one", 1)).await.unwrap();
        followers.push(caught_up(&store, session).await);
        followers.push(caught_up(&elsewhere, session).await);
    }

    // The replica takes writes of others while it lacks some.
    servers.replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let there = RedisConfig::standalone(servers.replica.url());
    let other = open_timed(&there, &clock).await;
    accept(&other, "gone-on").await;
    assert_eq!(other.claim(claim("two")).await.unwrap().claims.len(), 1);
    for version in [1, 2] {
        let next = other.commit(transition_of_next("gone-on", version)).await;
        assert_eq!(next.unwrap().first_seq, 2 + version);
    }
    accept(&other, "waiting").await;
    servers.master.kill();

    // Whoever has seen what is no more is told.
    for follower in &mut followers {
        let told = tokio::time::timeout(Duration::from_secs(120), follower.next()).await;
        let lost = StoreError::WentBack {
            known: 3,
            stored: 2,
        };
        assert_eq!(told.expect("to be told in time"), Some(Err(lost)));
    }
    for store in [&store, &elsewhere] {
        answered(|| store.now()).await.unwrap();
        assert_eq!(*store.losses().borrow(), 0);
        assert_eq!(quarantine(store).await, [""; 0]);
    }
    let next = elsewhere.commit(transition_of_next("gone-on", 3)).await;
    assert_eq!(next.unwrap().first_seq, 5);
    let claims = elsewhere.claim(claim("two")).await.unwrap().claims;
    assert_eq!(claims[0].key, key("waiting"));
    // Whoever begins anew is shown what there is, and what comes.
    let mut anew = caught_up(&elsewhere, "gone-on").await;
    let next = store.commit(transition_of_next("gone-on", 4)).await;
    assert_eq!(next.unwrap().first_seq, 6);
    assert_eq!(anew.next().await.unwrap().unwrap()[0].seq, 6);
}

/// However it was learned: by a transition, a command, a change of session memory, or by reading.
#[tokio::test]
async fn what_is_learned_after_a_loss_was_accepted_is_held_against_what_is_stored() {
    let mut server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let (store, elsewhere) = (open(&config).await, open(&config).await);
    let sessions = ["commanded", "owned", "remembered"];
    for session in sessions {
        store.create(creation(session, Some("one"))).await.unwrap();
        accept(&store, session).await;
    }
    assert_eq!(store.claim(claim("two")).await.unwrap().claims.len(), 3);
    let owned = store.commit(transition_of_next("owned", 0)).await;
    assert_eq!(owned.unwrap().first_seq, 2);
    let commanded = store.append_command(command("commanded")).await;
    assert_eq!(commanded.unwrap().seq, 2);
    let remembered = remember(&store, &key("remembered"), "value").await;
    assert_eq!(remembered, Ok(2));
    let _follower = caught_up(&elsewhere, "owned").await;
    for session in sessions {
        let journal = journal(&server, session);
        assert_eq!(server.ask(&["XDEL", &journal, "2-0"]), ":1\r\n");
    }
    server.start_again();
    answered(|| store.now()).await.unwrap();
    answered(|| elsewhere.now()).await.unwrap();
    assert_eq!(*store.losses().borrow(), 3);
    assert_eq!(*elsewhere.losses().borrow(), 1);
    assert_eq!(quarantine(&store).await, sessions);
}
