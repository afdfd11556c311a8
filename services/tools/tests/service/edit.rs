//! `edit_file`.

use crate::support::{World, request};
use cairn_tools::Write;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old": old, "new": new})
}

#[tokio::test]
async fn one_occurrence_is_replaced_and_the_rest_stays() {
    let world = World::new();
    for (before, old, new, after) in [
        ("a - b\n", "a - b", "a + b", "a + b\n"),
        ("one\ntwo\nthree\n", "two\n", "", "one\nthree\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", "1\r\n2\r\n3\r\n"),
        ("tail", "tail", "tail\nmore", "tail\nmore"),
        ("ä € 🦀", "€", "$", "ä $ 🦀"),
    ] {
        world.put("src/a.txt", before);
        let text = world.text("edit_file", edit("src/a.txt", old, new)).await;
        let said = "edited src/a.txt: replaced one occurrence; it has ";
        assert!(text.starts_with(said), "{text}");
        assert_eq!(fs::read_to_string(world.path("src/a.txt")).unwrap(), after);
    }
    world.put("src/a.txt", "x\nx\nx");
    let all = json!({"path": "./src//a.txt", "old": "x", "new": "y", "all": true});
    assert_eq!(
        world.text("edit_file", all).await,
        "edited src/a.txt: replaced every occurrence; it has 3 lines now"
    );
    assert_eq!(
        fs::read_to_string(world.path("src/a.txt")).unwrap(),
        "y\ny\ny"
    );
    let names: Vec<_> = fs::read_dir(world.path("src")).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file");
}

/// Edits that are refused, each with the reason and words of the error.
#[rustfmt::skip]
fn refused() -> Vec<(Value, &'static str, &'static str)> {
    let long = "y".repeat(60);
    vec![
        (edit("a.txt", "three", "x"), "InvalidArguments", "'old' does not occur in 'a.txt'"),
        (edit("a.txt", "two", "x"), "InvalidArguments", "occurs 2 times in 'a.txt', at lines 2, 3"),
        (edit("a.txt", "", "x"), "InvalidArguments", "'old' is empty"),
        (edit("a.txt", "one", "one"), "InvalidArguments", "nothing would change"),
        (edit("a.txt", "one", &long), "TooLarge", "would have"),
        (edit("latin.txt", "caf", "x"), "ExecutionFailed", "is no UTF-8 text"),
        (edit("binary", "a", "x"), "ExecutionFailed", "is no UTF-8 text"),
        (edit("huge.txt", "x", "y"), "TooLarge", "has 65 bytes; files of up to 64"),
        (edit(".env", "secret", "x"), "Denied", "is hidden"),
        (edit("run.log", "one", "x"), "Denied", "is ignored by git"),
        (edit("link.txt", "one", "x"), "Denied", "is a link"),
        (edit("linked/b.txt", "one", "x"), "Denied", "leads through one"),
        (edit("folder", "one", "x"), "ExecutionFailed", "is a folder"),
        (edit("folder/", "one", "x"), "InvalidArguments", "names a folder"),
        (edit("none.txt", "one", "x"), "ExecutionFailed", "there is no 'none.txt'"),
        (edit("none/a.txt", "one", "x"), "ExecutionFailed", "there is no 'none/a.txt'"),
        (edit("../a.txt", "one", "x"), "Denied", "leaves the workspace"),
    ]
}

#[tokio::test]
async fn what_cannot_be_edited_is_said() {
    let world = World::with(|config, _| config.limits.write_bytes = 64);
    world.put("a.txt", "one\ntwo\ntwo\n");
    world.put("latin.txt", b"caf\xe9\n");
    world.put("binary", b"a\0b\xff");
    world.put("huge.txt", "x".repeat(65));
    world.put(".env", "KEY=secret\n");
    world.put(".gitignore", "*.log\n");
    world.put("run.log", "one\n");
    world.put("folder/b.txt", "one\n");
    symlink("a.txt", world.path("link.txt")).unwrap();
    symlink("folder", world.path("linked")).unwrap();
    for (arguments, reason, words) in refused() {
        let error = world.error("edit_file", arguments.clone()).await;
        assert_eq!(error.reason(), reason, "{arguments}: {error}");
        assert!(error.message().contains(words), "{arguments}: {error}");
        assert!(!error.message().contains("KEY"), "{arguments}: {error}");
    }
    let text = fs::read_to_string(world.path("a.txt")).unwrap();
    assert_eq!(text, "one\ntwo\ntwo\n");
}

#[tokio::test]
async fn mode_and_owner_stay() {
    let world = World::new();
    world.put("run.sh", "echo one\n");
    let path = world.path("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    // Only a privileged process gives files away.
    let is_given = chown(&path, Some(65534), Some(65534)).is_ok();
    let before = fs::metadata(&path).unwrap();
    world.text("edit_file", edit("run.sh", "one", "two")).await;
    let edited = fs::metadata(&path).unwrap();
    assert_ne!(edited.ino(), before.ino(), "it was replaced");
    world
        .text(
            "write_file",
            json!({"path": "run.sh", "content": "echo three\n"}),
        )
        .await;
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_eq!(is_given, after.uid() == 65534);
    assert_eq!(fs::read_to_string(path).unwrap(), "echo three\n");
}

#[tokio::test]
async fn the_setting_keeps_writes_to_the_output_folder() {
    let world = World::with(|config, _| config.write = Write::Out);
    world.put("a.txt", "one\n");
    for (tool, arguments) in [
        ("edit_file", edit("a.txt", "one", "two")),
        ("write_file", json!({"path": "a.txt", "content": "two"})),
    ] {
        let error = world.error(tool, arguments.clone()).await;
        assert_eq!(error.reason(), "Denied");
        assert!(
            error.message().contains("is not under cairn-out/"),
            "{error}"
        );
        let request = request(tool, &arguments.to_string());
        let previewed = world.tools.invoker().preview(request).await;
        assert_eq!(previewed.unwrap_err().reason(), "Denied");
    }
    let write = json!({"path": "cairn-out/a/b.md", "content": "one\ntwo\n"});
    world.text("write_file", write).await;
    let text = world
        .text("edit_file", edit("cairn-out/a/b.md", "two", "2"))
        .await;
    assert!(text.starts_with("edited cairn-out/a/b.md: "), "{text}");
    assert_eq!(
        fs::read_to_string(world.output("a/b.md")).unwrap(),
        "one\n2\n"
    );
    symlink("a/b.md", world.output("link.md")).unwrap();
    let error = world
        .error("edit_file", edit("cairn-out/link.md", "2", "3"))
        .await;
    assert!(error.message().contains("is a link"), "{error}");
}

/// A rule decides where the default is to ask.
#[tokio::test]
async fn the_output_folder_needs_no_person() {
    use cairn_engine::rules::{Answer, DEFAULT_AGENT, scope};
    for (write, inside, outside) in [
        (Write::Ask, Answer::Allow, Answer::Ask),
        (Write::Allow, Answer::Allow, Answer::Allow),
    ] {
        let world = World::with(|config, _| config.write = write);
        let specs = world.listed();
        let rules = world.tools.invoker().permissions().rules();
        for tool in ["edit_file", "write_file"] {
            let spec = specs.iter().find(|spec| spec.name == tool).unwrap();
            let answer = |path: &str| {
                let arguments = json!({"path": path}).to_string();
                let scope = scope(&spec.matchers, &arguments, &[]);
                rules
                    .judge(tool, &scope, DEFAULT_AGENT, spec.default)
                    .answer
            };
            assert_eq!(answer("cairn-out/a.md"), inside, "{write:?} {tool}");
            assert_eq!(answer("cairn-out/../a.md"), outside, "{write:?} {tool}");
            assert_eq!(answer("src/cairn-out/a.md"), outside, "{write:?} {tool}");
            assert_eq!(answer("a.md"), outside, "{write:?} {tool}");
        }
    }
    let world = World::with(|config, _| config.deny = vec!["write_file".to_owned()]);
    let write = json!({"path": "cairn-out/a.md", "content": "x"});
    assert_eq!(world.error("write_file", write).await.reason(), "Denied");
}

/// Without a preview, a call may be sent again after its result was lost.
#[tokio::test]
async fn a_repeat_without_a_preview_changes_nothing_more() {
    let world = World::new();
    world.put("a.txt", "use one;\n");
    let insert = edit("a.txt", "use one;\n", "use one;\nuse two;\n");
    world.text("edit_file", insert.clone()).await;
    let text = world.text("edit_file", insert).await;
    assert!(text.contains("has 'new' already, at line 1"), "{text}");
    let now = fs::read_to_string(world.path("a.txt")).unwrap();
    assert_eq!(now, "use one;\nuse two;\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_of_one_file_at_one_time_are_all_made() {
    let world = World::new();
    let text: String = (0..40).map(|n| format!("<{n}>\n")).collect();
    world.put("a.txt", &text);
    let calls = (0..40).map(|n| {
        let arguments = edit("a.txt", &format!("<{n}>"), &format!("[{n}]"));
        request("edit_file", &arguments.to_string())
    });
    for outcome in world.tools.invoker().invoke_all(calls.collect()).await {
        outcome.result.unwrap();
    }
    let now = fs::read_to_string(world.path("a.txt")).unwrap();
    assert_eq!(now, text.replace('<', "[").replace('>', "]"));
}
