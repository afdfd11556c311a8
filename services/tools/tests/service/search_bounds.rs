//! How much a search may take, and how soon it ends.

use crate::support::World;
use cairn_engine::text::counted;
use cairn_tools::ToolError;
use serde_json::json;
use std::time::{Duration, Instant};

/// An expression whose every byte of text costs some 40 microseconds.
pub(crate) const SLOW: &str = "(?-u)[ab]*a[ab]{3000}[^ab]";

/// The letters a and b without a pattern.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let letter = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(b"ab"[(*state >> 31) as usize])
    };
    std::iter::repeat_with({
        let mut state = 1;
        move || letter(&mut state)
    })
    .map_while(|letter| letter)
    .take(bytes)
    .collect()
}

#[test]
fn a_search_of_one_long_line_ends_with_its_time() {
    // The only thread for file work: what still runs on it holds up the next call.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = World::with(|config, _| config.limits.file_time_ms = 2000);
        world.put("line.txt", noise(4 << 20));
        let pattern = json!({"pattern": SLOW, "regex": true});
        let result = world.call("search_files", pattern).await.result;
        let Err(ToolError::Timeout(message)) = result else {
            panic!("{result:?}");
        };
        assert!(message.contains("limit of 2000 ms"), "{message}");
        let began = Instant::now();
        world.text("list_files", json!({"pattern": "x"})).await;
        // The rest of the line would take minutes.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
    });
}

#[tokio::test]
async fn lines_match_whole_however_they_are_read() {
    let world = World::new();
    let long = "ä".repeat(100_000);
    world.put("long.txt", format!("{long} needle\r\n^ {long}\r\nend\r"));
    world.put("ends.txt", "a\r\n\r\nb\rc\n\r");
    for (pattern, expected) in [
        ("needle$", 1),
        ("^ä+ needle$", 1),
        ("^\\^ ä{50}", 1),
        ("ä$", 1),
        ("^end$", 1),
        ("^$", 2),
        ("^b\rc$", 1),
        ("\r$", 0),
    ] {
        let arguments = json!({"pattern": pattern, "regex": true});
        let text = world.text("search_files", arguments).await;
        let total = format!("total: {}", counted(expected, "matching line"));
        assert!(text.contains(&total), "{pattern:?}: {text}");
    }
    let shown = world
        .text("search_files", json!({"pattern": "ä needle"}))
        .await;
    let (_, line) = shown.lines().next().unwrap().split_once('\t').unwrap();
    assert_eq!(line.chars().count(), 240);
    assert!(line.ends_with("ä…"), "{line}");
}

#[tokio::test]
async fn matches_of_a_file_that_turns_out_binary_are_taken_back() {
    let world = World::new();
    world.put("a.txt", "needle\n");
    let late = [&b"needle\n".repeat(20_000)[..], b"\0"].concat();
    world.put("b.bin", late);
    world.put("c.txt", "needle\n");
    let text = world
        .text("search_files", json!({"pattern": "needle", "max": 10}))
        .await;
    assert_eq!(
        text,
        "a.txt:1:\tneedle\nc.txt:1:\tneedle\n\
         total: 2 matching lines in 2 files, 2 files searched, 1 binary file skipped"
    );
}

#[tokio::test]
async fn lines_that_cannot_be_searched_are_counted() {
    let world = World::new();
    let long = "ä ".repeat(1000);
    world.put("a.txt", format!("ä needle\n{long}needle\nneedle {long}\n"));
    let arguments = json!({"pattern": "\\bneedle\\b", "regex": true});
    let text = world.text("search_files", arguments).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "a.txt:1:\tä needle");
    assert!(text.contains("total: 2 matching lines"), "{text}");
    assert!(
        lines
            .last()
            .unwrap()
            .starts_with("skipped: 1 line longer than 1024 bytes"),
        "{text}"
    );
}

#[tokio::test]
async fn expressions_that_are_too_large_are_refused_in_words() {
    let world = World::new();
    world.put("a.txt", "x");
    for pattern in ["[ab]{100000}", "\\w{500}", "((a{1000}){1000}){1000}"] {
        let arguments = json!({"pattern": pattern, "regex": true});
        let error = world.error("search_files", arguments).await;
        assert_eq!(error.reason(), "InvalidArguments", "{pattern}");
        assert!(error.message().contains("256 KiB"), "{error}");
    }
}
