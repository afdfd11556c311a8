//! Which tools there are, and what is said of those that are not.

use crate::support::{FixedTime, World, counting};
use cairn_tools::{BuildError, Config, Deps, Effect, RegisterError, Tool, build, check};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn an_unknown_tool_names_the_nearest_and_all() {
    let world = World::with(|config, _| {
        config.deny = vec!["edit_file".to_owned(), "write_file".to_owned()];
    });
    let error = world.error("readfile", json!({})).await;
    assert_eq!(
        error.to_text(),
        "NotFound: there is no tool 'readfile'; did you mean 'read_file'?; tools: list_files, \
         read_file, search_files"
    );
    for odd in ["", "zzz", "read_file\n\u{1b}[31m", &"x".repeat(100_000)] {
        let error = world.error(odd, json!({})).await;
        assert_eq!(error.reason(), "NotFound");
        assert!(
            error.message().len() < 400 && !error.message().contains('\n'),
            "{error:?}"
        );
        assert!(!error.message().contains("did you mean 'write"), "{error}");
    }
}

#[tokio::test]
async fn denied_tools_are_neither_listed_nor_run() {
    let (first, first_count) = counting("first", Effect::Pure);
    let (second, second_count) = counting("second", Effect::Pure);
    let world = World::with(|config, deps| {
        deps.tools = vec![first, second];
        config.allow = Some(["first", "second"].map(str::to_owned).to_vec());
        config.deny = vec!["second".to_owned()];
    });
    let listed = world.listed().into_iter().map(|spec| spec.name);
    assert_eq!(listed.collect::<Vec<_>>(), ["first"]);
    world.text("first", json!({})).await;
    for (name, list) in [("second", "a rule denies"), ("read_file", "allow-list")] {
        let error = world.error(name, json!({})).await;
        assert_eq!(error.reason(), "Denied");
        assert!(error.message().contains(list), "{error}");
    }
    for near in ["First", "first ", "ﬁrst", "first\0", "fırst"] {
        assert_eq!(
            world.error(near, json!({})).await.reason(),
            "NotFound",
            "{near:?}"
        );
    }
    let counts = [&first_count, &second_count].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 0]);
}

#[tokio::test]
async fn a_list_that_names_no_tool_is_refused() {
    for change in [
        |config: &mut Config| config.deny = vec!["wrte_file".to_owned()],
        |config: &mut Config| config.allow = Some(vec!["wrte_file".to_owned()]),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut config = Config {
            workspace: folder.path().to_owned(),
            output: folder.path().join("cairn-out"),
            ..Config::default()
        };
        change(&mut config);
        let deps = Deps::new(Arc::new(FixedTime));
        let Err(BuildError::Config(faults)) = build(config, deps) else {
            panic!("accepted");
        };
        assert!(
            faults[0].problem.contains("'wrte_file', which is no tool"),
            "{faults:?}"
        );
    }
}

#[tokio::test]
async fn folders_that_cannot_be_are_refused() {
    let top = tempfile::TempDir::new().unwrap();
    let folder = |name: &str| top.path().join(name);
    std::fs::create_dir_all(folder("a/ws")).unwrap();
    std::fs::write(folder("file"), "").unwrap();
    std::fs::create_dir(folder("other")).unwrap();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(folder(target), folder(name)).unwrap();
    };
    link("a", "link");
    link("other", "a/ws/cairn-out");
    link("gone", "dangling");
    for (workspace, output, word) in [
        ("gone", "out", "cannot open the workspace"),
        ("file", "out", "cannot open the workspace"),
        ("a/ws", "a/ws", "is or holds the workspace"),
        ("a/ws", "a", "is or holds the workspace"),
        ("a/ws", "a/ws/../../a", "is or holds the workspace"),
        ("a/ws", "link", "is or holds the workspace"),
        ("a/ws", "file", "is a file"),
        (
            "a/ws",
            "a/ws/cairn-out",
            "a/ws/cairn-out' is a symbolic link",
        ),
        (
            "a/ws",
            "a/ws/cairn-out/below",
            "a/ws/cairn-out' is a symbolic link",
        ),
        ("a/ws", "dangling", "dangling' is a symbolic link"),
    ] {
        let config = Config {
            workspace: folder(workspace),
            output: folder(output),
            ..Config::default()
        };
        let error = build(config, Deps::new(Arc::new(FixedTime))).unwrap_err();
        assert!(
            error.to_string().contains(word),
            "{workspace} {output}: {error}"
        );
    }
}

#[tokio::test]
async fn names_are_taken_once() {
    let tool = |name: &str| counting(name, Effect::Pure).0;
    let with = |tools: Vec<Arc<dyn Tool>>| check(&Config::default(), &tools);
    for taken in ["a", "read_file"] {
        let Err(BuildError::Register(error)) = with(vec![tool("a"), tool(taken)]) else {
            panic!("'{taken}' is taken");
        };
        assert_eq!(error, RegisterError::Duplicate(taken.to_owned()));
    }
    for bad in ["", "a b", "a.b", "ä", &"a".repeat(65)] {
        let Err(BuildError::Register(error)) = with(vec![tool(bad)]) else {
            panic!("'{bad}' is no name");
        };
        assert_eq!(error, RegisterError::Name(bad.to_owned()));
    }
    let world = World::with(|config, deps| {
        deps.tools = vec![tool("b"), tool("a")];
        config.allow = Some(["a", "b"].map(str::to_owned).to_vec());
    });
    let error = world.error("c", json!({})).await;
    assert_eq!(error.message(), "there is no tool 'c'; tools: a, b");
    let world = World::with(|config, _| config.allow = Some(Vec::new()));
    let error = world.error("c", json!({})).await;
    assert_eq!(
        error.message(),
        "there is no tool 'c'; there are no tools at all"
    );
}
