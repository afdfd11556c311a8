//! What the offline model reports of a folder, counted again by code of this test.
//!
//! The program works with its real tools. Every line of its report must be of a form that is known
//! here; every number in it is counted again, every line that it cites is looked up, and nothing
//! that it should have found is missing.

mod folder;
mod marked;
mod report;

use crate::support::CAIRN;
use cairn_testkit::Site;
use folder::Folder;
use report::{Found, check};
use std::collections::BTreeSet;

/// A file's path and bytes.
type File = (&'static str, &'static [u8]);

const SOURCES: [File; 8] = [
    ("Cargo.toml", b"[package]\nname = \"net\"\nversion = \"0.1.0\"\n"),
    ("README.md", b"# Net\n\nA client with a timeout.\n\n## Limits\n\nEvery call has a Timeout; see `src/client.rs`.\n"),
    ("src/lib.rs", b"//! A client.\n\npub mod client;\npub mod server;\n"),
    ("src/client.rs", b"//! Asking.\n\nuse std::time::Duration;\n\n/// A client.\npub struct Client {\n    /// No answer takes longer.\n    timeout: Duration,\n}\n\nimpl Client {\n    /// With this timeout.\n    pub fn new(timeout: Duration) -> Self {\n        Self { timeout }\n    }\n}\n"),
    ("src/server.rs", b"//! Answering.\n\npub enum Answer {\n    Fine,\n}\n\npub fn answer() -> Answer {\n\tAnswer::Fine\n}\n"),
    (".hidden", b"timeout\n"),
    (".gitignore", b"target\n"),
    ("target/built.rs", b"const TIMEOUT: u8 = 1;\n"),
];

const PROSE: [File; 4] = [
    ("设计.md", "# 分布式存储\n\n数据库是一种存储。\n我们使用 Redis 作为缓存数据库。\n\n## 部署\n\n生产环境用容器。\n".as_bytes()),
    ("日志 一.md", "# 记录\n\n昨天数据库停机了三次。\nredis 没有问题。\n".as_bytes()),
    ("笔记/会议.txt", "会议记录：讨论数据库选型，结论是先用 SQLite。".as_bytes()),
    ("笔记/空.txt", b""),
];

const BROKEN: [File; 5] = [
    ("blob.bin", b"\0\x01\x02timeout\n"),
    (
        "broken.txt",
        b"good line\nbad \xff\xfe line with timeout\n\xe6\x95 half a character, timeout\n",
    ),
    ("crlf.txt", b"timeout one\r\nno\r\n"),
    ("last.txt", b"no line end after timeout"),
    ("quoted.txt", b"a `timeout` in ``quotes`` \\ and | a bar\n"),
];

/// Works towards a goal in a folder, and counts its report again.
fn recount(files: &[File], goal: &str) -> (Found, Folder) {
    let site = Site::new(CAIRN);
    let folder = Folder::write(&site.path().join("folder"), files);
    let done = site.run(&["run", "--in", "folder", goal]);
    assert_eq!(done.code, Some(0), "{goal}: {done:?}");
    let report = site.read("cairn-out/report.md").expect("a report");
    assert!(report.contains(&format!("Goal: `{goal}`")), "{report}");
    (check(&report, &folder), folder)
}

/// A search finds every line with the word, in whatever case, and no other.
fn check_search(files: &[File], goal: &str, word: &str) {
    let (found, folder) = recount(files, goal);
    assert_eq!(found.word.as_deref(), Some(word));
    let all: BTreeSet<_> = folder.lines_with(word).into_iter().collect();
    assert_eq!(found.quoted_in("Lines with"), all);
    assert!(!all.is_empty());
}

/// A survey tells of every file that is text.
fn check_survey(files: &[File]) {
    let (found, folder) = recount(files, "Survey this folder");
    assert_eq!(found.word, None);
    for file in folder.files.values().filter(|file| !file.is_binary()) {
        let reported = found.sections.contains(&format!("`{}`", file.path));
        assert!(
            reported || file.lines().is_empty(),
            "nothing is told of {}",
            file.path
        );
    }
}

#[test]
fn sources_are_searched() {
    let goal = "Which files mention timeout, and what do they say about it?";
    check_search(&SOURCES, goal, "timeout");
}

#[test]
fn sources_are_surveyed() {
    check_survey(&SOURCES);
}

#[test]
fn chinese_prose_is_searched() {
    check_search(&PROSE, "哪些文件提到数据库？它们说了什么？", "数据库");
}

#[test]
fn chinese_prose_is_surveyed() {
    check_survey(&PROSE);
}

#[test]
fn broken_text_and_binaries_are_searched() {
    check_search(&BROKEN, "Which files mention timeout?", "timeout");
}

#[test]
fn broken_text_and_binaries_are_surveyed() {
    check_survey(&BROKEN);
}

#[test]
fn an_empty_folder_is_reported_to_be_empty() {
    for goal in ["Survey this folder", "Which files mention timeout?"] {
        let (found, _) = recount(&[], goal);
        assert!(found.says_empty, "{goal}");
    }
}
