//! Rules of the repository that a reader relies on.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below a folder with that ending, and what they say.
fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                let text = fs::read_to_string(&path).expect("a text");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no .{ending} files below {folder}");
    found
}

fn code() -> Vec<(PathBuf, String)> {
    [files("shared", "rs"), files("services", "rs")].concat()
}

/// The dependencies of a crate, those for tests left out.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest
        .split("[dependencies]")
        .nth(1)
        .expect("dependencies");
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn manifest(krate: &str) -> String {
    fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a manifest")
}

/// People learn from the examples, so each has to fit into a reader's head. The helpers that they share
/// are not one of them.
#[test]
fn no_example_is_longer_than_200_lines() {
    let long: Vec<_> = files("services/cairn/examples", "rs")
        .into_iter()
        .filter(|(path, _)| !path.ends_with("common/mod.rs"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > 200)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_engine_and_the_views_have_no_clock_no_chance_and_no_io() {
    let engine = [
        "globset",
        "serde",
        "serde_json",
        "postcard",
        "sha2",
        "thiserror",
    ];
    check_pure("shared/engine", &engine);
    check_pure("shared/views", &["cairn-engine", "serde_json"]);
    let agents = [
        "cairn-engine",
        "serde",
        "serde-saphyr",
        "serde_json",
        "strsim",
        "thiserror",
    ];
    check_pure("shared/agents", &agents);
}

fn check_pure(folder: &str, allowed: &[&str]) {
    for name in dependencies(&manifest(folder)) {
        assert!(allowed.contains(&&*name), "{folder} depends on {name}");
    }
    let forbidden = [
        "std::fs",
        "std::net",
        "std::time",
        "std::process",
        "std::env",
        "std::thread",
    ];
    for (path, text) in files(&format!("{folder}/src"), "rs") {
        for word in forbidden {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn only_memory_names_its_stores() {
    let crates = ["shared", "services"]
        .map(|folder| files(folder, "toml"))
        .concat();
    let names = |text: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.starts_with("rusqlite") || line.starts_with("redis"))
    };
    for (path, text) in crates {
        let is_memory = path.ends_with("services/memory/Cargo.toml");
        assert_eq!(names(&text), is_memory, "{}", path.display());
    }
}

#[test]
fn only_http_builds_http_clients() {
    for (path, text) in code() {
        let is_http = path.components().any(|part| part.as_os_str() == "http");
        let is_this = path.ends_with("quick/repository.rs");
        let builders = [
            "ClientBuilder",
            "Client::builder(",
            "reqwest::Client::new(",
            "use hyper_util::client",
        ];
        let built = builders.iter().find(|name| text.contains(*name));
        assert!(
            is_http || is_this || built.is_none(),
            "{} uses {built:?}",
            path.display()
        );
    }
}

#[test]
fn no_service_depends_on_another() {
    let services = ["memory", "tools", "executor", "planner", "orchestrator"];
    for service in services {
        for name in dependencies(&manifest(&format!("services/{service}"))) {
            let other = services
                .iter()
                .find(|other| name == format!("cairn-{other}"));
            assert!(other.is_none(), "{service} depends on {name}");
        }
    }
}

#[test]
fn libraries_use_only_those_before_them() {
    let order = [
        "engine",
        "agents",
        "views",
        "proto",
        "http",
        "model",
        "rpc",
        "supervise",
        "hooks",
        "boot",
    ];
    for (position, library) in order.iter().enumerate() {
        for name in dependencies(&manifest(&format!("shared/{library}"))) {
            let later = order[position..]
                .iter()
                .find(|later| name == format!("cairn-{later}"));
            assert!(later.is_none(), "{library} depends on {name}");
            assert!(
                !services_have(&name),
                "{library} depends on the service {name}"
            );
        }
    }
}

fn services_have(name: &str) -> bool {
    let folder = name.strip_prefix("cairn-").unwrap_or(name);
    root().join("services").join(folder).is_dir()
}

#[test]
fn nothing_is_left_for_later_in_silence() {
    for (path, text) in code() {
        let is_this = path.ends_with("quick/repository.rs");
        let found = text.lines().find(|line| is_left_for_later(line));
        assert!(is_this || found.is_none(), "{}: {found:?}", path.display());
    }
}

/// Whether a line has a stub in its code, or a note in its comment. Words that models and tests search
/// for stand in quotes. A test may be left to a script of `deploy` that sets up what it needs.
fn is_left_for_later(line: &str) -> bool {
    if line.trim_start().starts_with("#[ignore = \"deploy/") {
        return false;
    }
    let (code, comment) = without_strings(line);
    let stubs = ["todo!(", "unimplemented!(", "#[ignore"];
    let notes = ["TODO:", "FIXME"];
    stubs.iter().any(|stub| code.contains(stub)) || notes.iter().any(|it| comment.contains(it))
}

/// The code of a line, without what stands between quotes, and its comment.
fn without_strings(line: &str) -> (String, &str) {
    let (mut code, mut rest, mut is_string) = (String::new(), line, false);
    while let Some(c) = rest.chars().next() {
        if !is_string && rest.starts_with("//") {
            return (code, rest);
        }
        let taken = if is_string && c == '\\' { 2 } else { 1 };
        is_string ^= c == '"';
        if !is_string && c != '"' {
            code.push(c);
        }
        let next = rest.char_indices().nth(taken);
        rest = next.map_or("", |(at, _)| &rest[at..]);
    }
    (code, "")
}

#[test]
fn a_note_in_a_line_with_quotes_is_found() {
    assert!(is_left_for_later("let x = \"a\"; // TODO: rename \"x\""));
    assert!(is_left_for_later("unimplemented!(\"x\")"));
    assert!(!is_left_for_later("search(\"// TODO: x\")"));
    assert!(is_left_for_later("#[ignore]"));
    assert!(is_left_for_later("#[ignore = \"slow\"]"));
    assert!(!is_left_for_later(
        "#[ignore = \"deploy/test-mcp runs it\"]"
    ));
    assert!(!is_left_for_later("const TODO: &str = \"\\"));
}

/// Where there is no `redis-server`, `-E 'not test(redis)'` leaves out what needs one.
#[test]
fn tests_that_start_redis_say_so_in_their_names() {
    let servers = [
        "RedisServer",
        "RedisSentinel",
        "RedisCluster",
        "TestStore::redis",
        "TestStore::cluster",
        "TestStore::sentinel",
    ];
    let is_named = |path: &Path| path.to_string_lossy().contains("redis");
    let tests = code().into_iter().filter_map(|(path, text)| {
        let place = path.strip_prefix(root()).expect("below it").to_owned();
        let is_test = place.components().any(|part| part.as_os_str() == "tests");
        (is_test && !is_named(&place)).then_some((path, text))
    });
    for (path, text) in tests.filter(|(path, _)| !path.ends_with("quick/repository.rs")) {
        let plain = outside_of_redis(&text);
        let names = |line: &&str| servers.iter().any(|it| line.contains(it));
        let is_import = |line: &str| line.trim_start().starts_with("use ");
        if !plain.iter().any(|line| names(line) && !is_import(line)) {
            continue;
        }
        let mut unnamed = tests_of(&plain);
        // What only helps others is used by the tests at the top.
        let top = path.parent().expect("a folder").with_extension("rs");
        if let (true, Ok(text)) = (unnamed.is_empty(), fs::read_to_string(top)) {
            unnamed = tests_of(&outside_of_redis(&text));
        }
        assert!(unnamed.is_empty(), "{}: {unnamed:?}", path.display());
    }
}

/// The lines of a file that are not in its `mod redis`.
fn outside_of_redis(text: &str) -> Vec<&str> {
    let mut is_redis = false;
    let is_outside = |line: &&str| {
        is_redis |= *line == "mod redis {";
        let is_outside = !is_redis;
        is_redis &= *line != "}";
        is_outside
    };
    text.lines().filter(is_outside).collect()
}

/// The names of tests that do not say that they need Redis.
fn tests_of(lines: &[&str]) -> Vec<String> {
    let tests = lines.iter().zip(lines.iter().skip(1));
    let tests =
        tests.filter(|(line, _)| line.contains("#[test]") || line.contains("#[tokio::test"));
    let names = tests.map(|(_, name)| name.trim().to_owned());
    names.filter(|name| !name.contains("redis")).collect()
}

/// A request goes down the modules of the orchestrator, in the order of its front page.
#[test]
fn the_modules_of_the_orchestrator_import_in_one_direction() {
    let front = fs::read_to_string(root().join("services/orchestrator/src/lib.rs"));
    let front = front.expect("a front page");
    let rows = front
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `")?.split('|').next());
    let order: Vec<&str> = rows
        .flat_map(|names| names.split(['`', ',', ' ']))
        .filter(|name| !name.is_empty())
        .collect();
    assert!(order.len() > 10, "{order:?}");
    let place = |name: &str| order.iter().position(|module| *module == name);
    for (path, text) in files("services/orchestrator/src", "rs") {
        let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        let below = path
            .components()
            .skip_while(|part| part.as_os_str() != "src");
        let module = below.skip(1).find_map(|part| part.as_os_str().to_str());
        let module = module.expect("a module").trim_end_matches(".rs");
        let Some(own) = place(module) else { continue };
        // Every module is named after `crate::`, so that this test sees it.
        assert!(!code.contains("crate::{"), "{}", path.display());
        let used = code.split("crate::").skip(1).filter_map(|rest| {
            let name = rest
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()?;
            Some((name, place(name)?))
        });
        for (name, other) in used {
            assert!(other >= own, "{}: {module} uses {name}", path.display());
        }
    }
}
