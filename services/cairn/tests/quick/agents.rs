//! `cairn agent`: files are checked, and agents stored, listed, shown and deleted.

use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::Site;
use serde_json::Value;

const REVIEWER: &str =
    "---\ndescription: Reviews changes\ntools: Read, Grep\ncolour: red\n---\nReview.\n";
const WARNING: &str = "agents/reviewer.md:4: warning: colour is no field of an agent\n";

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("agents/reviewer.md", REVIEWER);
    site
}

fn lines(out: &str) -> Vec<Value> {
    let lines = out.lines();
    let values = lines.map(|line| serde_json::from_str(line).expect("a line of JSON"));
    values.collect()
}

#[test]
fn files_are_checked_without_a_store() {
    let site = site();
    let done = site.run(&["agent", "check", "agents"]);
    let expected = format!("{WARNING}1 file without faults, 1 warning\n");
    assert_eq!((done.code, done.out), (Some(0), expected));

    site.write("agents/wrong.md", "---\nmaxTurns: many\n---\nP\n");
    let done = site.run(&["agent", "check", "agents"]);
    let fault = "maxTurns is \"many\" (allowed: a whole number from 1 to 100000)";
    let expected = format!("{WARNING}agents/wrong.md:2: error: {fault}\n");
    assert_eq!((done.code, done.out), (Some(1), expected));
    assert!(done.err.contains("1 of 2 files has faults"), "{}", done.err);

    let done = site.run(&["agent", "check", "agents", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let files = lines(&done.out);
    assert_eq!(files[0]["name"], "reviewer");
    assert_eq!(files[0]["warnings"][0]["line"], 4);
    assert_eq!(files[1]["faults"][0]["field"], "maxTurns");

    let done = site.run(&["agent", "check", "none.md"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let unreadable = "none.md: error: cannot be read: ";
    assert!(done.out.starts_with(unreadable), "{done:?}");
    assert!(!site.store().exists());
}

#[test]
fn agents_are_stored_listed_and_shown() {
    let site = site();
    let done = site.run(&["agent", "put", "agents/reviewer.md"]);
    let expected = format!("{WARNING}agent reviewer is stored, version 1\n");
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    let put = ["agent", "put", "agents/reviewer.md", "--name", "critic"];
    let done = site.run(&[&put[..], &["--json"]].concat());
    let critic = &lines(&done.out)[0];
    assert_eq!(critic["name"], "critic");
    assert_eq!(critic["version"], 2);
    assert_eq!(critic["change_time"], Value::Null);

    let done = site.run(&["agent", "list", "--json"]);
    let agents = lines(&done.out);
    let names: Vec<_> = agents.iter().map(|agent| agent["name"].as_str()).collect();
    assert_eq!(names, [Some("critic"), Some("reviewer")]);
    assert_eq!(agents[0]["digest"], critic["digest"]);
    let done = site.run(&["agent", "list"]);
    assert!(done.out.starts_with("AGENT "), "{done:?}");
    assert!(done.out.contains("Reviews changes"), "{done:?}");

    let done = site.run(&["agent", "show", "reviewer"]);
    assert!(done.out.starts_with("reviewer (version 1, "), "{done:?}");
    assert!(done.out.contains("read_file, search_files\n"), "{done:?}");
    assert!(done.out.ends_with("\n\nReview.\n"), "{done:?}");
    let done = site.run(&["agent", "show", "reviewer", "--json"]);
    let shown = &lines(&done.out)[0];
    assert_eq!(shown["source"], REVIEWER);
    assert_eq!(shown["definition"]["only"]["patterns"][1], "search_files");
    assert!(
        shown["change_time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
}

#[test]
fn a_file_with_faults_is_not_stored() {
    let site = site();
    site.run(&["agent", "put", "agents/reviewer.md"]);
    site.write("agents/wrong.md", "---\nhidden: 1\nmode: none\n---\nP\n");
    let done = site.run(&["agent", "put", "agents/wrong.md", "--name", "reviewer"]);
    assert_eq!((done.code, done.out.as_str()), (Some(2), ""));
    let said = "agents/wrong.md has 2 faults\n  agents/wrong.md:2: hidden is 1";
    assert!(done.err.contains(said), "{}", done.err);
    let done = site.run(&["agent", "show", "reviewer", "--json"]);
    assert_eq!(lines(&done.out)[0]["version"], 1);
}

#[test]
fn an_agent_is_deleted_once_a_person_at_a_terminal_agrees() {
    let site = site();
    let delete = ["agent", "delete", "reviewer"];
    let put = || site.run(&["agent", "put", "agents/reviewer.md"]);
    assert_eq!(put().code, Some(0));
    let mut screen = Screen::of(&mut site.command(&delete));
    screen.wait_for("Delete the agent reviewer? [y/N] ");
    screen.types("n\r");
    screen.wait_for("nothing was changed");
    let mut screen = Screen::of(&mut site.command(&[&delete[..], &["--yes"]].concat()));
    screen.wait_for("agent reviewer is deleted");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));

    let done = site.run(&delete);
    assert_eq!(done.code, Some(1), "{done:?}");
    let gone = "agent \"reviewer\" does not exist";
    assert!(done.err.contains(gone), "{}", done.err);
    assert!(done.err.contains("cairn agent list"), "{}", done.err);
    let done = site.run(&["agent", "list"]);
    let none = "there is no agent; store one with: cairn agent put FILE\n";
    assert_eq!(done.out, none);
    assert_eq!(put().code, Some(0));
    let done = site.run(&delete);
    let expected = "agent reviewer is deleted\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected));
}

/// A pipe has no end as long as a program could write to it.
#[test]
fn only_regular_files_are_read() {
    let site = site();
    let pipe = site.path().join("agents/pipe.md");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo can be started").success());
    let said = "agents/pipe.md: error: is no regular file (allowed: a file with text)";
    for path in ["agents", "agents/pipe.md"] {
        let done = site.run(&["agent", "check", path]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.out.contains(said), "{done:?}");
    }
    let done = site.run(&["agent", "put", "agents/pipe.md"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("is no regular file"), "{done:?}");
}
