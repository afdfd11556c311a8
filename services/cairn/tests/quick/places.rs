//! Where a store is: each workspace has one in the user's state folder, unless a place is named.

use crate::support::CAIRN;
use crate::support::shown;
use cairn_testkit::{Output, Site};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const PLAN: &str = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
const GOAL: &str = "Which files under docs mention Redis?";
/// No place for anything of a user.
const HOMELESS: [(&str, &str); 2] = [("HOME", ""), ("XDG_STATE_HOME", "")];

/// A site with the workspaces `one` and `two`.
fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    for folder in ["one", "two"] {
        site.write(&format!("{folder}/docs/a.md"), "Redis is a store.\n");
    }
    site
}

fn run_in(site: &Site, folder: &str, session: &str) -> Output {
    let run = [
        "run",
        "--in",
        folder,
        "--session",
        session,
        "--plan",
        "plan.json",
    ];
    site.run(&run)
}

fn check_done(output: &Output) {
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// The sessions that a command with these arguments lists.
fn sessions(site: &Site, arguments: &[&str]) -> usize {
    let listed = site.run(&[&["sessions", "--json"], arguments].concat());
    assert_eq!(listed.code, Some(0), "{listed:?}");
    listed.out.lines().count()
}

/// All names in the site, sorted.
fn names(site: &Site) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![site.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            names.push(path.display().to_string());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    names.sort();
    names
}

#[test]
fn two_folders_work_at_the_same_time() {
    let site = site();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--in", "one"];
    let first = site.start(&serve, &[]);
    assert!(
        first.first_line.contains("listening"),
        "{}",
        first.first_line
    );
    let serve = ["serve", "--listen", "127.0.0.1:0", "--in", "two"];
    let second = site.start(&serve, &[]);
    assert!(
        second.first_line.contains("listening"),
        "{}",
        second.first_line
    );
    check_done(&run_in(&site, "one", "a"));
    check_done(&run_in(&site, "two", "a"));
    check_done(&run_in(&site, "two", "b"));
    // Of the current folder, which nobody serves.
    check_done(&run_in(&site, ".", "c"));
    let counts = ["one", "two", "."].map(|folder| sessions(&site, &["--in", folder]));
    assert_eq!(counts, [1, 2, 1]);
    for folder in ["one", "two", ""] {
        assert!(site.store_of(folder).is_file(), "{folder:?}");
    }
}

#[test]
fn an_unfinished_run_stops_no_work_in_another_folder() {
    let site = site();
    let waits = [
        "run",
        "--in",
        "one",
        "--session",
        "s",
        "--max-turns",
        "1",
        GOAL,
    ];
    let waiting = site.run(&waits);
    assert_eq!(waiting.code, Some(3), "{waiting:?}");
    check_done(&run_in(&site, "two", "s"));
    check_done(&run_in(&site, ".", "s"));
    // What it says to type leads back to its store.
    let look = "cairn tree s --in one";
    assert!(waiting.out.contains(look), "{look}: {waiting:?}");
    let pending = site.run(&["pending", "s", "--in", "one"]);
    assert!(pending.out.contains("--in one"), "{pending:?}");
}

#[test]
fn a_folder_of_several_names_has_one_store() {
    let site = site();
    symlink("one", site.path().join("link")).expect("a link");
    check_done(&run_in(&site, "one", "a"));
    check_done(&run_in(&site, "link", "b"));
    check_done(&run_in(&site, "two/../one/.", "c"));
    let counts = ["one", "link"].map(|folder| sessions(&site, &["--in", folder]));
    assert_eq!(counts, [3, 3]);
    let mut inside = site.command(&["sessions", "--json"]);
    inside.current_dir(site.path().join("link"));
    let listed = inside.env("CAIRN_CONFIG", "").output().expect("a program");
    assert_eq!(listed.stdout.iter().filter(|it| **it == b'\n').count(), 3);
}

#[test]
fn nothing_of_a_store_is_in_the_workspace_and_it_is_for_its_user_alone() {
    let site = site();
    let before = names(&site);
    check_done(&run_in(&site, ".", "s"));
    check_done(&site.run(&["memory", "set", "key", "value", "--session", "s"]));
    let serving = site.start(
        &["serve", "--listen", "127.0.0.1:0"],
        &[("CAIRN_TOKEN", "")],
    );
    assert!(site.socket().exists(), "{}", serving.first_line);
    drop(serving);
    let mut after = names(&site);
    // What the process that was killed printed, and the tools' own folder.
    after.retain(|name| !name.ends_with(".log") && !name.contains("cairn-out"));
    assert_eq!(after, before);
    let folder = fs::metadata(site.beside_store("")).expect("a folder");
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_place_that_is_named_counts() {
    let site = site();
    check_done(&run_in(&site, "one", "a"));
    let flag = ["--in", "one", "--store", "flag.db"];
    let run = ["run", "--session", "b", "--plan", "plan.json"];
    check_done(&site.run(&[&run[..], &flag].concat()));
    check_done(&site.run_with(&run, &[("CAIRN_STORE", "variable.db")]));
    site.append("cairn.toml", "\n[store]\npath = \"file.db\"\n");
    check_done(&site.run(&run));
    for name in ["flag.db", "variable.db", "file.db"] {
        assert!(site.path().join(name).is_file(), "{name}");
        assert_eq!(sessions(&site, &["--store", name]), 1, "{name}");
    }
    assert!(!site.store().exists());
}

#[test]
fn without_a_home_a_store_needs_a_name() {
    let site = site();
    let commands: [&[&str]; 5] = [
        &["sessions"],
        &["run", "--plan", "plan.json"],
        &["pause", "s"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["serve", "memory", "--internal", "127.0.0.1:0"],
    ];
    for command in commands {
        let refused = site.run_with(command, &HOMELESS);
        let error = shown::error(&refused, 2);
        for part in ["XDG_STATE_HOME", "HOME", "--store", "CAIRN_STORE"] {
            assert!(error.contains(part), "{command:?}: {error}");
        }
    }
    let doctor = site.run_with(&["doctor"], &HOMELESS);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.out.contains("XDG_STATE_HOME"), "{doctor:?}");
    // What needs no store, and a store that is named.
    check_done(&site.run_with(&["config", "check"], &HOMELESS));
    let named = ["run", "--plan", "plan.json", "--store", "named.db"];
    check_done(&site.run_with(&named, &HOMELESS));
}

#[test]
fn a_missing_store_is_named_with_its_workspace_and_an_older_one() {
    let site = site();
    let place = site.store_of("one").display().to_string();
    let folder = fs::canonicalize(site.path().join("one")).expect("a folder");
    let folder = folder.display().to_string();
    let commands: [&[&str]; 3] = [&["sessions"], &["export", "s"], &["pause", "s"]];
    for command in commands {
        let error = shown::error(&site.run(&[command, &["--in", "one"]].concat()), 1);
        for part in [&*place, &folder, "--in", "--store"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("older version"), "{error}");
    }
    assert!(!site.has_store(), "looking made a store");
    for (older, named) in [
        ("one/.cairn/cairn.db", "--store one/.cairn/cairn.db"),
        (".cairn/cairn.db", "--store .cairn/cairn.db"),
    ] {
        site.write(older, "");
        let error = shown::error(&site.run(&["sessions", "--in", "one"]), 1);
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn doctor_names_the_store_and_its_workspace() {
    let site = site();
    check_done(&run_in(&site, "one", "s"));
    let doctor = site.run(&["doctor", "--in", "one"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    let folder = fs::canonicalize(site.path().join("one")).expect("a folder");
    for place in [site.store_of("one"), folder] {
        let place = place.display().to_string();
        assert!(doctor.out.contains(&place), "{place}: {doctor:?}");
    }
    let gone = site.run(&["doctor", "--in", "gone"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
}
