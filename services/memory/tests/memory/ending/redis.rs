//! Two processes that end sessions of one store. It needs a server of Redis.

use super::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::Principal;
use cairn_testkit::RedisServer;

const SESSIONS: usize = 120;

/// Ends what can be ended, and says how many that were.
async fn sweep_all(world: &World, folder: &Path) -> usize {
    let janitor = world.janitor(folder);
    let mut total = 0;
    loop {
        let swept = janitor.sweep().await.unwrap();
        total += swept.ended;
        if swept.found == 0 {
            return total;
        }
        world.clock.advance(Duration::from_millis(1));
    }
}

/// Two processes end sessions into one folder while clients change some: each session is there
/// with its change, or gone with all of it in the archive.
#[tokio::test(flavor = "multi_thread")]
async fn two_janitors_lose_nothing() {
    let (server, folder) = (RedisServer::start(), folder());
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let open = async || {
        let options = RedisOptions {
            clock: Some(clock.clone()),
            ..RedisOptions::default()
        };
        let config = RedisConfig::standalone(server.url());
        let store: Arc<dyn Store> = Arc::new(RedisStore::open(&config, options).await.unwrap());
        World {
            store,
            clock: clock.clone(),
        }
    };
    let (one, two) = (open().await, open().await);
    for number in 0..SESSIONS {
        one.session(&format!("s{number}"), &["x"]).await;
    }
    one.pass();
    let sweep = async |world: &World| sweep_all(world, folder.path()).await;
    let change = async {
        let mut changed = Vec::new();
        for number in (0..SESSIONS).rev().step_by(2) {
            let set = MemoryWrite::set("k", "1");
            let id = format!("s{number}");
            match two
                .store
                .write_memory(&key(&id), set, &Principal::token())
                .await
            {
                Ok(seq) => changed.push((id, seq)),
                Err(error) => assert_eq!(error, StoreError::Terminal(End::Archived)),
            }
        }
        changed
    };
    let (by_one, by_two, changed) = tokio::join!(sweep(&one), sweep(&two), change);
    // What one left to the other, which came too late for it.
    let by_two = by_two + sweep(&two).await;
    assert!(!changed.is_empty());
    assert_eq!(by_one + by_two + changed.len(), SESSIONS);
    let mut archived = 0;
    for number in 0..SESSIONS {
        let id = format!("s{number}");
        match one.store.read(&key(&id), 0, 10).await {
            Ok(page) => assert!(changed.contains(&(id, page.last_seq))),
            Err(error) => {
                assert_eq!(error, StoreError::Terminal(End::Archived));
                let journal = file(folder.path(), &format!("{id}.jsonl"));
                assert_eq!(journal, "1 created\n2 x\n");
                archived += 1;
            }
        }
    }
    assert_eq!(archived, by_one + by_two);
}
