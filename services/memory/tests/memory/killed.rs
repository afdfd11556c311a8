//! Kills at any moment, while a store is opened, at work or closed: none looks like a lost log, and what
//! was answered is there.

use crate::damage::random;
use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tells a child where its store is.
const ORDERS: &str = "CAIRN_MEMORY_TEST_KILLED";

const KILLS: usize = 60;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

/// Not a test of its own: the process that is killed. It opens and closes its store again and again, and
/// makes a transition each time; says what it does next, and how many transitions were answered.
#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    reason = "the only way to give orders to a test process"
)]
async fn child() {
    let Ok(path) = std::env::var(ORDERS) else {
        return;
    };
    loop {
        println!("moment");
        let store = open(path.as_ref());
        println!("moment");
        let version = match store.create(creation("a", Some("one"))).await {
            Ok(_) => store.read(&key("a"), 0, 1).await.unwrap().version,
            Err(error) => panic!("{error}"),
        };
        let _ = store.commit(transition("a", "one", version)).await.unwrap();
        println!("moment {}", version + 1);
        drop(store);
    }
}

/// Kills a child a little after that moment. Answers how many transitions it said were answered.
fn kill_after(path: &Path, moment: usize, pause: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--nocapture"])
        .env(ORDERS, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let moments = output.lines().map(Result::unwrap);
    let mut moments = moments.filter_map(|line| Some(line.split_once("moment")?.1.to_owned()));
    let mut answered = 0;
    let mut note = |line: String| answered = line.trim().parse().unwrap_or(answered);
    for _ in 0..=moment {
        note(moments.next().unwrap());
    }
    // A kill may come at any moment of what follows, not only at its beginning.
    let end = Instant::now() + pause;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    moments.for_each(note);
    assert_eq!(child.wait().unwrap().code(), None, "it was not killed");
    answered
}

#[tokio::test]
async fn no_kill_looks_like_a_lost_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let (mut state, mut answered) = (20_261_127, 0);
    for number in 0..KILLS {
        // Some stores are new ones.
        let path = match number % 10 {
            0 => &folder.path().join(format!("{number}.db")),
            _ => &path,
        };
        let micros = random(&mut state) % 6000;
        let pause = Duration::from_micros(micros.try_into().unwrap());
        let said = kill_after(path, number % 4, pause);
        match SqliteStore::open_readonly(path, SqliteOptions::default()) {
            Ok(store) => {
                let page = store.read(&key("a"), 0, 1).await;
                let version = page.map_or(0, |page| page.version);
                assert!(version >= said, "{version} of {said} transitions");
                if number % 10 > 0 {
                    assert!(version >= answered, "{version} of {answered} transitions");
                    answered = version;
                }
            }
            // Killed before there was one.
            Err(error) => {
                let is_missing = matches!(error, cairn_memory::sqlite::OpenError::Missing { .. });
                let is_new = number % 10 == 0 || answered == 0;
                assert!(is_missing && is_new && said == 0, "{error}");
            }
        }
        // The others are opened by the next child.
        if number % 3 == 0 {
            drop(open(path));
        }
    }
    assert!(answered > 10, "{answered} transitions");
}
