//! Folders that are exchanged for links while a tool works in them.

use crate::escapes::{SECRET, trapped};
use crate::support::World;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread that exchanges a folder and a link to outside under the same name, as fast as it can.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Swapper {
    fn start(folder: &Path, target: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (name, link) = (folder.join("swap"), folder.join("link"));
        fs::create_dir_all(&name).unwrap();
        fs::write(name.join("key"), "harmless").unwrap();
        symlink(target, &link).unwrap();
        let thread = std::thread::spawn(move || {
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &name, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                rounds += 1;
            }
            rounds
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[tokio::test]
async fn a_folder_exchanged_for_a_link_in_the_middle_leads_nowhere() {
    let world = trapped();
    let secret = world.folder.path().join("secret");
    let swapper = Swapper::start(&world.path("race"), &secret);
    let (mut hits, mut misses) = (0, 0);
    for round in 0..1500 {
        let result = match round % 3 {
            0 => {
                world
                    .call("read_file", json!({"path": "race/swap/key"}))
                    .await
                    .result
            }
            1 => {
                let arguments = json!({"path": "race/swap", "pattern": "."});
                world.call("search_files", arguments).await.result
            }
            _ => {
                world
                    .call("list_files", json!({"path": "race"}))
                    .await
                    .result
            }
        };
        match result {
            Ok(output) => {
                assert!(!output.text.contains(SECRET), "{}", output.text);
                hits += 1;
            }
            Err(error) => {
                assert!(!error.message().contains(SECRET), "{error}");
                misses += 1;
            }
        }
    }
    assert!(swapper.finish() > 100);
    assert!(
        hits > 0 && misses > 0,
        "{hits} hits, {misses} misses: there was no race"
    );
}

#[tokio::test]
async fn a_folder_exchanged_while_writing_is_not_left() {
    let world = trapped();
    let secret = world.folder.path().join("secret");
    let swapper = Swapper::start(&world.output("race"), &secret);
    for round in 0..300 {
        let arguments = json!({"path": format!("cairn-out/race/swap/f{round}"), "content": "x"});
        _ = world.call("write_file", arguments).await;
    }
    assert!(swapper.finish() > 100);
    let names: Vec<_> = fs::read_dir(&secret)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["key"]);
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), SECRET);
}

#[tokio::test]
async fn an_output_folder_exchanged_for_a_link_leads_nowhere() {
    let world = World::with(|config, _| {
        config.output = config.workspace.parent().unwrap().join("race/swap");
    });
    let secret = world.folder.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), SECRET).unwrap();
    let swapper = Swapper::start(&world.folder.path().join("race"), &secret);
    let (mut hits, mut misses) = (0, 0);
    for round in 0..1500 {
        let (tool, arguments) = match round % 3 {
            0 => ("read_file", json!({"path": "cairn-out/key"})),
            1 => ("search_files", json!({"path": "cairn-out", "pattern": "."})),
            _ => (
                "write_file",
                json!({"path": "cairn-out/new", "content": "x"}),
            ),
        };
        match world.call(tool, arguments).await.result {
            Ok(output) => {
                assert!(!output.text.contains(SECRET), "{}", output.text);
                hits += 1;
            }
            Err(_) => misses += 1,
        }
    }
    assert!(swapper.finish() > 100);
    assert!(
        hits > 0 && misses > 0,
        "{hits} hits, {misses} misses: there was no race"
    );
    let names: Vec<_> = fs::read_dir(&secret)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["key"]);
}
