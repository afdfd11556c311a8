//! Four unlike folders, and what a report may say of them.

use crate::driver::{Run, Stage};
use crate::folder::Folder;
use std::path::Path;

pub(crate) fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Runs a goal and counts every statement of its report.
pub(crate) fn check(root: &Path, goal: &str, path: &str, only: &[&str], terms: &[&str]) -> Run {
    let run = Stage::new(root).run(goal);
    Folder::of(root, path, only).check(run.report(), terms);
    let answer = run.report().lines().nth(6).unwrap();
    let report = "Report:cairn-out/report.md";
    let plain = |text: &str| text.replace(['`', '"', ' '], "");
    assert_eq!(plain(run.answer()), format!("{}{report}", plain(answer)));
    run
}

pub(crate) fn docs(root: &Path) {
    write(
        root,
        "docs/memory.md",
        "# Memory\n\nSession memory is backed by Redis.\n\n## Storage\n\nRedis holds one namespace \
         a session.\nValkey works too.\n\n## Limits\n\n16 MiB a session in REDIS.\n",
    );
    write(
        root,
        "docs/deploy.md",
        "# Deploy\r\n\r\nStart Redis first.\r\n\r\n## Check\r\n\r\nDone.\r\n",
    );
    write(root, "docs/valkey.md", "# Valkey\n\nA fork.\n");
    write(root, "docs/intro.md", "# Intro\n\nNothing here.\n");
    write(root, "docs/logo.png", b"\x89PNG\0\0redis\0");
    write(root, "src/main.rs", "fn main() {} // Redis\n");
}

#[test]
fn documents_with_one_term() {
    let dir = tempfile::tempdir().unwrap();
    docs(dir.path());
    let goal = "Which files under docs mention Redis, and what do they say about it?";
    let run = check(dir.path(), goal, "docs", &[], &["Redis"]);
    assert_eq!(
        run.titles(),
        [
            "Survey docs",
            "Search for \"Redis\"",
            "Read the matches",
            "Write the report"
        ]
    );
    assert_eq!(
        run.answer(),
        "2 of 5 files under docs mention \"Redis\", in 4 lines: docs/memory.md:3, docs/deploy.md:3. \
         1 binary file was not searched. Report: cairn-out/report.md"
    );
    assert_eq!(
        run.steps[2].sub_goals,
        ["Read docs/memory.md", "Read docs/deploy.md"]
    );
    let reads = ["docs/memory.md", "docs/deploy.md"];
    assert_eq!(
        run.steps[2].reads,
        reads.map(|path| (Some(format!("Read {path}")), path.to_owned()))
    );
    for line in [
        "Below `## Storage` (`docs/memory.md:5`):",
        "- `Redis holds one namespace a session.` (`docs/memory.md:7`)",
        "- `docs/logo.png` is binary: 12 bytes (`list_files docs`).",
    ] {
        assert!(
            run.report().lines().any(|l| l == line),
            "{line}\n{}",
            run.report()
        );
    }
    assert_eq!(
        run,
        Stage::new(dir.path()).run(goal),
        "the same folder gives the same run"
    );
}

#[test]
fn documents_with_two_terms_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    docs(dir.path());
    let goal = "Compare what the Markdown files in docs/ say about \"Redis\" and \"Valkey\".";
    let run = check(dir.path(), goal, "docs", &[".md"], &["Redis", "Valkey"]);
    assert_eq!(run.titles()[4], "Compare");
    assert_eq!(
        run.steps[4].summary,
        "1 file with both \"Redis\" and \"Valkey\", 1 file with only \"Redis\", 1 file with only \
         \"Valkey\""
    );
}

#[test]
fn rust_sources() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(
        root,
        "src/main.rs",
        "mod store;\n\nfn main() {\n    // TODO: open the Session\n    let store = Store::open();\n}\n\n\
         struct Session {\n    store: Store, // TODO\n}\n",
    );
    write(
        root,
        "src/store.rs",
        "pub struct Store;\n\nimpl Store {\n    pub fn open() -> Self {\n        todo!()\n    }\n}\n",
    );
    write(root, "src/net/mod.rs", "//! Nothing of interest.\n");
    write(root, "src/notes.txt", "TODO: Session\n");
    write(root, "README.md", "# Session\n\nKeeps sessions.\n");
    let goal = "Where do the Rust files under src mention Session or TODO?";
    let run = check(root, goal, "src", &[".rs"], &["Session", "TODO"]);
    assert!(
        run.report()
            .contains("Below `fn main() {` (`src/main.rs:3`):"),
        "{}",
        run.report()
    );
    assert!(!run.report().contains("notes.txt"));
    // Without a term: how the files begin.
    let run = check(root, "Summarize this project", ".", &[], &[]);
    assert_eq!(
        run.titles(),
        [
            "Survey the workspace",
            "Read how the files begin",
            "Write the report"
        ]
    );
    assert!(run.report().contains("## `README.md`"));
    let begins =
        "README.md begins: # Session (README.md:1), Keeps sessions. (README.md:3). 5 files ";
    assert!(run.answer().starts_with(begins), "{}", run.answer());
}

#[test]
fn chinese_prose() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(
        root,
        "小说/第一回.txt",
        "第一回 宴桃园豪杰三结义\n\n刘备与关羽、张飞结义。\n曹操引兵而来。\n\n第二回 张翼德怒鞭督邮\n\n曹操献刀，刘备不知。\n",
    );
    write(
        root,
        "小说/第二回.txt",
        "第三回 议温明董卓叱丁原\n\n曹操曰：宁教我负天下人。\n",
    );
    write(
        root,
        "小说/人物 表.md",
        "# 人物\n\n## 魏\n\n曹操，字孟德。\n",
    );
    // GBK, which is not UTF-8: "曹操".
    write(root, "小说/旧稿.txt", b"\xb2\xdc\xb2\xd9\xa1\xa3\nplain\n");
    let goal = "在小说目录下，哪些文章提到了“曹操”和“刘备”？";
    let run = check(root, goal, "小说", &[], &["曹操", "刘备"]);
    assert!(
        run.answer()
            .starts_with("Of 4 files under 小说, 3 mention \"曹操\""),
        "{}",
        run.answer()
    );
    assert!(
        run.report()
            .contains("Below `第二回 张翼德怒鞭督邮` (`小说/第一回.txt:6`):")
    );
    let run = check(root, "小说目录里，张飞在哪里出现", "小说", &[], &["张飞"]);
    assert!(
        run.answer()
            .starts_with("1 of 4 files under 小说 mentions \"张飞\", in 1 line: ")
    );
}

#[test]
fn an_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    for goal in [
        "Which files mention Redis?",
        "Summarize this folder",
        "总结这个项目",
    ] {
        let run = Stage::new(dir.path()).run(goal);
        assert!(
            run.answer()
                .starts_with("There are no files in the workspace. "),
            "{goal}"
        );
        assert!(
            run.report()
                .contains("There are no files in the workspace."),
            "{goal}"
        );
        std::fs::remove_dir_all(dir.path().join("cairn-out")).unwrap();
    }
    let run = Stage::new(dir.path()).run("Compare \"a\" and \"b\" under nowhere");
    assert!(
        run.answer()
            .starts_with("The files under nowhere could not be listed: 'nowhere' is not"),
        "{}",
        run.answer()
    );
    assert_eq!(run.steps.len(), 6);
}

#[test]
fn binary_files_and_broken_text() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let noise: Vec<u8> = (0..4096_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    write(root, "noise.bin", noise);
    write(root, "zero", b"\0");
    write(root, "latin1.txt", b"caf\xe9 with Redis\nna\xefve\n");
    write(
        root,
        "broken.md",
        b"# \xff\xfe heading\n\nRedis \xc3\x28 here\n\xf0\x9f\x92\n",
    );
    write(root, "escape.log", b"\x1b[31mRedis\x1b[0m\x07\tred\n");
    let run = check(root, "Which files mention \"Redis\"?", ".", &[], &["Redis"]);
    assert!(
        run.answer()
            .starts_with("3 of 5 files in the workspace mention \"Redis\", in 3 lines")
    );
    assert!(run.report().contains("caf\u{fffd} with Redis"));
    assert!(run.report().contains("␛[31mRedis␛[0m␇"));
    assert!(!run.report().contains('\u{1b}'));
    check(root, "What is in this folder?", ".", &[], &[]);
}
