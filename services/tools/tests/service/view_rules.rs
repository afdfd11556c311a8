//! Which files git ignores: rules above, below and beside the workspace.

use crate::support::{World, put};
use serde_json::json;
use std::os::unix::fs::symlink;

/// Whether `path` is shown, by name and in listings alike.
async fn is_shown(world: &World, path: &str) -> bool {
    let read = world.call("read_file", json!({"path": path})).await.result;
    let listed = world.text("list_files", json!({})).await;
    let is_listed = listed
        .lines()
        .any(|line| line.starts_with(&format!("{path}\t")));
    match &read {
        Ok(_) => assert!(is_listed, "{path} is read, but not in {listed}"),
        Err(error) => {
            assert!(error.message().contains("ignored by git"), "{error}");
            assert!(!is_listed, "{path} is not read ({error}), but in {listed}");
        }
    }
    read.is_ok()
}

/// A workspace in a repository whose root is the folder above.
fn part_of_a_repository() -> World {
    let world = World::new();
    let top = world.folder.path();
    put(&top.join(".git/HEAD"), "ref: refs/heads/main\n");
    world
}

#[tokio::test]
async fn rules_above_the_workspace_count_up_to_the_root_of_its_repository() {
    let world = part_of_a_repository();
    let top = world.folder.path();
    put(
        &top.join(".gitignore"),
        "*.key\n/ws/local/\nws/*.tmp\n!kept.key\n",
    );
    put(&top.join(".git/info/exclude"), "mine.txt\n");
    world.put(".gitignore", "!back.key\n");
    for (path, expected) in [
        ("a.md", true),
        ("a.key", false),
        ("deep/a.key", false),
        ("kept.key", true),
        ("back.key", true),
        ("local/a.md", false),
        ("deep/local/a.md", true),
        ("a.tmp", false),
        ("deep/a.tmp", true),
        ("mine.txt", false),
    ] {
        world.put(path, "x");
        assert_eq!(is_shown(&world, path).await, expected, "{path}");
    }
    // A root of its own ends the way up.
    world.put(".git/HEAD", "");
    assert!(is_shown(&world, "a.key").await);
}

#[tokio::test]
async fn a_workspace_that_its_repository_ignores_is_shown() {
    let world = part_of_a_repository();
    put(&world.folder.path().join(".gitignore"), "/ws\n*.key\n");
    world.put("a.key", "x");
    assert!(is_shown(&world, "a.key").await);
}

#[tokio::test]
async fn rules_without_a_repository_above_do_not_count() {
    let world = World::new();
    put(&world.folder.path().join(".gitignore"), "*.key\n");
    world.put("a.key", "x");
    assert!(is_shown(&world, "a.key").await);
}

#[tokio::test]
async fn nested_repositories_have_rules_of_their_own() {
    let world = World::new();
    world.put(".gitignore", "*.key\n");
    world.put(".git/info/exclude", "mine.txt\n");
    world.put("lib/.git/info/exclude", "/own.txt\n!mine.txt\n");
    // A worktree of another repository, which keeps its excludes there.
    let main = world.folder.path().join("main/.git");
    put(&main.join("info/exclude"), "shared.txt\n");
    put(&main.join("worktrees/tree/commondir"), "../..\n");
    let link = format!("gitdir: {}\n", main.join("worktrees/tree").display());
    world.put("tree/.git", link);
    for (path, expected) in [
        ("mine.txt", false),
        ("own.txt", true),
        ("lib/mine.txt", true),
        ("lib/own.txt", false),
        ("lib/a.key", false),
        ("shared.txt", true),
        ("tree/shared.txt", false),
    ] {
        world.put(path, "x");
        assert_eq!(is_shown(&world, path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_file_below_an_ignored_folder_cannot_be_included_again() {
    let world = World::new();
    world.put(
        ".gitignore",
        "/out/\n!/out/keep.md\n/logs/*\n!/logs/keep.md\n",
    );
    world.put("out/.gitignore", "!keep.md\n");
    for (path, expected) in [("out/keep.md", false), ("logs/keep.md", true)] {
        world.put(path, "x");
        assert_eq!(is_shown(&world, path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn rules_change_from_call_to_call() {
    let world = World::new();
    world.put("a.md", "x");
    assert!(is_shown(&world, "a.md").await);
    // Texts of the same length, at the same moment as far as the file system can tell.
    for (rules, expected) in [("a.md", false), ("b.md", true), ("a.md", false)] {
        world.put(".gitignore", rules);
        assert_eq!(is_shown(&world, "a.md").await, expected, "{rules}");
    }
}

#[tokio::test]
async fn rules_that_cannot_be_used_hide_everything() {
    let world = World::new();
    world.put("docs/a.md", "x");
    world.put("b.md", "x");
    world.put("docs/.gitignore", "# long\n".repeat(40_000));
    let error = world.error("read_file", json!({"path": "docs/a.md"})).await;
    assert!(error.message().contains("256 KiB"), "{error}");
    let listed = world.text("list_files", json!({})).await;
    assert!(
        listed.starts_with("b.md\t1\t1\ttext\ntotal: 1 "),
        "{listed}"
    );
    // Nothing is left out in silence.
    for (tool, arguments) in [
        ("list_files", json!({})),
        ("list_files", json!({"path": "docs"})),
        ("search_files", json!({"pattern": "x"})),
        ("search_files", json!({"pattern": "x", "path": "docs"})),
    ] {
        let text = world.text(tool, arguments).await;
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("skipped: 1 file or folder, in 'docs'"),
            "{tool}: {text}"
        );
        assert!(last.contains("256 KiB"), "{tool}: {text}");
    }
    // A link that leads outside, or nowhere, is none: git reads none either.
    for target in ["../absent", "/etc/hosts"] {
        std::fs::remove_file(world.path("docs/.gitignore")).unwrap();
        symlink(target, world.path("docs/.gitignore")).unwrap();
        assert!(is_shown(&world, "docs/a.md").await);
    }
}
