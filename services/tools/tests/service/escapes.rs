//! Paths that lead outside, or try to.
//!
//! A secret lies beside the workspace and beside the output folder. No tool may ever show it, and
//! nothing may ever be written outside these folders.

use crate::support::{World, request};
use cairn_tools::Write;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub(crate) const SECRET: &str = "TOP-SECRET-CANARY";

/// A workspace full of traps, with the secret in `<folder>/secret/` and `<folder>/secret.txt`.
pub(crate) fn trapped() -> World {
    trapped_with(Write::Out)
}

/// The same, with writes in the workspace as the setting says.
pub(crate) fn trapped_with(write: Write) -> World {
    let world = World::with(|config, _| config.write = write);
    let top = world.folder.path().to_owned();
    fs::create_dir(top.join("secret")).unwrap();
    fs::write(top.join("secret/key"), SECRET).unwrap();
    fs::write(top.join("secret.txt"), SECRET).unwrap();
    fs::create_dir_all(top.join("out/deep")).unwrap();
    world.put("inside.txt", "inside");
    world.put("deep/er/inside.txt", "inside");
    for base in [top.join("ws"), top.join("out")] {
        let link = |target: &Path, name: &str| symlink(target, base.join(name)).unwrap();
        link(Path::new("../secret"), "rel-dir");
        link(&top.join("secret"), "abs-dir");
        link(Path::new("../secret.txt"), "rel-file");
        link(&top.join("secret.txt"), "abs-file");
        link(Path::new("rel-dir"), "chain");
        link(Path::new("chain/key"), "chain-file");
        link(Path::new("deep/../../secret"), "winding");
        link(Path::new("/proc/self/cwd"), "proc-cwd");
        link(Path::new("/proc/self/root"), "proc-root");
        link(Path::new("/"), "root");
        link(Path::new(".."), "up");
        link(Path::new("self"), "self");
        link(Path::new("../gone"), "dangling");
    }
    world
}

/// Paths that lead outside of whatever folder they are meant in.
const LEADING_OUT: &[&str] = &[
    "..",
    "../",
    "../secret.txt",
    "../secret/key",
    "./../secret.txt",
    ".//..//secret.txt",
    "deep/../../secret.txt",
    "deep/er/../../../secret.txt",
    "deep/./er/./../.././../secret.txt",
    "nothing/../../secret.txt",
    "inside.txt/../../secret.txt",
    "../ws/../secret.txt",
    "../../../../../../../../../../etc/passwd",
    "deep/../../../../../../../../etc/passwd",
    "\"../secret.txt\"",
    "\"\\x2e\\x2e/secret.txt\"",
    "\"\\x2e\\x2e\\x2fsecret.txt\"",
    "\"\\u{2e}./secret.txt\"",
    "rel-dir/key",
    "abs-dir/key",
    "chain/key",
    "winding/key",
    "proc-cwd/Cargo.toml",
    "proc-root/etc/passwd",
    "root/etc/passwd",
    "up/secret.txt",
    "up/ws/inside.txt",
    "deep/../rel-dir/key",
    "deep/../up/secret.txt",
    "self/x",
    "dangling/x",
];

/// Links to files outside, or to nothing.
const LINKED_FILES: &[&str] = &["rel-file", "abs-file", "chain-file", "self", "dangling"];

/// Absolute paths; `{top}` is the folder with the secret.
const ABSOLUTE: &[&str] = &[
    "/",
    "//",
    "/etc/passwd",
    "//etc/passwd",
    "///etc///passwd",
    "/./etc/passwd",
    "/../etc/passwd",
    "{top}/secret.txt",
    "{top}/secret/key",
    "{top}/ws/inside.txt",
    "/proc/self/environ",
    "/proc/self/cwd/inside.txt",
    "/proc/self/root/etc/passwd",
    "/proc/1/environ",
    "/dev/fd/0",
    "/dev/stdin",
];

/// Encoded, in the manner of other systems, or names of devices there: here they are names like
/// any other, of files that are not there.
const NAMES: &[&str] = &[
    "%2e%2e/secret.txt",
    "%2e%2e%2fsecret.txt",
    "..%2fsecret.txt",
    "..%252fsecret.txt",
    "..%c0%afsecret.txt",
    "..\\secret.txt",
    "..\\..\\secret.txt",
    "\\\\server\\share",
    "C:\\secret.txt",
    "C:/secret.txt",
    "file:///etc/passwd",
    "file://{top}/secret.txt",
    "~/secret.txt",
    "~root/.ssh/id_rsa",
    "$HOME/secret.txt",
    "${HOME}",
    "`pwd`",
    "$(pwd)",
    "..;/secret.txt",
    "....//secret.txt",
    "..\u{2215}secret.txt",
    "..\u{ff0f}secret.txt",
    "\u{2024}\u{2024}/secret.txt",
    "\u{ff0e}\u{ff0e}/secret.txt",
    ".\u{200b}./secret.txt",
    "NUL",
    "CON",
    "AUX",
    "COM1",
    "LPT1.txt",
    "inside.txt:stream",
    "inside.txt::$DATA",
    "\"\\",
    "-",
    "--help",
    "*",
    "?",
    " ",
    "inside.txt\n../secret.txt",
    "inside.txt ",
    " inside.txt",
];

/// No paths at all.
const SENSELESS: &[&str] = &[
    "",
    "\0",
    "inside.txt\0",
    "inside.txt\0.png",
    "../secret.txt\0.md",
    "\"\\x00\"",
];

fn fill(path: &str, world: &World) -> String {
    path.replace("{top}", world.folder.path().to_str().unwrap())
}

/// The path meant in the output folder; a quoted one stays quoted.
fn beneath_output(path: &str) -> String {
    match path.strip_prefix('"') {
        Some(rest) if rest.ends_with('"') => format!("\"cairn-out/{rest}"),
        _ => format!("cairn-out/{path}"),
    }
}

/// Every file below `folder` with its content, links as what they point to.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.path().display().to_string();
            let kind = entry.file_type().unwrap();
            if kind.is_symlink() {
                all.insert(
                    name,
                    fs::read_link(entry.path()).unwrap().display().to_string(),
                );
            } else if kind.is_dir() {
                all.insert(name, String::new());
                open.push(entry.path());
            } else {
                all.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    all
}

/// The answer of a tool, which must be an error and must not hold the secret.
pub(crate) async fn refused(world: &World, tool: &str, arguments: Value) -> String {
    let shown = arguments.to_string();
    let error = match world.call(tool, arguments).await.result {
        Err(error) => error,
        Ok(output) => panic!("{tool} {shown} gives {}", output.text),
    };
    assert!(!error.message().contains(SECRET), "{tool} {shown}: {error}");
    assert!(error.message().len() < 1000, "{tool} {shown}: {error}");
    assert!(
        !error.message().contains(['\0', '\n']),
        "{tool} {shown}: {error:?}"
    );
    let reason = error.reason();
    assert!(
        ["Denied", "InvalidArguments", "ExecutionFailed"].contains(&reason),
        "{tool} {shown}: {reason}"
    );
    error.to_text()
}

#[tokio::test]
async fn nothing_outside_is_read() {
    let world = trapped();
    let all = [LEADING_OUT, LINKED_FILES, ABSOLUTE, NAMES, SENSELESS].concat();
    assert!(all.len() >= 60);
    for path in all {
        let path = fill(path, &world);
        refused(&world, "read_file", json!({"path": path})).await;
        refused(&world, "read_file", json!({"path": beneath_output(&path)})).await;
        refused(
            &world,
            "search_files",
            json!({"path": path, "pattern": "."}),
        )
        .await;
        refused(&world, "list_files", json!({"path": path})).await;
    }
}

#[tokio::test]
async fn nothing_outside_is_written() {
    let world = trapped();
    let before = snapshot(world.folder.path());
    // Beside the output folder nothing is writable, whatever the path.
    for path in [LEADING_OUT, LINKED_FILES, ABSOLUTE, NAMES, SENSELESS].concat() {
        let path = fill(path, &world);
        refused(&world, "write_file", json!({"path": path, "content": "x"})).await;
    }
    assert_eq!(snapshot(world.folder.path()), before);
    for path in LEADING_OUT {
        let path = beneath_output(path);
        refused(&world, "write_file", json!({"path": path, "content": "x"})).await;
    }
    let mut after = snapshot(world.folder.path());
    // Folders on the way to `..` are made, as in `nothing/../../secret.txt`.
    for folder in ["nothing", "inside.txt", "deep/er"] {
        after.remove(&world.output(folder).display().to_string());
    }
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_workspace_that_tools_write_is_not_left() {
    let world = trapped_with(Write::Allow);
    let before = snapshot(world.folder.path());
    for path in [LEADING_OUT, LINKED_FILES, ABSOLUTE, SENSELESS].concat() {
        let path = fill(path, &world);
        let write = json!({"path": path, "content": "x"});
        refused(&world, "write_file", write.clone()).await;
        let request = request("write_file", &write.to_string());
        let previewed = world.tools.invoker().preview(request).await;
        let error = previewed.expect_err(&path);
        assert!(!error.message().contains(SECRET), "{path}: {error}");
        let edit = json!({"path": path, "old": SECRET, "new": "x"});
        refused(&world, "edit_file", edit).await;
        let edit = json!({"path": beneath_output(&path), "old": SECRET, "new": "x"});
        refused(&world, "edit_file", edit).await;
    }
    assert_eq!(snapshot(world.folder.path()), before);
    // Names like any other.
    for name in NAMES {
        let path = fill(name, &world);
        let text = world
            .text("write_file", json!({"path": path, "content": "x"}))
            .await;
        assert!(!text.contains('\n'), "{text}");
    }
    let outside = |mut all: BTreeMap<String, String>| {
        let inside = world.path("").display().to_string();
        all.retain(|path, _| !path.starts_with(&inside));
        all
    };
    assert_eq!(outside(snapshot(world.folder.path())), outside(before));
}

#[tokio::test]
async fn odd_names_are_written_inside_and_links_are_replaced() {
    let world = trapped();
    let outside = |world: &World| {
        let mut all = snapshot(world.folder.path());
        let out = world.output("").display().to_string();
        all.retain(|path, _| !path.starts_with(&out));
        all
    };
    let before = outside(&world);
    for name in NAMES {
        let path = beneath_output(&fill(name, &world));
        let text = world
            .text("write_file", json!({"path": path, "content": "x"}))
            .await;
        assert!(!text.contains('\n'), "{text}");
    }
    for link in LINKED_FILES {
        let path = beneath_output(link);
        world
            .text("write_file", json!({"path": path, "content": "new"}))
            .await;
        assert!(
            fs::symlink_metadata(world.output(link)).unwrap().is_file(),
            "{link}"
        );
    }
    // Beneath cairn-out an absolute path is a path below it.
    world
        .text(
            "write_file",
            json!({"path": "cairn-out//etc/passwd", "content": "x"}),
        )
        .await;
    assert_eq!(fs::read_to_string(world.output("etc/passwd")).unwrap(), "x");
    assert_eq!(outside(&world), before);
}

#[tokio::test]
async fn the_message_says_what_to_do() {
    let world = trapped();
    for (path, expected) in [
        (
            "../secret.txt",
            "Denied: path '../secret.txt' leaves the workspace; give a path inside it",
        ),
        (
            "/etc/passwd",
            "Denied: path '/etc/passwd' is absolute; give it from the workspace",
        ),
        (
            "rel-dir/key",
            "Denied: 'rel-dir/key' is a link or leads through one",
        ),
        (
            "cairn-out/rel-dir/key",
            "Denied: path 'cairn-out/rel-dir/key' leaves the output folder",
        ),
        (
            "cairn-out/../secret.txt",
            "leaves the output folder cairn-out/; give a path inside it",
        ),
        ("./cairn-out/./../ws/inside.txt", "leaves the output folder"),
        (
            "",
            "InvalidArguments: path is \"\"; it must have at least 1",
        ),
        ("a\0b", "InvalidArguments: the path holds a NUL"),
    ] {
        let text = refused(&world, "read_file", json!({"path": path})).await;
        assert!(text.contains(expected), "{path}: {text}");
    }
    let text = refused(
        &world,
        "write_file",
        json!({"path": "report.md", "content": ""}),
    )
    .await;
    assert!(
        text.contains("Denied: 'report.md' is not under cairn-out/"),
        "{text}"
    );
    assert!(text.contains("cairn-out/report.md"), "{text}");
    for folder in [
        "cairn-out",
        "cairn-out/",
        "cairn-out/a/",
        "cairn-out/.",
        "cairn-out/a/..",
    ] {
        let text = refused(&world, "write_file", json!({"path": folder, "content": ""})).await;
        assert!(text.contains("names a folder"), "{folder}: {text}");
    }
}

#[tokio::test]
async fn paths_that_stay_inside_work_however_they_are_written() {
    let world = trapped();
    for path in [
        "inside.txt",
        "./inside.txt",
        ".//inside.txt",
        "deep/../inside.txt",
        "deep/er/../../inside.txt",
        "deep/er/inside.txt",
        "deep//er///inside.txt",
        "\"inside.txt\"",
        "\"\\x69nside.txt\"",
    ] {
        let text = world.text("read_file", json!({"path": path})).await;
        assert!(text.ends_with("\n1\tinside"), "{path}: {text}");
    }
}

#[tokio::test]
async fn walks_do_not_leave_either() {
    let world = trapped();
    for arguments in [
        json!({"pattern": ".", "regex": true}),
        json!({"pattern": "SECRET", "path": "cairn-out"}),
    ] {
        let text = world.text("search_files", arguments).await;
        assert!(!text.contains(SECRET), "{text}");
    }
    let text = world.text("list_files", json!({})).await;
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains("total: 2 files"), "{text}");
}
