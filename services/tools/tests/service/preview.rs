//! Previews of writes, and calls that are bound to one.

use crate::support::{World, request};
use cairn_engine::key::ContentDigest;
use cairn_tools::{Digests, Outcome, Preview, Request, ToolError, Write};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

async fn preview(world: &World, tool: &str, arguments: &Value) -> Result<Preview, ToolError> {
    let request = request(tool, &arguments.to_string());
    world.tools.invoker().preview(request).await
}

/// The call with the digests of its preview.
async fn approved(world: &World, tool: &str, arguments: &Value, digests: &Digests) -> Outcome {
    let call = Request {
        digests: Some(digests.clone()),
        ..request(tool, &arguments.to_string())
    };
    world.tools.invoker().invoke(call).await
}

#[tokio::test]
async fn a_preview_shows_the_change_and_makes_none() {
    let world = World::new();
    world.put("src/a.rs", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let edit = json!({"path": "src/../src/a.rs", "old": "5\n", "new": "five\nand\n"});
    let shown = preview(&world, "edit_file", &edit).await.unwrap();
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let after = before.replace('5', "five\nand");
    let expected = Preview {
        path: "src/a.rs".to_owned(),
        digests: Digests {
            before: ContentDigest::of(before.as_bytes()),
            after: ContentDigest::of(after.as_bytes()),
        },
        diff: "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and\n 6\n 7\n 8\n"
            .to_owned(),
        added: 2,
        removed: 1,
        is_protected: false,
    };
    assert_eq!(shown, expected);
    assert_eq!(fs::read_to_string(world.path("src/a.rs")).unwrap(), before);

    let write = json!({"path": "new/deep/b.txt", "content": "one\ntwo"});
    let shown = preview(&world, "write_file", &write).await.unwrap();
    let digests = Digests {
        before: String::new(),
        after: ContentDigest::of(b"one\ntwo"),
    };
    assert_eq!(shown.digests, digests);
    assert_eq!((shown.added, shown.removed), (2, 0));
    assert!(
        shown
            .diff
            .starts_with("--- /dev/null\n+++ b/new/deep/b.txt\n")
    );
    assert!(!world.path("new").exists());

    let same = json!({"path": "src/a.rs", "content": before});
    let shown = preview(&world, "write_file", &same).await.unwrap();
    assert_eq!(shown.digests.before, shown.digests.after);
    assert_eq!(shown.diff, "");

    world.put("binary", b"\xff\xfe");
    let write = json!({"path": "binary", "content": "text\n"});
    let shown = preview(&world, "write_file", &write).await.unwrap();
    assert!(
        shown.diff.contains("has 2 bytes and is not shown"),
        "{}",
        shown.diff
    );
    assert_eq!(shown.digests.before, ContentDigest::of(b"\xff\xfe"));
}

/// The journal has a preview, and a model may read it there.
#[tokio::test]
async fn a_preview_has_no_text_of_a_file_that_file_tools_do_not_show() {
    let world = World::with(|config, _| config.show = vec!["/.shown".to_owned()]);
    world.put(".gitignore", "*.key\n");
    for path in [".env", "a.key", "sub/b.key", "sub/.c/d", ".shown", "e"] {
        world.put(path, "secret = 1\n");
        let write = json!({"path": path, "content": "other\n"});
        let shown = preview(&world, "write_file", &write).await.unwrap();
        let is_visible = matches!(path, ".shown" | "e");
        assert_eq!(shown.diff.contains("secret"), is_visible, "{}", shown.diff);
        assert_eq!(
            shown.diff.contains("has 11 bytes and is not shown"),
            !is_visible,
            "{}",
            shown.diff
        );
        assert!(shown.diff.ends_with("+other\n"), "{}", shown.diff);
        let before = ContentDigest::of(b"secret = 1\n");
        assert_eq!(shown.digests.before, before, "{path}");
    }
}

#[tokio::test]
async fn a_large_change_is_cut_in_the_diff() {
    let world = World::new();
    let content: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let write = json!({"path": "a.txt", "content": content});
    let shown = preview(&world, "write_file", &write).await.unwrap();
    assert_eq!(shown.added, 20_000);
    assert!(shown.diff.len() < 65 * 1024);
    assert!(
        shown.diff.ends_with("lines of this diff]\n"),
        "{}",
        shown.diff
    );
}

#[tokio::test]
async fn what_runs_or_instructs_on_its_own_is_protected() {
    let world = World::with(|config, _| config.show = vec!["/.claude/".to_owned()]);
    world.put("cairn.toml", "");
    world.put("sub/a", "");
    for (path, expected) in [
        ("AGENTS.md", true),
        ("sub/Claude.md", true),
        (".git/hooks/pre-commit", true),
        (".mcp.json", true),
        ("cairn.toml", true),
        ("sub/../cairn.toml", true),
        (".claude/agents/a.md", true),
        (".claude/skills/s/run.sh", true),
        ("prompts/step.md", true),
        ("cairn-out/AGENTS.md", true),
        ("sub/prompts/step.md", false),
        (".claude/notes.md", false),
        ("src/main.rs", false),
        ("cairn-out/report.md", false),
    ] {
        let write = json!({"path": path, "content": "x"});
        let shown = preview(&world, "write_file", &write).await.unwrap();
        assert_eq!(shown.is_protected, expected, "{path}");
    }
    world.put("AGENTS.md", "one\n");
    let edit = json!({"path": "AGENTS.md", "old": "one", "new": "two"});
    assert!(
        preview(&world, "edit_file", &edit)
            .await
            .unwrap()
            .is_protected
    );
}

/// Such as a step of a plan, which has no preview, where the settings allow every write.
#[tokio::test]
async fn a_protected_file_is_written_only_as_its_preview_was_approved() {
    let world = World::with(|config, _| {
        config.write = Write::Allow;
        config.agent_paths = vec!["roles".to_owned()];
    });
    for path in [
        "AGENTS.md",
        ".git/hooks/pre-commit",
        "roles/a.md",
        ".claude/agents/a.md",
    ] {
        let write = json!({"path": path, "content": "x"});
        let error = world.call("write_file", write.clone()).await.result;
        let error = error.unwrap_err();
        assert_eq!(error.reason(), "Denied", "{path}: {error}");
        assert!(!world.path(path).exists(), "{path}");
        let shown = preview(&world, "write_file", &write).await.unwrap();
        assert!(shown.is_protected, "{path}");
        let outcome = approved(&world, "write_file", &write, &shown.digests).await;
        outcome.result.unwrap();
        assert!(world.path(path).exists(), "{path}");
    }
    let edit = json!({"path": "AGENTS.md", "old": "x", "new": "y"});
    let error = world.call("edit_file", edit).await.result.unwrap_err();
    assert_eq!(error.reason(), "Denied", "{error}");
    world
        .text("write_file", json!({"path": "src/a.rs", "content": "x"}))
        .await;
}

#[tokio::test]
async fn a_call_that_would_fail_has_no_preview() {
    let world = World::new();
    world.put("a.txt", "one\n");
    symlink("a.txt", world.path("link.txt")).unwrap();
    for (tool, arguments, reason) in [
        (
            "edit_file",
            json!({"path": "a.txt", "old": "two", "new": "x"}),
            "InvalidArguments",
        ),
        (
            "edit_file",
            json!({"path": "a.txt", "old": "two"}),
            "InvalidArguments",
        ),
        (
            "write_file",
            json!({"path": "link.txt", "content": "x"}),
            "Denied",
        ),
        (
            "write_file",
            json!({"path": "../x", "content": "x"}),
            "Denied",
        ),
        ("read_file", json!({"path": "a.txt"}), "ExecutionFailed"),
        ("rite_file", json!({}), "NotFound"),
    ] {
        let error = preview(&world, tool, &arguments).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{tool} {arguments}: {error}");
    }
}

/// A kill between a write and its result is a second call with the same digests.
#[tokio::test]
async fn an_approved_write_is_made_once() {
    let cases = [
        (
            "edit_file",
            json!({"path": "a.txt", "old": "one\n", "new": "one\none\n"}),
        ),
        ("write_file", json!({"path": "a.txt", "content": "three\n"})),
        (
            "write_file",
            json!({"path": "new/b.txt", "content": "three\n"}),
        ),
        (
            "write_file",
            json!({"path": "cairn-out/c.txt", "content": "three\n"}),
        ),
    ];
    for (tool, arguments) in cases {
        let world = World::new();
        world.put("a.txt", "one\ntwo\n");
        let shown = preview(&world, tool, &arguments).await.unwrap();
        let first = approved(&world, tool, &arguments, &shown.digests).await;
        let first = first.result.unwrap();
        let state = first.file.clone().unwrap();
        assert_eq!(
            (state.path, state.digest),
            (shown.path, shown.digests.after.clone())
        );
        let again = approved(&world, tool, &arguments, &shown.digests).await;
        assert_eq!(again.result.unwrap(), first, "{tool} {arguments}");
        let path = arguments["path"].as_str().unwrap();
        let read = world.call("read_file", json!({"path": path})).await;
        let read = read.result.unwrap().file.unwrap();
        assert_eq!(read.digest, shown.digests.after, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn a_file_that_changed_since_its_preview_is_not_written() {
    for (tool, arguments) in [
        (
            "edit_file",
            json!({"path": "a.txt", "old": "one", "new": "1"}),
        ),
        ("write_file", json!({"path": "a.txt", "content": "three\n"})),
    ] {
        let world = World::new();
        world.put("a.txt", "one\ntwo\n");
        let shown = preview(&world, tool, &arguments).await.unwrap();
        world.put("a.txt", "one\ntwo\nmore\n");
        let outcome = approved(&world, tool, &arguments, &shown.digests).await;
        let Err(ToolError::Rejudge(rejudge)) = outcome.result else {
            panic!("{tool}: {outcome:?}");
        };
        let now = rejudge.file.unwrap();
        assert_eq!(now.path, "a.txt");
        assert_eq!(now.digest, ContentDigest::of(b"one\ntwo\nmore\n"));
        let tools = world.tools.invoker().tools();
        let entry = tools.iter().find(|entry| entry.spec().name == tool);
        assert_eq!(rejudge.tool_digest, entry.unwrap().spec().digest());
        let text = fs::read_to_string(world.path("a.txt")).unwrap();
        assert_eq!(text, "one\ntwo\nmore\n");
        // Another preview is judged, and then it is written.
        let shown = preview(&world, tool, &arguments).await.unwrap();
        let outcome = approved(&world, tool, &arguments, &shown.digests).await;
        outcome.result.unwrap();
    }
    // The file has gone, or has come, or the arguments are others.
    let world = World::new();
    world.put("a.txt", "one\n");
    let write = json!({"path": "a.txt", "content": "two\n"});
    let shown = preview(&world, "write_file", &write).await.unwrap();
    let other = json!({"path": "a.txt", "content": "other\n"});
    let outcome = approved(&world, "write_file", &other, &shown.digests).await;
    assert!(matches!(outcome.result, Err(ToolError::Rejudge(_))));
    fs::remove_file(world.path("a.txt")).unwrap();
    let outcome = approved(&world, "write_file", &write, &shown.digests).await;
    assert!(matches!(outcome.result, Err(ToolError::Rejudge(_))));
    let shown = preview(&world, "write_file", &write).await.unwrap();
    assert_eq!(shown.digests.before, "");
    world.put("a.txt", "came\n");
    let outcome = approved(&world, "write_file", &write, &shown.digests).await;
    assert!(matches!(outcome.result, Err(ToolError::Rejudge(_))));
    assert_eq!(fs::read_to_string(world.path("a.txt")).unwrap(), "came\n");
}

/// A range, and one path for one file.
#[tokio::test]
async fn a_read_has_the_digest_of_the_whole_file() {
    let world = World::new();
    world.put("docs/a.txt", "one\ntwo\nthree\n");
    for arguments in [
        json!({"path": "docs/a.txt"}),
        json!({"path": "./docs//a.txt", "from_line": 2, "to_line": 2}),
        json!({"path": "docs/../docs/a.txt", "from_line": 3}),
    ] {
        let output = world.call("read_file", arguments).await.result.unwrap();
        let file = output.file.unwrap();
        assert_eq!(file.path, "docs/a.txt");
        assert_eq!(file.digest, ContentDigest::of(b"one\ntwo\nthree\n"));
    }
    let listed = world.call("list_files", json!({})).await.result.unwrap();
    assert_eq!(listed.file, None);
}
