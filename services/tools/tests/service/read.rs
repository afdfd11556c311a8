//! `read_file`.

use crate::support::World;
use serde_json::json;

#[tokio::test]
async fn lines_are_numbered() {
    let world = World::new();
    world.put("a.md", "one\ntwo\r\n\nfour");
    for (arguments, expected) in [
        (
            json!({"path": "a.md"}),
            "a.md lines 1-4 of 4\n1\tone\n2\ttwo\n3\t\n4\tfour",
        ),
        (
            json!({"path": "./a.md", "from_line": 2, "to_line": 3}),
            "a.md lines 2-3 of 4\n2\ttwo\n3\t",
        ),
        (
            json!({"path": "a.md", "from_line": 4.0}),
            "a.md lines 4-4 of 4\n4\tfour",
        ),
        (
            json!({"path": "a.md", "from_line": 3, "to_line": 99}),
            "a.md lines 3-4 of 4\n3\t\n4\tfour",
        ),
    ] {
        assert_eq!(
            world.text("read_file", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
    world.put("empty", "");
    assert_eq!(
        world.text("read_file", json!({"path": "empty"})).await,
        "empty lines 0-0 of 0"
    );
    world.put("blank", "\n");
    assert_eq!(
        world.text("read_file", json!({"path": "blank"})).await,
        "blank lines 1-1 of 1\n1\t"
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_said_in_words() {
    let world = World::new();
    world.put("a.md", "one\n");
    world.put("folder/x", "x");
    world.put("late-nul", [vec![b'x'; 200_000], vec![0]].concat());
    for (arguments, words) in [
        (
            json!({"path": "b.md"}),
            "there is no 'b.md' in the workspace",
        ),
        (
            json!({"path": "cairn-out/b.md"}),
            "there is no 'cairn-out/b.md'",
        ),
        (
            json!({"path": "folder"}),
            "'folder' is a folder; list_files",
        ),
        (json!({"path": "."}), "is a folder"),
        (
            json!({"path": "a.md/b"}),
            "is a file where a folder is needed",
        ),
        (json!({"path": "late-nul"}), "'late-nul' is a binary file"),
    ] {
        let error = world.error("read_file", arguments.clone()).await;
        assert_eq!(error.reason(), "ExecutionFailed", "{arguments}: {error}");
        assert!(error.message().contains(words), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused_in_words() {
    let world = World::new();
    world.put("a.md", "one\n");
    for (arguments, words) in [
        (json!({"path": "a.md", "from_line": 2}), "'a.md' has 1 line"),
        (json!({"path": "a.md", "from_line": 0}), "at least 1"),
        (
            json!({"path": "a.md", "from_line": 3, "to_line": 2}),
            "to_line 2 is before from_line 3",
        ),
        (json!({"path": "x".repeat(5000)}), "at most 4096"),
        (
            json!({"path": "x".repeat(300)}),
            "longer than the system accepts",
        ),
        (
            json!({"path": ["a.md"]}),
            "path is an array; it must be a string",
        ),
        (json!({}), "path is missing"),
    ] {
        let error = world.error("read_file", arguments.clone()).await;
        assert_eq!(error.reason(), "InvalidArguments", "{arguments}: {error}");
        assert!(error.message().contains(words), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn invalid_utf8_is_shown_and_said() {
    let world = World::new();
    world.put("latin1", b"caf\xe9\nplain\n");
    let text = world.text("read_file", json!({"path": "latin1"})).await;
    assert_eq!(
        text,
        "latin1 lines 1-2 of 2 (not valid UTF-8: shown with replacement characters)\n\
         1\tcaf\u{fffd}\n2\tplain"
    );
}

#[tokio::test]
async fn a_long_file_is_read_in_parts_that_meet() {
    let world = World::with(|config, _| config.limits.output_bytes = 2048);
    let line = |n: usize| format!("line {n} äöü🦀");
    let whole: Vec<String> = (1..=300).map(line).collect();
    world.put("long", whole.join("\n"));
    let (mut next, mut seen) = (1, Vec::new());
    for _ in 0..300 {
        let text = world
            .text("read_file", json!({"path": "long", "from_line": next}))
            .await;
        assert!(text.len() <= 2048);
        let mut last = None;
        for line in text.lines().skip(1) {
            match line.split_once('\t') {
                Some((number, rest)) => {
                    assert_eq!(number, (seen.len() + 1).to_string());
                    seen.push(rest.to_owned());
                }
                None => last = line.strip_prefix("truncated: read on with from_line "),
            }
        }
        match last {
            Some(number) => next = number.parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(seen, whole);
}

#[tokio::test]
async fn a_line_longer_than_a_result_is_cut_at_a_character() {
    let world = World::with(|config, _| config.limits.output_bytes = 2048);
    world.put("wide", format!("{}\nshort\n", "🦀".repeat(100_000)));
    let text = world.text("read_file", json!({"path": "wide"})).await;
    assert!(text.len() <= 2048);
    assert!(text.starts_with("wide lines 1-1 of 2\n1\t🦀"), "{text}");
    assert!(text.contains("🦀 [cut: the line is longer"), "{text}");
    assert!(!text.contains('\u{fffd}'), "{text}");
    assert!(
        text.ends_with("truncated: read on with from_line 2"),
        "{text}"
    );
    let text = world
        .text("read_file", json!({"path": "wide", "from_line": 2}))
        .await;
    assert_eq!(text, "wide lines 2-2 of 2\n2\tshort");
}

#[tokio::test]
async fn a_file_beyond_the_limit_is_refused() {
    let world = World::with(|config, _| {
        config.limits.file_bytes = 100;
        config.limits.total_bytes = 100;
    });
    world.put("large", "x".repeat(101));
    let error = world.error("read_file", json!({"path": "large"})).await;
    assert!(
        error.message().contains("101 bytes; files of up to 100"),
        "{error}"
    );
}
