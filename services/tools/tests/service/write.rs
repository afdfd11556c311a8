//! `write_file`.

use crate::support::{World, put, request};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test]
async fn a_file_is_written_and_replaced_and_can_be_read_back() {
    let world = World::new();
    assert!(!world.output("").exists(), "it is made by the first write");
    let arguments = json!({"path": "cairn-out/a/b/report.md", "content": "eins\nzwei ä\n"});
    assert_eq!(
        world.text("write_file", arguments.clone()).await,
        "wrote cairn-out/a/b/report.md: 13 bytes, 2 lines"
    );
    assert_eq!(
        fs::read_to_string(world.output("a/b/report.md")).unwrap(),
        "eins\nzwei ä\n"
    );
    assert_eq!(
        world.text("write_file", arguments).await,
        "wrote cairn-out/a/b/report.md: 13 bytes, 2 lines"
    );
    let short = json!({"path": "./cairn-out//a/b/report.md", "content": "x"});
    assert_eq!(
        world.text("write_file", short).await,
        "wrote cairn-out/a/b/report.md: 1 byte, 1 line"
    );
    let read = world
        .text("read_file", json!({"path": "cairn-out/a/b/report.md"}))
        .await;
    assert_eq!(read, "cairn-out/a/b/report.md lines 1-1 of 1\n1\tx");
    let list = world.text("list_files", json!({"path": "cairn-out"})).await;
    assert!(
        list.starts_with("cairn-out/a/b/report.md\t1\t1\ttext\ntotal: 1 file"),
        "{list}"
    );
    let empty = json!({"path": "cairn-out/empty", "content": ""});
    assert_eq!(
        world.text("write_file", empty).await,
        "wrote cairn-out/empty: 0 bytes, 0 lines"
    );
}

#[tokio::test]
async fn nothing_is_left_beside_the_file() {
    let world = World::new();
    for n in 0..5 {
        let arguments = json!({"path": format!("cairn-out/f{n}"), "content": "x"});
        world.text("write_file", arguments).await;
    }
    put(&world.output("folder/x"), "x");
    let error = world
        .error(
            "write_file",
            json!({"path": "cairn-out/folder", "content": "y"}),
        )
        .await;
    assert!(error.message().contains("is a folder"), "{error}");
    let error = world
        .error(
            "write_file",
            json!({"path": "cairn-out/f1/x", "content": "y"}),
        )
        .await;
    assert!(
        error
            .message()
            .contains("is a file where a folder is needed"),
        "{error}"
    );
    let names: BTreeSet<String> = fs::read_dir(world.output(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["f0", "f1", "f2", "f3", "f4", "folder"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
}

#[tokio::test]
async fn what_a_crash_left_behind_is_removed_when_it_is_old() {
    let world = World::new();
    let (old, new) = (
        world.output(".cairn-tmp-1-1"),
        world.output(".cairn-tmp-1-2"),
    );
    put(&old, "half");
    put(&new, "half");
    put(&world.output(".mine"), "x");
    let hours_ago = fs::metadata(&old).unwrap().modified().unwrap() - Duration::from_secs(7200);
    for path in [&old, &world.output(".mine")] {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(hours_ago).unwrap();
    }
    world
        .text("write_file", json!({"path": "cairn-out/a", "content": "x"}))
        .await;
    assert!(!old.exists());
    assert!(new.exists(), "somebody may be writing it right now");
    assert!(world.output(".mine").exists());
    let arguments = json!({"path": "cairn-out/.cairn-tmp-x", "content": "x"});
    assert_eq!(
        world.error("write_file", arguments).await.reason(),
        "InvalidArguments"
    );
}

#[tokio::test]
async fn size_is_bounded_in_bytes() {
    let world = World::with(|config, _| config.limits.write_bytes = 10);
    let fits = json!({"path": "cairn-out/a", "content": "äöüäö"});
    world.text("write_file", fits).await;
    let arguments = json!({"path": "cairn-out/a", "content": "äöüäöü"});
    let error = world.error("write_file", arguments).await;
    assert_eq!(error.reason(), "TooLarge");
    assert!(
        error
            .message()
            .contains("12 bytes; one file may have at most 10"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(world.output("a")).unwrap(), "äöüäö");
}

#[tokio::test]
async fn eight_mebibytes_fit_by_default_and_no_more() {
    let world = World::new();
    let most = 8 << 20;
    let arguments = json!({"path": "cairn-out/large", "content": "x".repeat(most)});
    world.text("write_file", arguments).await;
    assert_eq!(
        fs::metadata(world.output("large")).unwrap().len(),
        most as u64
    );
    for length in [most + 1, 20 << 20] {
        let arguments = json!({"path": "cairn-out/large", "content": "x".repeat(length)});
        assert_eq!(
            world.error("write_file", arguments).await.reason(),
            "TooLarge"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_the_old_file_or_the_new_one() {
    let world = World::new();
    let path = world.output("report.md");
    let write = |n: usize| {
        let content = (n % 10).to_string().repeat(200_000);
        json!({"path": "cairn-out/report.md", "content": content})
    };
    world.text("write_file", write(0)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let reader = std::thread::spawn(move || {
        let mut seen = BTreeSet::new();
        while !stopped.load(Ordering::Relaxed) {
            let bytes = fs::read(&path).unwrap();
            assert_eq!(
                bytes,
                [bytes[0]].repeat(200_000),
                "a part of a file was seen"
            );
            seen.insert(bytes[0]);
        }
        seen.len()
    });
    for n in 1..60 {
        world.text("write_file", write(n)).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 1, "the reader saw no change");
}

#[tokio::test]
async fn parallel_writes_leave_one_whole_file() {
    let world = World::new();
    let calls = (0..24).map(|n| {
        let content = format!("{}", n % 10).repeat(100_000);
        let arguments = json!({"path": "cairn-out/same/file", "content": content});
        request("write_file", &arguments.to_string())
    });
    for outcome in world.tools.invoker().invoke_all(calls.collect()).await {
        outcome.result.unwrap();
    }
    let text = fs::read_to_string(world.output("same/file")).unwrap();
    assert_eq!(text.len(), 100_000);
    assert_eq!(text, text[..1].repeat(100_000));
    assert_eq!(fs::read_dir(world.output("same")).unwrap().count(), 1);
}

#[tokio::test]
async fn the_output_folder_may_go_and_come_back() {
    let world = World::new();
    let arguments = json!({"path": "cairn-out/a", "content": "x"});
    world.text("write_file", arguments.clone()).await;
    fs::remove_dir_all(world.output("")).unwrap();
    let error = world
        .error("read_file", json!({"path": "cairn-out/a"}))
        .await;
    assert_eq!(error.reason(), "ExecutionFailed");
    world.text("write_file", arguments).await;
    assert_eq!(fs::read_to_string(world.output("a")).unwrap(), "x");
}
