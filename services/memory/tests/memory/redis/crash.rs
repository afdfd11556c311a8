//! A server that is killed under load: nothing that was answered is lost, nothing happens twice.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SESSIONS: u64 = 16;
const KILLS: u64 = 12;
/// So many until a reply is lost with one of them: on a quiet machine most come too late for that.
const MOST_KILLS: u64 = 200;

/// What a session's owner was answered.
struct Answered {
    session: String,
    commits: u64,
}

/// What all owners were answered.
#[derive(Default)]
struct Total {
    commits: AtomicU64,
    /// Transitions whose first answer was lost.
    duplicates: AtomicU64,
}

/// Commits until it is told to stop, and asks again whatever got no answer.
async fn work(
    store: Arc<RedisStore>,
    session: String,
    stop: Arc<AtomicBool>,
    total: Arc<Total>,
) -> Answered {
    let mut answered = Answered {
        session,
        commits: 0,
    };
    while !stop.load(Ordering::Relaxed) {
        let commit = transition(&answered.session, "one", answered.commits);
        match store.commit(commit).await {
            Ok(committed) => {
                assert_eq!(committed.first_seq, 2 + answered.commits);
                answered.commits += 1;
                let duplicates = u64::from(committed.duplicate);
                total.duplicates.fetch_add(duplicates, Ordering::Relaxed);
                total.commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    answered
}

/// The whole journal, once the server that was started last is found.
async fn read(store: &RedisStore, key: &SessionKey) -> EventPage {
    loop {
        match store.read(key, 0, usize::MAX).await {
            Err(StoreError::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await
            }
            page => return page.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_and_doubles_nothing() {
    let mut server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap();
    let store = Arc::new(store);
    let (stop, total) = (Arc::new(AtomicBool::new(false)), Arc::new(Total::default()));
    let commits = || total.commits.load(Ordering::Relaxed);
    let duplicates = || total.duplicates.load(Ordering::Relaxed);
    let mut owners = Vec::new();
    for number in 0..SESSIONS {
        let session = format!("s{number}");
        store.create(creation(&session, Some("one"))).await.unwrap();
        let work = work(store.clone(), session, stop.clone(), total.clone());
        owners.push(tokio::spawn(work));
    }
    for kill in 0..MOST_KILLS {
        if kill >= KILLS && duplicates() > 0 {
            break;
        }
        // Kills while much is on its way, at another moment each time.
        let before = commits();
        while commits() < before + 200 {
            tokio::task::yield_now().await;
        }
        server.kill();
        server.start_again();
    }
    stop.store(true, Ordering::Relaxed);
    for owner in owners {
        let answered = owner.await.unwrap();
        let key = key(&answered.session);
        let page = read(&store, &key).await;
        // The last transition may have happened without an answer.
        let more = page.version - answered.commits;
        assert!(
            more <= 1,
            "{} has {more} more than was answered",
            answered.session
        );
        assert_eq!(page.last_seq, 1 + page.version);
        let seqs: Vec<_> = page.events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    }
    assert!(
        duplicates() > 0,
        "no reply was lost: the kills came too late"
    );
}
