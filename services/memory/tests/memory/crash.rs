//! Death around a commit: what was answered is there, what was not is whole or absent, and a
//! repeat finds out which.

use crate::support::work::{creation, key, transition};
use cairn_memory::fail_point::{CommitHook, When};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_rpc::Principal;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Tells a child where its store is and when it dies: `<commit> <before|after> <place>`.
const ORDERS: &str = "CAIRN_MEMORY_TEST_CRASH";

#[allow(clippy::print_stdout, reason = "the parent listens")]
fn say_answered() {
    println!("answered");
}

/// Creates a session, makes transitions, appends a command, and puts and deletes a document; says what was
/// answered.
async fn work(store: &dyn Store) {
    store.create(creation("a", Some("one"))).await.unwrap();
    say_answered();
    for version in 0..3 {
        store.commit(transition("a", "one", version)).await.unwrap();
        say_answered();
    }
    store.append_command(command()).await.unwrap();
    say_answered();
    for value in [Some("value"), None] {
        store.write_document(document(value)).await.unwrap();
        say_answered();
    }
}

fn document(value: Option<&str>) -> DocumentWrite {
    crate::documents::write("a", value, value.unwrap_or("delete"))
}

fn command() -> AppendCommand {
    AppendCommand {
        key: key("a"),
        request: RequestId {
            id: "request".to_owned(),
            digest: "digest".into(),
        },
        event: "command".into(),
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
    }
}

/// Not a test of its own: the process that dies.
#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    reason = "the only way to give orders to a test process"
)]
async fn child() {
    let Ok(orders) = std::env::var(ORDERS) else {
        return;
    };
    let mut orders = orders.splitn(3, ' ');
    let number: u64 = orders.next().unwrap().parse().unwrap();
    let when = match orders.next().unwrap() {
        "before" => When::Before,
        _ => When::After,
    };
    let hook: CommitHook = Arc::new(move |n, w| {
        if (n, w) == (number, when) {
            std::process::abort();
        }
    });
    let store = open(orders.next().unwrap(), Some(hook)).await;
    work(&*store).await;
}

/// The store at a place: a file's path, or a server's address and what keys begin with.
async fn open(place: &str, commit_hook: Option<CommitHook>) -> Box<dyn Store> {
    let Some((url, prefix)) = place.split_once(' ') else {
        let options = SqliteOptions {
            commit_hook,
            ..SqliteOptions::default()
        };
        return Box::new(SqliteStore::open(place, options).unwrap());
    };
    let config = RedisConfig {
        prefix: prefix.to_owned(),
        ..RedisConfig::standalone(url)
    };
    let options = RedisOptions {
        commit_hook,
        ..RedisOptions::default()
    };
    Box::new(RedisStore::open(&config, options).await.unwrap())
}

fn die(place: &str, number: u64, when: &str) -> usize {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture"])
        .env(ORDERS, format!("{number} {when} {place}"))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "it was to die at {number} {when}");
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .filter(|line| line.contains("answered"))
        .count()
}

/// Each death has a place of its own.
async fn die_around_any_commit(place: impl Fn(&str) -> String) {
    for number in 1..=7_u64 {
        for when in ["before", "after"] {
            let place = place(&format!("{number}-{when}"));
            let answered = die(&place, number, when) as u64;
            assert_eq!(answered, number - 1);
            let durable = if when == "after" { number } else { number - 1 };

            let store = open(&place, None).await;
            let last = match store.read(&key("a"), 0, 10).await {
                Ok(page) => {
                    let seqs: Vec<_> = page.events.iter().map(|event| event.seq).collect();
                    assert_eq!(seqs, (1..=page.last_seq).collect::<Vec<_>>());
                    page.last_seq
                }
                Err(error) => {
                    assert_eq!(error, StoreError::NotFound);
                    0
                }
            };
            assert_eq!(last, durable.min(5), "{number} {when}");

            // The owner was not in the holder's process: it repeats what was not answered.
            let created = store.create(creation("a", Some("one"))).await.unwrap();
            assert_eq!(created.duplicate, durable >= 1);
            for version in answered.saturating_sub(1)..3 {
                let again = store.commit(transition("a", "one", version)).await.unwrap();
                assert_eq!(again.duplicate, durable >= version + 2, "{number} {when}");
                assert!(again.owned());
            }
            let appended = store.append_command(command()).await.unwrap();
            assert_eq!((appended.duplicate, appended.seq), (durable >= 5, 5));
            for (value, version) in [(Some("value"), 1), (None, 2)] {
                let written = store.write_document(document(value)).await.unwrap();
                let want = (durable >= 5 + version, version);
                assert_eq!((written.duplicate, written.version), want);
            }
            let page = store.read(&key("a"), 0, 10).await.unwrap();
            assert_eq!((page.last_seq, page.version), (5, 3));
        }
    }
}

#[tokio::test]
async fn death_around_any_commit_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    die_around_any_commit(file).await;
}

#[cfg(target_os = "linux")]
mod redis {
    use super::die_around_any_commit;
    use cairn_testkit::RedisServer;

    #[tokio::test]
    async fn death_around_any_commit_loses_and_doubles_nothing_over_redis() {
        let server = RedisServer::start();
        die_around_any_commit(|name| format!("{} {name}", server.url())).await;
    }
}

#[tokio::test]
async fn commits_are_counted_by_what_they_make_durable() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let options = SqliteOptions {
        commit_hook: Some(Arc::new(move |number, when| {
            record.lock().unwrap().push((number, when));
        })),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    store.commit(transition("a", "one", 0)).await.unwrap();
    // None of these is an owner's transition, a creation or a command that happens.
    store.commit(transition("a", "one", 0)).await.unwrap();
    store.commit(transition("a", "one", 7)).await.unwrap_err();
    store.create(creation("a", Some("one"))).await.unwrap();
    store
        .write_memory(&key("a"), MemoryWrite::Clear, &Principal::token())
        .await
        .unwrap();
    store
        .claim(crate::support::work::claim("two"))
        .await
        .unwrap();
    store.read(&key("a"), 0, 10).await.unwrap();
    store.append_command(command()).await.unwrap();
    store.append_command(command()).await.unwrap();
    let want: Vec<_> = (1..=3)
        .flat_map(|number| [(number, When::Before), (number, When::After)])
        .collect();
    assert_eq!(*seen.lock().unwrap(), want);
}
