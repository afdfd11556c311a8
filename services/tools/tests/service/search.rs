//! `search_files`.

use crate::search_bounds::{SLOW, noise};
use crate::support::World;
use cairn_tools::ToolError;
use serde_json::json;
use std::time::{Duration, Instant};

fn library() -> World {
    let world = World::new();
    world.put(
        "docs/a.md",
        "Redis is here\nnothing\r\nredis.conf and REDIS\r\n",
    );
    world.put("docs/b.md", "a.b\naxb\n\ttab Redis\tend");
    world.put("c.txt", "no match");
    world.put("d.bin", b"Redis\0");
    world.put(".hidden", "Redis");
    world
}

#[tokio::test]
async fn matches_are_lines_with_totals() {
    let world = library();
    let text = world
        .text("search_files", json!({"pattern": "redis"}))
        .await;
    assert_eq!(
        text,
        "docs/a.md:1:\tRedis is here\n\
         docs/a.md:3:\tredis.conf and REDIS\n\
         docs/b.md:3:\t\ttab Redis\tend\n\
         total: 3 matching lines in 2 files, 3 files searched, 1 binary file skipped"
    );
}

#[tokio::test]
async fn case_expression_path_and_max_are_respected() {
    let world = library();
    for (arguments, expected) in [
        (
            json!({"pattern": "redis", "ignore_case": false}),
            "docs/a.md:3:\tredis.conf and REDIS\n\
             total: 1 matching line in 1 file, 3 files searched, 1 binary file skipped",
        ),
        (
            json!({"pattern": "a.b", "path": "docs"}),
            "docs/b.md:1:\ta.b\ntotal: 1 matching line in 1 file, 2 files searched",
        ),
        (
            json!({"pattern": "^a.b$", "path": "docs", "regex": true}),
            "docs/b.md:1:\ta.b\ndocs/b.md:2:\taxb\n\
             total: 2 matching lines in 1 file, 2 files searched",
        ),
        (
            json!({"pattern": "nothing$", "path": "docs/a.md", "regex": true}),
            "docs/a.md:2:\tnothing\ntotal: 1 matching line in 1 file, 1 file searched",
        ),
        (
            json!({"pattern": "redis", "max": 1, "path": "docs"}),
            "docs/a.md:1:\tRedis is here\n\
             total: 3 matching lines in 2 files, 2 files searched\n\
             truncated: showing the first 1",
        ),
        (
            json!({"pattern": "absent", "path": "docs"}),
            "total: 0 matching lines in 0 files, 2 files searched",
        ),
    ] {
        assert_eq!(
            world.text("search_files", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

/// A model that asks for many matches reads on in them, so all of them are given.
#[tokio::test]
async fn a_search_is_one_page_unless_the_call_gives_max() {
    let line = format!("needle {}\n", "x".repeat(200));
    let (few, many) = (
        json!({"pattern": "needle"}),
        json!({"pattern": "needle", "max": 10_000}),
    );
    let world = World::new();
    world.put("many.txt", line.repeat(10_000));
    let page = world.text("search_files", few).await;
    assert!(page.len() <= 32 * 1024, "{}", page.len());
    assert!(
        page.contains("total: 10000 matching lines in 1 file"),
        "{page}"
    );
    assert!(page.contains("\ntruncated: showing the first 1"), "{page}");
    let whole = world.text("search_files", many.clone()).await;
    assert_eq!(whole.lines().count(), 10_001);
    assert!(whole.contains("\nmany.txt:10000:\tneedle") && !whole.contains("truncated"));

    let small = World::with(|config, _| config.limits.output_bytes = 2048);
    small.put("many.txt", line.repeat(100));
    let cut = small.text("search_files", many).await;
    assert!(cut.len() <= 2048, "{}", cut.len());
    assert!(cut.contains("total: 100 matching lines"), "{cut}");
}

#[tokio::test]
async fn an_empty_file_has_no_line_to_match() {
    let world = World::new();
    world.put("empty", "");
    world.put("blank", "\n");
    let text = world
        .text("search_files", json!({"pattern": "^$", "regex": true}))
        .await;
    assert_eq!(
        text,
        "blank:1:\t\ntotal: 1 matching line in 1 file, 2 files searched"
    );
}

#[tokio::test]
async fn long_lines_are_cut_at_a_character_and_invalid_utf8_is_shown() {
    let world = World::new();
    world.put("wide", format!("needle {}", "🦀".repeat(1000)));
    world.put("broken", b"needle \xff\xfe end");
    let text = world
        .text("search_files", json!({"pattern": "needle"}))
        .await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "broken:1:\tneedle \u{fffd}\u{fffd} end");
    let (_, shown) = lines[1].split_once('\t').unwrap();
    assert_eq!(shown.chars().count(), 240);
    assert!(shown.ends_with("🦀…"), "{shown}");
}

#[tokio::test]
async fn bad_expressions_are_refused_in_words() {
    let world = World::new();
    for pattern in [
        "(",
        "a{2",
        "[z-a]",
        "(?=x)",
        "\\1",
        "((a{1000}){1000}){1000}",
    ] {
        let error = world
            .error("search_files", json!({"pattern": pattern, "regex": true}))
            .await;
        assert_eq!(error.reason(), "InvalidArguments", "{pattern}");
        assert!(error.message().contains("regular expression"), "{error}");
    }
    // The same as plain text is nothing special.
    world
        .text("search_files", json!({"pattern": "(?=x)("}))
        .await;
}

#[tokio::test]
async fn what_is_read_is_bounded() {
    let world = World::with(|config, _| {
        config.limits.file_bytes = 100;
        config.limits.total_bytes = 150;
    });
    for name in ["a", "b", "c"] {
        world.put(name, "needle\n".repeat(10));
    }
    world.put("large", "needle\n".repeat(20));
    let text = world
        .text("search_files", json!({"pattern": "needle", "max": 1}))
        .await;
    assert_eq!(
        text,
        "a:1:\tneedle\n\
         total: 20 matching lines in 2 files, 2 files searched, 1 file skipped as too large\n\
         truncated: showing the first 1\n\
         truncated: 1 file left unsearched after 150 bytes; give a narrower path"
    );
}

#[tokio::test]
async fn a_search_that_takes_too_long_really_stops() {
    let world = World::with(|config, _| {
        config.limits.file_time_ms = 1;
        config.limits.parallel_calls = 1;
    });
    // A search of all of it takes minutes.
    let text = noise(20_000);
    for n in 0..400 {
        world.put(&format!("{n}"), &text);
    }
    let started = Instant::now();
    let pattern = json!({"pattern": SLOW, "regex": true});
    for _ in 0..3 {
        let result = world.call("search_files", pattern.clone()).await.result;
        let Err(ToolError::Timeout(message)) = result else {
            panic!("{result:?}");
        };
        assert!(message.contains("limit of 1 ms"), "{message}");
    }
    // A call keeps the only slot until its thread has ended: none of the three was carried out.
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}
