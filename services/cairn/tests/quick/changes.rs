//! Commands that change a session: which one they take, and what they leave alone.

use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::Site;

const GOAL: &str = "Which files under docs mention Redis?";
/// They end something or take it away.
const ENDING: [&[&str]; 5] = [
    &["cancel"],
    &["skip", "1"],
    &["redo", "1"],
    &["memory", "remove", "key"],
    &["memory", "clear"],
];

/// A site with the run of the session `s`, which waits.
fn site() -> Site {
    let site = Site::new(CAIRN);
    let run = site.run(&["run", "--session", "s", "--max-turns", "1", GOAL]);
    assert_eq!(run.code, Some(3), "{run:?}");
    site
}

/// A process holds the store for a change, and whoever works waits for it.
fn is_held(site: &Site) -> bool {
    site.beside_store("cairn.change.sock").exists()
}

#[test]
fn nothing_is_ended_or_removed_from_a_session_that_nobody_named() {
    let site = site();
    let before = site.journal("s");
    for command in ENDING {
        let done = site.run(command);
        assert_eq!(
            (done.code, &*done.out),
            (Some(2), ""),
            "{command:?}: {done:?}"
        );
        assert!(
            done.err.contains("name the session"),
            "{command:?}: {done:?}"
        );
    }
    assert_eq!(site.journal("s"), before);
    let mut screen = Screen::of(&mut site.command(&["cancel"]));
    let asked = screen.wait_for("[y/N] ");
    assert!(asked.contains("the latest session, s"), "{asked}");
    assert!(asked.contains(GOAL), "{asked}");
    assert!(!is_held(&site), "a person may take hours to answer");
    screen.types("n\r");
    screen.wait_for("nothing was changed");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(1));
    assert_eq!(site.journal("s"), before);
    let mut screen = Screen::of(&mut site.command(&["cancel"]));
    screen.wait_for("[y/N] ");
    screen.types("y\r");
    screen.wait_for("run 1 of s is cancelled");
}

#[test]
fn a_context_is_destroyed_once_a_person_agrees() {
    let site = site();
    let new = site.run(&["context", "new", "s", "draft"]);
    assert_eq!(new.code, Some(0), "{new:?}");
    let destroy = ["context", "destroy", "s", "draft"];
    let mut screen = Screen::of(&mut site.command(&destroy));
    let asked = screen.wait_for("[y/N] ");
    assert!(asked.contains("with its 0 messages"), "{asked}");
    assert!(!is_held(&site), "a person may take hours to answer");
    screen.types("\r");
    screen.wait_for("nothing was changed");
    let mut screen = Screen::of(&mut site.command(&[&destroy[..], &["--yes"]].concat()));
    screen.wait_for("context draft of s was destroyed");
}

#[test]
fn a_key_without_a_value_ends_get_with_1() {
    let site = site();
    let get = ["memory", "get", "none", "--session", "s"];
    let done = site.run(&get);
    assert_eq!((done.code, &*done.out), (Some(1), ""), "{done:?}");
    assert!(done.err.contains("none has no value"), "{done:?}");
    let done = site.run(&[&get[..], &["--json"]].concat());
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("\"value\":null"), "{done:?}");
}

/// What they would carry out belongs to others.
#[test]
fn a_change_makes_no_store_and_starts_no_server() {
    let site = site();
    let server = "\n[mcp.servers.other]\ncommand = \"touch\"\nargs = [\"started\"]\n";
    site.append("cairn.toml", server);
    let changes: [&[&str]; 4] = [
        &["memory", "set", "key", "value", "--session", "s"],
        &["pause", "s"],
        &["context", "new", "s", "draft"],
        &["cancel", "s"],
    ];
    for command in changes {
        let done = site.run(command);
        assert_eq!(done.code, Some(0), "{command:?}: {done:?}");
        assert!(!site.path().join("started").exists(), "{command:?}");
    }
    for command in changes {
        let done = site.run(&[command, &["--store", "other.db"]].concat());
        assert_eq!(done.code, Some(1), "{command:?}: {done:?}");
        let reason = "there is no store at other.db";
        assert!(done.err.contains(reason), "{command:?}: {done:?}");
    }
    assert!(!site.path().join("other.db").exists());
    // The settings do start it for others.
    site.run(&["tools"]);
    assert!(site.path().join("started").exists());
}
