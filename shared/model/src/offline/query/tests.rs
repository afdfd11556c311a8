use super::*;

/// What is understood of `goal`: folder, patterns, terms.
fn check(goal: &str, path: &str, only: &[&str], terms: &[&str]) {
    let query = Query::parse(goal);
    assert_eq!(query.scope.path, path, "folder of: {goal}");
    assert_eq!(query.scope.only, only, "patterns of: {goal}");
    assert_eq!(query.terms, terms, "terms of: {goal}");
    assert_eq!(query.refusal, None, "{goal}");
}

#[test]
fn english_goals() {
    check(
        "Which files under docs mention Redis, and what do they say about it?",
        "docs",
        &[],
        &["Redis"],
    );
    check(
        "Find every TODO and FIXME in the Rust files in src/.",
        "src",
        &["*.rs"],
        &["TODO", "FIXME"],
    );
    check(
        "Where is `unwrap()` used in *.rs?",
        ".",
        &["*.rs"],
        &["unwrap()"],
    );
    check("which files mention redis", ".", &[], &["redis"]);
    check(
        "List the Markdown files under docs and their sizes.",
        "docs",
        &["*.md", "*.markdown"],
        &[],
    );
    check(
        "Compare \"leases\" with \"locks\" in the design folder",
        "design",
        &[],
        &["leases", "locks"],
    );
    check("Summarize this project", ".", &[], &[]);
    check(
        "Which chapters mention Jean Valjean or Javert?",
        ".",
        &[],
        &["Jean Valjean", "Javert"],
    );
}

#[test]
fn english_goals_on_named_files() {
    check(
        "What does README.md say about Redis?",
        ".",
        &["README.md"],
        &["Redis"],
    );
    check(
        "Compare README.md and docs/intro.md",
        ".",
        &["README.md", "docs/intro.md"],
        &[],
    );
    check("Outline docs/intro.md", "docs", &["docs/intro.md"], &[]);
    check(
        "Which files mention Node.js or foo.rs?",
        ".",
        &[],
        &["Node.js", "foo.rs"],
    );
    check(
        "What is said about errors in \"my notes\" folder?",
        "my notes",
        &[],
        &["error"],
    );
    check("Which folder mentions Redis?", ".", &[], &["Redis"]);
    check(
        "Where is snake_case used with error 404?",
        ".",
        &[],
        &["snake_case", "404"],
    );
}

#[test]
fn questions_in_everyday_words() {
    check("How are leases renewed?", ".", &[], &["lease"]);
    check(
        "Where is the function decide_state called?",
        ".",
        &[],
        &["decide_state"],
    );
    check("list all files larger than 1 MB", ".", &[], &[]);
    check("Count the lines of code in src", "src", &[], &[]);
    check("Which files mention functions?", ".", &[], &["function"]);
    check("Find all TODOs in the code", ".", &[], &["TODO"]);
    check(
        "Search for \"durable\" in the README",
        ".",
        &["README.md"],
        &["durable"],
    );
    check(
        "What do the docs say about session memory and checkpoints?",
        ".",
        &[],
        &["session", "memory", "checkpoint"],
    );
    check(
        "Which files mention Redis, sqlite or postgres?",
        ".",
        &[],
        &["Redis", "sqlite", "postgres"],
    );
    check(
        "show me every place where we call tokio::spawn",
        ".",
        &[],
        &["tokio::spawn"],
    );
    check("Who wrote this?", ".", &[], &[]);
    check(
        "Make a list of all the functions in src/lib.rs",
        "src",
        &["src/lib.rs"],
        &[],
    );
    check(
        "Explain the architecture of this repository",
        ".",
        &[],
        &["architecture"],
    );
}

#[test]
fn chinese_goals() {
    check(
        "docs 目录下哪些文件提到了会话记忆？",
        "docs",
        &[],
        &["会话记忆"],
    );
    check(
        "哪些文件提到了“持久化”和「租约」？",
        ".",
        &[],
        &["持久化", "租约"],
    );
    check("在小说目录下查找曹操", "小说", &[], &["曹操"]);
    check(
        "统计 src/ 下 Rust 代码里的 TODO",
        "src",
        &["*.rs"],
        &["TODO"],
    );
    check("总结这个项目", ".", &[], &[]);
    check(
        "列出提到 Redis 和持久化的 Markdown 文件",
        ".",
        &["*.md", "*.markdown"],
        &["Redis", "持久化"],
    );
    check("哪些文章写到茶？", ".", &[], &["茶"]);
    check("这个项目是做什么的？", ".", &[], &[]);
    check("分析 src 目录的结构", "src", &[], &[]);
    check(
        "曹操和刘备分别出现在哪些章节？",
        ".",
        &[],
        &["曹操", "刘备"],
    );
    check("小说目录里，张飞在哪里出现", "小说", &[], &["张飞"]);
    check("README.md 里说了什么", ".", &["README.md"], &[]);
}

#[test]
fn a_fifth_term_is_left_out_and_said_to_be() {
    let query = Query::parse("Find \"a\", \"b\", \"A\", \"c\", \"d\" and \"e\"");
    assert_eq!(query.terms, ["a", "b", "c", "d"]);
    assert_eq!(query.left_out, ["e"]);
}

#[test]
fn a_scope_admits_by_ending_and_by_name() {
    let scope = |only: &[&str]| Scope {
        path: ".".into(),
        only: only.iter().map(|p| (*p).into()).collect(),
    };
    assert!(scope(&[]).admits("any thing"));
    assert!(scope(&["*.md"]).admits("a/B.MD") && !scope(&["*.md"]).admits("a/md"));
    assert!(scope(&["a.md"]).admits("x/a.md") && !scope(&["a.md"]).admits("x/ba.md"));
    assert!(!scope(&[]).admits("cairn-out/report.md"));
}

#[test]
fn a_goal_as_long_as_a_book_is_read_in_no_time() {
    for unit in [
        "alpha",
        "Beta ",
        "词语的",
        "\"q\" ",
        "a/b.md, ",
        "\"",
        "docs ",
        "x",
    ] {
        let goal: String = (0..8_000).map(|n| format!("{unit}{}", n % 977)).collect();
        let query = Query::parse(&goal);
        assert!(query.terms.len() <= MAX_TERMS && query.left_out.len() <= MAX_LEFT_OUT);
    }
}
