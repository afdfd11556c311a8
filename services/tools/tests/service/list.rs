//! `list_files`, and what all file tools have in common.

use crate::support::World;
use cairn_engine::text::counted;
use cairn_tools::ToolError;
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

#[tokio::test]
async fn a_listing_is_sorted_by_path_and_ends_with_totals() {
    let world = World::new();
    world.put("b.md", "one\ntwo\n");
    world.put("a.txt", "no line end");
    world.put("a/z.md", "");
    world.put("a/b/c.bin", b"\0\x01\x02");
    world.put("a-b.md", "x\r\ny\r\n");
    let text = world.text("list_files", json!({})).await;
    assert_eq!(
        text,
        "a-b.md\t6\t2\ttext\n\
         a.txt\t11\t1\ttext\n\
         a/b/c.bin\t3\t-\tbinary\n\
         a/z.md\t0\t0\ttext\n\
         b.md\t8\t2\ttext\n\
         total: 5 files, 28 bytes, 4 text, 1 binary"
    );
}

#[tokio::test]
async fn a_listing_is_cut_at_max_and_counts_all() {
    let world = World::new();
    for n in 0..5 {
        world.put(&format!("f{n}"), "x");
    }
    let text = world.text("list_files", json!({"max": 2})).await;
    assert_eq!(
        text,
        "f0\t1\t1\ttext\nf1\t1\t1\ttext\ntotal: 5 files, 5 bytes, 5 text, 0 binary\n\
         truncated: showing the first 2"
    );
    let exact = world.text("list_files", json!({"max": 5})).await;
    assert!(!exact.contains("truncated"), "{exact}");
}

#[tokio::test]
async fn a_listing_fits_its_limit_and_keeps_its_totals() {
    let world = World::with(|config, _| config.limits.output_bytes = 2048);
    for n in 0..200 {
        world.put(&format!("folder/{n:03}-a-rather-long-name.txt"), "x");
    }
    let text = world.text("list_files", json!({})).await;
    assert!(text.len() <= 2048, "{}", text.len());
    assert!(text.contains("total: 200 files"), "{text}");
    assert!(text.ends_with("truncated: showing the first 35"), "{text}");
    assert!(!text.contains("[cut"));
}

#[tokio::test]
async fn a_listing_is_one_page_unless_the_call_gives_max() {
    let world = World::new();
    for n in 0..400 {
        world.put(&format!("{n:03}-{}", "n".repeat(120)), "x");
    }
    let page = world.text("list_files", json!({})).await;
    assert!(page.len() <= 32 * 1024, "{}", page.len());
    assert!(page.contains("total: 400 files"), "{page}");
    assert!(page.contains("truncated: showing the first 2"), "{page}");
    let whole = world.text("list_files", json!({"max": 400})).await;
    assert_eq!(whole.lines().count(), 401);
    assert!(whole.contains("\ntotal: 400 files") && !whole.contains("truncated"));
}

#[tokio::test]
async fn hidden_ignored_and_output_files_are_left_out() {
    let world = World::with(|config, _| config.output = config.workspace.join("results"));
    world.put(
        ".gitignore",
        "*.log\n/target/\nbuild/\n!keep.log\n# note\n\\#odd\n",
    );
    world.put("docs/.gitignore", "secret.md\n!loud.log\n");
    for file in [
        ".env",
        ".git/config",
        "docs/.hidden/x",
        "a.log",
        "keep.log",
        "target/x",
        "docs/target/kept",
        "docs/build/x",
        "docs/secret.md",
        "docs/loud.log",
        "docs/quiet.log",
        "secret.md",
        "#odd",
        "cairn-out/shadowed",
        "docs/cairn-out/kept",
        "results/report.md",
        "plain",
    ] {
        world.put(file, "x");
    }
    let text = world.text("list_files", json!({})).await;
    let paths: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(
        paths,
        [
            "docs/cairn-out/kept",
            "docs/loud.log",
            "docs/target/kept",
            "keep.log",
            "plain",
            "secret.md"
        ]
    );
    // The rules from above hold when the walk starts below.
    let docs = world.text("list_files", json!({"path": "docs"})).await;
    assert!(
        !docs.contains("quiet.log") && !docs.contains("build"),
        "{docs}"
    );
    // A name makes no difference.
    let target = world.error("list_files", json!({"path": "target"})).await;
    assert!(target.message().contains("ignored by git"), "{target}");
    let output = world.text("list_files", json!({"path": "cairn-out"})).await;
    assert!(
        output.starts_with("cairn-out/report.md\t1\t1\ttext\n"),
        "{output}"
    );
}

#[tokio::test]
async fn patterns_choose_by_name_or_by_path() {
    let world = World::new();
    for file in [
        "a.md",
        "docs/b.md",
        "docs/deep/c.md",
        "docs/d.txt",
        "src/e.md",
    ] {
        world.put(file, "x");
    }
    for (arguments, expected) in [
        (json!({"pattern": "*.md"}), 4),
        (json!({"pattern": "docs/*.md"}), 1),
        (json!({"pattern": "docs/**/*.md"}), 2),
        (json!({"pattern": "./docs/**"}), 3),
        (json!({"pattern": "{a,e}.md"}), 2),
        (json!({"pattern": "[a-c].md"}), 3),
        (json!({"path": "docs", "pattern": "*.md"}), 2),
        (json!({"path": "docs", "pattern": "deep/*.md"}), 1),
        (json!({"path": "docs", "pattern": "docs/deep/*.md"}), 1),
        (json!({"path": "./docs/", "pattern": "*.txt"}), 1),
        (json!({"path": "docs/b.md"}), 1),
        (json!({"pattern": "nothing"}), 0),
    ] {
        let text = world.text("list_files", arguments.clone()).await;
        assert!(
            text.contains(&format!("total: {}", counted(expected, "file"))),
            "{arguments}: {text}"
        );
    }
    let error = world.error("list_files", json!({"pattern": "a[b"})).await;
    assert_eq!(error.reason(), "InvalidArguments");
}

#[tokio::test]
async fn links_and_pipes_are_not_listed_and_loops_do_no_harm() {
    let world = World::new();
    world.put("real/a.md", "x");
    symlink("..", world.path("real/up")).unwrap();
    symlink("real", world.path("twin")).unwrap();
    symlink("real/a.md", world.path("file-link")).unwrap();
    symlink("self", world.path("self")).unwrap();
    symlink("/etc", world.path("etc")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let text = world.text("list_files", json!({})).await;
    assert_eq!(
        text,
        "real/a.md\t1\t1\ttext\ntotal: 1 file, 1 byte, 1 text, 0 binary"
    );
    // A name makes no difference.
    let twin = world.error("list_files", json!({"path": "twin"})).await;
    assert!(twin.message().contains("is a link"), "{twin}");
    // A pipe without a writer must not hold anything up.
    for tool in ["read_file", "list_files"] {
        let error = world.error(tool, json!({"path": "pipe"})).await;
        assert!(error.message().contains("not a regular file"), "{error}");
    }
}

#[tokio::test]
async fn walks_are_bounded() {
    let world = World::with(|config, _| {
        config.limits.walk_entries = 10;
        config.limits.walk_depth = 2;
    });
    world.put("a/b/c/d/too-deep", "x");
    world.put("a/b/there", "x");
    let text = world.text("list_files", json!({})).await;
    assert!(text.starts_with("a/b/there\t"), "{text}");
    assert!(text.contains("more than 2 levels down"), "{text}");
    for n in 0..20 {
        world.put(&format!("f{n}"), "x");
    }
    let text = world.text("list_files", json!({})).await;
    assert!(
        text.ends_with("truncated: stopped after 10 entries; give a narrower path"),
        "{text}"
    );
}

#[tokio::test]
async fn large_files_are_reported_apart_without_being_read() {
    let world = World::with(|config, _| {
        config.limits.file_bytes = 100;
        config.limits.total_bytes = 250;
    });
    world.put("a-text", "line\n".repeat(100));
    world.put("b-binary", [b"\0".as_slice(), &[b'x'; 499]].concat());
    for n in 0..4 {
        world.put(&format!("c{n}"), "1234567\n".repeat(10));
    }
    let text = world.text("list_files", json!({})).await;
    assert!(text.contains("a-text\t500\t-\ttext\n"), "{text}");
    assert!(text.contains("b-binary\t500\t-\tbinary\n"), "{text}");
    assert!(
        text.contains("total: 6 files, 1320 bytes, 5 text, 1 binary"),
        "{text}"
    );
}

#[tokio::test]
async fn odd_names_stay_on_their_line_and_can_be_read() {
    let world = World::new();
    let names: [&[u8]; 7] = [
        b"new\nline.md",
        b"tab\there.md",
        b"bad\xff\xfe.md",
        b"\"quoted\".md",
        b"back\\slash\n.md",
        "line\u{2028}sep.md".as_bytes(),
        "\u{202e}dm.exe".as_bytes(),
    ];
    for name in names {
        std::fs::write(world.path("").join(OsStr::from_bytes(name)), "needle\n").unwrap();
    }
    let text = world.text("list_files", json!({})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), names.len() + 1, "{text}");
    for line in &lines[..names.len()] {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells[1..], ["7", "1", "text"], "{line}");
        let read = world.text("read_file", json!({"path": cells[0]})).await;
        assert_eq!(read, format!("{} lines 1-1 of 1\n1\tneedle", cells[0]));
    }
    let found = world
        .text("search_files", json!({"pattern": "needle"}))
        .await;
    assert_eq!(found.lines().count(), names.len() + 1, "{found}");
    assert!(found.contains("\"new\\nline.md\":1:\tneedle"), "{found}");
}

#[tokio::test]
async fn what_the_system_forbids_is_said_and_passed_over() {
    let world = World::new();
    world.put("locked/a.md", "x");
    world.put("open.md", "x");
    let lock =
        |mode| std::fs::set_permissions(world.path("locked"), PermissionsExt::from_mode(mode));
    lock(0o000).unwrap();
    // A superuser may read everything: then there is nothing to see.
    let is_forbidden = std::fs::read_dir(world.path("locked")).is_err();
    let text = world.text("list_files", json!({})).await;
    let read = world
        .call("read_file", json!({"path": "locked/a.md"}))
        .await;
    lock(0o755).unwrap();
    assert!(text.contains("open.md\t1"), "{text}");
    if is_forbidden {
        assert!(
            text.contains("skipped: 1 folder could not be read"),
            "{text}"
        );
        let Err(ToolError::ExecutionFailed(message)) = read.result else {
            panic!("it was read");
        };
        assert!(message.contains("does not permit"), "{message}");
    }
}

/// Root reads everything; the work's thread and those that it starts may not.
fn without_rights<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let limited = || {
        let none = CapabilitySet::empty();
        let none = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        set_capabilities(None, none).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(work())
    };
    std::thread::scope(|scope| scope.spawn(limited).join().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_is_unreadable_and_not_binary() {
    without_rights(async || {
        let world = World::new();
        world.put("a.bin", b"\0");
        world.put("b.md", "one\n");
        world.put("closed.md", "two\n");
        let no_rights = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(world.path("closed.md"), no_rights).unwrap();
        let text = world.text("list_files", json!({})).await;
        assert_eq!(
            text,
            "a.bin\t1\t-\tbinary\n\
             b.md\t4\t1\ttext\n\
             closed.md\t0\t-\tunreadable\n\
             total: 3 files, 5 bytes, 1 text, 1 binary, 1 unreadable"
        );
        let error = world.error("read_file", json!({"path": "closed.md"})).await;
        let words = "the system does not permit access to 'closed.md'";
        assert!(error.message().contains(words), "{error}");
    });
}
