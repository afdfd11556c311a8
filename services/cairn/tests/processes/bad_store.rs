//! Stores, folders, sockets and plans that are not as they should be, with the real program.
//!
//! Each ends with a clear error and the right exit code, and leaves nothing half done.

mod damaged;
mod golden;

use crate::support::CAIRN;
use crate::support::shown::{self, error};
use cairn_testkit::{Output, Site};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];
const LOOK: &str = r#"{"steps": [{"tool": "list_files", "arguments": {"path": "docs"}}]}"#;

/// Panics unless the command failed with that code and said all of this.
fn check_failed(output: &Output, code: i32, says: &[&str]) {
    let error = error(output, code);
    for part in says {
        assert!(error.contains(part), "{part:?} is not said: {output:?}");
    }
}

fn look(site: &Site) -> Output {
    site.write("plan.json", LOOK);
    site.run(&["run", "--plan", "plan.json"])
}

fn check_done(output: &Output) {
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// A site with a store in which a run has ended, and nobody who holds it.
fn used_site() -> Site {
    let site = Site::new(CAIRN);
    check_done(&look(&site));
    let log = site.beside_store("cairn.db-wal");
    assert!(!log.exists(), "a command left before its store was whole");
    site
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    // Files of SQLite that a closed store need not leave.
    names.retain(|name| !name.ends_with("-shm") && !name.ends_with("-wal"));
    names.sort();
    names
}

#[test]
fn a_full_disk_stops_a_run_and_more_room_lets_it_go_on() {
    let site = Site::new(CAIRN);
    site.write(
        "docs/long.md",
        &format!("{}\n", "y".repeat(1000)).repeat(55),
    );
    let step = r#"{"tool": "read_file", "arguments": {"path": "docs/long.md"}}"#;
    let steps = [step; 48].join(",");
    site.write("plan.json", &format!("{{\"steps\": [{steps}]}}"));
    let small = [("CAIRN_STORE__MAX_PAGES", "256")];
    let arguments = ["run", "--session", "big", "--plan", "plan.json"];
    let full = site.run_with(&arguments, &small);
    let says = [
        "the store is full",
        "256 pages",
        "store.max_pages",
        "cairn resume",
    ];
    check_failed(&full, 1, &says);
    let journal = site.journal("big");
    journal.check();
    let before = journal.of_kind("step_completed").len();
    assert!((1..48).contains(&before), "{before} steps");
    assert!(
        journal.of_kind("run_failed").is_empty(),
        "a full disk is no failure of the run"
    );

    check_failed(&site.run_with(&["resume", "big"], &small), 1, &says);
    check_done(&site.run(&["resume", "big"]));
    let journal = site.journal("big");
    journal.check();
    assert_eq!(journal.of_kind("step_completed").len(), 48);
    assert_eq!(journal.of_kind("run_completed").len(), 1);
    println!("full after {before} of 48 steps, twice, and completed with more room");
}

#[test]
fn a_path_that_can_be_no_store_is_refused_and_nothing_is_touched() {
    let site = used_site();
    site.write(
        "notes.txt",
        "no database, but longer than the header of one\n",
    );
    site.write("noise.db", &"noise".repeat(2000));
    let store = fs::read(site.store()).expect("a store");
    let mut newer = store.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    let mut foreign = store.clone();
    foreign[68..72].copy_from_slice(&7_u32.to_be_bytes());
    for (name, bytes) in [
        ("newer.db", newer.as_slice()),
        ("foreign.db", &foreign),
        ("half.db", &store[..store.len() / 2]),
        ("page.db", &store[..4096]),
        ("header.db", &store[..50]),
    ] {
        fs::write(site.path().join(name), bytes).expect("a file");
    }
    let paths = [
        "docs",
        "docs/one.md/x.db",
        "/proc/none/x.db",
        "/dev/null",
        "notes.txt",
        "noise.db",
        "newer.db",
        "foreign.db",
        "half.db",
        "header.db",
    ];
    let mut errors = String::new();
    for path in paths {
        let before = fs::read(site.path().join(path)).ok();
        for arguments in [
            &["run", "--plan", "plan.json", "--store", path][..],
            &["sessions", "--store", path],
            &["resume", "--store", path],
            &["memory", "set", "key", "value", "--store", path],
            &["serve", "--listen", "127.0.0.1:0", "--store", path],
        ] {
            let error = error(&site.run(arguments), 1);
            errors.push_str(&format!("--- {}\n{error}\n", arguments.join(" ")));
        }
        let after = fs::read(site.path().join(path)).ok();
        assert_eq!(before, after, "{path} was changed");
    }
    shown::settings(&site).bind(|| insta::assert_snapshot!("paths_that_can_be_no_store", errors));
    let names = names(site.path());
    let left = |name: &&String| name.ends_with(".sock") || name.ends_with(".lock");
    assert_eq!(names.iter().find(left), None);
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking() {
    let site = Site::new(CAIRN);
    for arguments in [
        &["sessions"][..],
        &["tree"],
        &["export", "s"],
        &["watch", "s"],
        &["pending"],
    ] {
        check_failed(
            &site.run(arguments),
            1,
            &["there is no store", "begin with"],
        );
    }
    assert!(!site.has_store());
}

#[test]
fn a_second_holder_is_refused_and_other_commands_attach() {
    let site = Site::new(CAIRN);
    let first = site.start(&SERVE, &[]);
    assert!(
        first.first_line.contains("listening"),
        "{}",
        first.first_line
    );
    let second = site.run(&SERVE);
    check_failed(&second, 1, &["another process holds the store", "--store"]);
    check_done(&look(&site));
    assert_eq!(site.sessions().len(), 1);
    drop(first);
    // Killed: its socket is still there and leads nowhere.
    assert!(site.socket().exists());
    assert_eq!(site.sessions().len(), 1);
    check_done(&look(&site));
    assert!(!site.socket().exists());
}

#[test]
fn what_lies_at_the_place_of_the_socket_does_not_matter() {
    let site = used_site();
    let socket = site.socket();
    drop(UnixListener::bind(&socket).expect("a socket"));
    check_done(&look(&site));
    fs::write(&socket, "a file").expect("a file");
    check_done(&look(&site));
    assert_eq!(site.sessions().len(), 3);
    fs::create_dir(&socket).expect("a folder");
    check_failed(&look(&site), 1, &["cannot listen on", "cairn.sock"]);
    assert_eq!(
        names(socket.parent().expect("a folder")),
        [
            ".gitignore",
            "cairn.db",
            "cairn.db.lock",
            "cairn.db.workspace",
            "cairn.sock"
        ]
    );
    assert_eq!(
        site.sessions().len(),
        3,
        "a run began in spite of the error"
    );
}

/// Such as one in a state folder that lies deep. The system takes 107 bytes for the path of a socket.
#[cfg(target_os = "linux")]
#[test]
fn a_store_whose_socket_has_a_long_path_is_held_and_reached() {
    let site = Site::new(CAIRN);
    site.write("plan.json", LOOK);
    let deep = site.path().join("long".repeat(50)).display().to_string();
    let state = [("XDG_STATE_HOME", deep.as_str())];
    let holder = site.start(&SERVE, &state);
    let listening = &holder.first_line;
    assert!(listening.contains("listening"), "{listening}");
    let second = site.run_with(&SERVE, &state);
    check_failed(&second, 1, &["another process holds the store"]);
    check_done(&site.run_with(&["run", "--plan", "plan.json"], &state));
    let sessions = site.run_with(&["sessions", "--json"], &state);
    assert_eq!(sessions.out.lines().count(), 1, "{sessions:?}");
}

#[test]
fn a_workspace_that_cannot_be_read_is_named() {
    let site = Site::new(CAIRN);
    site.write("plan.json", LOOK);
    for (folder, says) in [("nowhere", "nowhere"), ("docs/one.md", "docs/one.md")] {
        let output = site.run(&["run", "--plan", "plan.json", "--in", folder]);
        check_failed(&output, 1, &["workspace", says, "give a folder"]);
        let output = site.run(&["serve", "--listen", "127.0.0.1:0", "--in", folder]);
        check_failed(&output, 1, &["workspace", says]);
    }
    let listed = [("CAIRN_TOOLS__DENY", "[\"reed_file\"]")];
    let output = site.run_with(&["run", "--plan", "plan.json"], &listed);
    check_failed(&output, 2, &["reed_file", "read_file"]);
    assert!(
        !site.has_store(),
        "a store was made for tools that cannot be set up"
    );
}

/// Files that are no plan, and what they hold.
const BAD_PLANS: [(&str, &str); 16] = [
    ("empty", ""),
    ("no JSON", "steps: []"),
    ("half", "{\"steps\": ["),
    ("a list", "[]"),
    ("no steps", "{\"steps\": []}"),
    ("steps of a wrong type", "{\"steps\": 3}"),
    ("a step of a wrong type", "{\"steps\": [3]}"),
    ("an empty step", "{\"steps\": [{\"title\": \"a\"}]}"),
    (
        "a wrong order",
        "{\"order\": \"tree\", \"steps\": [{\"description\": \"a\"}]}",
    ),
    (
        "a slip of the pen",
        "{\"steps\": [{\"descripton\": \"a\"}]}",
    ),
    (
        "arguments that are no object",
        "{\"steps\": [{\"tool\": \"list_files\", \"arguments\": 3}]}",
    ),
    (
        "a step after itself",
        "{\"order\": \"graph\", \"steps\": [{\"id\": \"a\", \"description\": \"a\", \"depends_on\": [\"a\"]}]}",
    ),
    (
        "a circle",
        "{\"order\": \"graph\", \"steps\": [{\"id\": \"a\", \"description\": \"a\", \"depends_on\": [\"b\"]}, \
         {\"id\": \"b\", \"description\": \"b\", \"depends_on\": [\"a\"]}]}",
    ),
    (
        "an unknown step",
        "{\"order\": \"graph\", \"steps\": [{\"description\": \"a\", \"depends_on\": [\"zz\"]}]}",
    ),
    (
        "the same id twice",
        "{\"steps\": [{\"id\": \"a\", \"description\": \"a\"}, {\"id\": \"a\", \"description\": \"b\"}]}",
    ),
    (
        "dependencies in a chain",
        "{\"steps\": [{\"id\": \"a\", \"description\": \"a\"}, {\"description\": \"b\", \"depends_on\": [\"a\"]}]}",
    ),
];

#[test]
fn a_plan_with_faults_is_reported_what_they_are() {
    let site = Site::new(CAIRN);
    let errors = BAD_PLANS.map(|(name, text)| {
        site.write("bad.json", text);
        let error = error(&site.run(&["run", "--plan", "bad.json"]), 2);
        assert!(error.contains("bad.json"), "{name}: {error}");
        format!("--- {name}\n{error}\n")
    });
    shown::settings(&site).bind(|| insta::assert_snapshot!("plans_with_faults", errors.concat()));
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let step = format!("{{\"steps\": [{{\"tool\": \"list_files\", \"arguments\": {deep}}}]}}");
    let many = format!(
        "{{\"steps\": [{}]}}",
        ["{\"description\": \"a\"}"; 10_001].join(",")
    );
    for text in [step, many, "x".repeat(4 << 20), "\u{1b}[31m\0".to_owned()] {
        site.write("bad.json", &text);
        check_failed(&site.run(&["run", "--plan", "bad.json"]), 2, &["bad.json"]);
    }
    fs::write(site.path().join("bad.json"), [0xFF, 0xFE, 0x00]).expect("a file");
    check_failed(
        &site.run(&["run", "--plan", "bad.json"]),
        2,
        &["bad.json", "UTF-8"],
    );
    for path in ["nowhere.json", "docs", "docs/one.md/x", "/proc/none"] {
        check_failed(
            &site.run(&["run", "--plan", path]),
            2,
            &["cannot read the plan", path],
        );
    }
    assert!(!site.has_store(), "a store was made for a plan with faults");
}
