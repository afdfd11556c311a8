//! Paths that lead outside, or try to.
//!
//! A secret lies beside the workspace and beside the output folder. No tool may ever show it, and
//! nothing may ever be written outside the output folder.

use crate::support::World;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SECRET: &str = "TOP-SECRET-CANARY";

/// A workspace full of traps, with the secret in `<folder>/secret/` and `<folder>/secret.txt`.
fn trapped() -> World {
    let world = World::new();
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

/// Paths that must not lead anywhere; `{top}` is the folder with the secret.
const PATHS: &[&str] = &[
    // Upwards.
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
    // Absolute.
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
    // Links.
    "rel-dir/key",
    "abs-dir/key",
    "rel-file",
    "abs-file",
    "chain/key",
    "chain-file",
    "winding/key",
    "proc-cwd/Cargo.toml",
    "proc-root/etc/passwd",
    "root/etc/passwd",
    "up/secret.txt",
    "up/ws/inside.txt",
    "deep/../rel-dir/key",
    "deep/../up/secret.txt",
    "self",
    "self/x",
    "dangling",
    "dangling/x",
    // Encoded, or in the manner of other systems: names like any other, which are not there.
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
    // Names of devices elsewhere.
    "NUL",
    "CON",
    "AUX",
    "COM1",
    "LPT1.txt",
    "inside.txt:stream",
    "inside.txt::$DATA",
    // Not paths at all.
    "",
    " ",
    "\0",
    "inside.txt\0",
    "inside.txt\0.png",
    "../secret.txt\0.md",
    "\"../secret.txt\"",
    "\"\\x2e\\x2e/secret.txt\"",
    "\"\\x2e\\x2e\\x2fsecret.txt\"",
    "\"\\u{2e}./secret.txt\"",
    "\"\\x00\"",
    "\"\\",
    "-",
    "--help",
    "*",
    "?",
    "inside.txt\n../secret.txt",
    "inside.txt ",
    " inside.txt",
];

fn fill(path: &str, world: &World) -> String {
    path.replace("{top}", world.folder.path().to_str().unwrap())
}

/// Every file below `folder` with its content, links as what they point to.
fn snapshot(folder: &Path) -> BTreeMap<String, String> {
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
async fn refused(world: &World, tool: &str, arguments: Value) -> String {
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
    assert!(PATHS.len() >= 60);
    for path in PATHS {
        let path = fill(path, &world);
        refused(&world, "read_file", json!({"path": path})).await;
        refused(
            &world,
            "read_file",
            json!({"path": format!("cairn-out/{path}")}),
        )
        .await;
        refused(
            &world,
            "search_files",
            json!({"path": path, "pattern": "."}),
        )
        .await;
        if !path.starts_with("../ws/..") {
            refused(&world, "list_files", json!({"path": path})).await;
        }
    }
}

#[tokio::test]
async fn nothing_outside_is_written() {
    let world = trapped();
    let before = snapshot(world.folder.path());
    for path in PATHS {
        let path = fill(path, &world);
        // Beside the output folder nothing is writable, whatever the path.
        refused(&world, "write_file", json!({"path": path, "content": "x"})).await;
        let leads_outside = path.contains("..")
            && !path.contains(['%', '\\', ';', '\u{2215}', '\u{ff0f}', '\n'])
            && !path.contains("....")
            || [
                "-dir/",
                "chain/",
                "winding/",
                "proc-",
                "root/",
                "up/",
                "self/",
                "dangling/",
            ]
            .iter()
            .any(|link| path.contains(link) && !path.starts_with('/'))
            || path.contains('\0')
            || path.ends_with('/');
        if leads_outside {
            let path = format!("cairn-out/{path}");
            refused(&world, "write_file", json!({"path": path, "content": "x"})).await;
        }
    }
    assert_eq!(snapshot(world.folder.path()), before);
}

#[tokio::test]
async fn odd_names_are_written_inside_and_links_are_replaced() {
    let world = trapped();
    let top = world.folder.path();
    let outside = |world: &World| {
        let mut all = snapshot(world.folder.path());
        let out = world.output("").display().to_string();
        all.retain(|path, _| !path.starts_with(&out));
        all
    };
    let before = outside(&world);
    for path in [
        "%2e%2e%2fsecret.txt",
        "..\\secret.txt",
        "NUL",
        "$(pwd)",
        "C:\\x",
        "/etc/passwd",
    ] {
        let path = format!("cairn-out/{path}");
        world
            .text("write_file", json!({"path": path, "content": "x"}))
            .await;
    }
    for link in ["rel-file", "abs-file", "self", "dangling"] {
        let path = format!("cairn-out/{link}");
        world
            .text("write_file", json!({"path": path, "content": "new"}))
            .await;
        assert!(
            fs::symlink_metadata(world.output(link)).unwrap().is_file(),
            "{link}"
        );
    }
    assert_eq!(outside(&world), before);
    assert_eq!(fs::read_to_string(top.join("secret.txt")).unwrap(), SECRET);
    // Beneath cairn-out an absolute path is a path below it.
    assert_eq!(fs::read_to_string(world.output("etc/passwd")).unwrap(), "x");
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
            "Denied: path '/etc/passwd' leaves the workspace",
        ),
        (
            "rel-dir/key",
            "Denied: path 'rel-dir/key' leaves the workspace",
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
        json!({"pattern": "."}),
        json!({"pattern": "SECRET", "path": "cairn-out"}),
    ] {
        let arguments = {
            let mut arguments = arguments;
            arguments["regex"] = json!(true);
            arguments
        };
        let text = world.text("search_files", arguments).await;
        assert!(!text.contains(SECRET), "{text}");
    }
    let text = world.text("list_files", json!({})).await;
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains("total: 2 files"), "{text}");
}

/// A thread that exchanges a folder and a link to outside under the same name, as fast as it can.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Swapper {
    fn start(folder: &Path, target: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (name, link) = (folder.join("swap"), folder.join("link"));
        fs::create_dir_all(&name).unwrap();
        fs::write(name.join("key"), "harmless").unwrap();
        symlink(target, &link).unwrap();
        let thread = std::thread::spawn(move || {
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &name, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                rounds += 1;
            }
            rounds
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[tokio::test]
async fn a_folder_exchanged_for_a_link_in_the_middle_leads_nowhere() {
    let world = trapped();
    let secret = world.folder.path().join("secret");
    let swapper = Swapper::start(&world.path("race"), &secret);
    let (mut hits, mut misses) = (0, 0);
    for round in 0..1500 {
        let result = match round % 3 {
            0 => {
                world
                    .call("read_file", json!({"path": "race/swap/key"}))
                    .await
                    .result
            }
            1 => {
                let arguments = json!({"path": "race/swap", "pattern": "."});
                world.call("search_files", arguments).await.result
            }
            _ => {
                world
                    .call("list_files", json!({"path": "race"}))
                    .await
                    .result
            }
        };
        match result {
            Ok(output) => {
                assert!(!output.text.contains(SECRET), "{}", output.text);
                hits += 1;
            }
            Err(error) => {
                assert!(!error.message().contains(SECRET), "{error}");
                misses += 1;
            }
        }
    }
    assert!(swapper.finish() > 100);
    assert!(
        hits > 0 && misses > 0,
        "{hits} hits, {misses} misses: there was no race"
    );
}

#[tokio::test]
async fn a_folder_exchanged_while_writing_is_not_left() {
    let world = trapped();
    let secret = world.folder.path().join("secret");
    let swapper = Swapper::start(&world.output("race"), &secret);
    for round in 0..300 {
        let arguments = json!({"path": format!("cairn-out/race/swap/f{round}"), "content": "x"});
        _ = world.call("write_file", arguments).await;
    }
    assert!(swapper.finish() > 100);
    let names: Vec<_> = fs::read_dir(&secret)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["key"]);
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), SECRET);
}
