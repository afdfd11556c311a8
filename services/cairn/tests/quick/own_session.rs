//! A run works on its own session, and its store stays out of repositories.

use crate::support::CAIRN;
use cairn_testkit::Site;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const PLAN: &str = r#"{"steps": [
  {"tool": "list_files", "arguments": {}},
  {"tool": "list_files", "arguments": {}},
  {"tool": "list_files", "arguments": {}}
]}"#;

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    site
}

fn run(session: &str) -> [&str; 5] {
    ["run", "--session", session, "--plan", "plan.json"]
}

/// Its process is killed in the middle of the run.
#[cfg(debug_assertions)]
#[test]
fn a_run_leaves_other_unfinished_sessions_alone_and_names_them() {
    let site = site();
    for session in ["one", "two"] {
        let killed = site.run_with(&run(session), &[("CAIRN_FAIL_COMMIT", "after:3")]);
        assert_eq!(killed.signal, Some(9), "{killed:?}");
    }
    let before = [site.journal("one"), site.journal("two")];
    let output = site.run(&run("own"));
    assert_eq!(output.code, Some(0), "{output:?}");
    let named = "2 other sessions are unfinished and stay as they are: two, one\n";
    assert!(output.out.contains(named), "{}", output.out);
    assert!(
        output.out.contains("next   cairn resume two\n"),
        "{}",
        output.out
    );
    assert_eq!([site.journal("one"), site.journal("two")], before);
    let json = site.run(&[&run("json")[..], &["--json"]].concat());
    assert!(!json.out.contains("unfinished"), "{}", json.out);

    let resumed = site.run(&["resume", "two"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let ended = |session| site.journal(session).of_kind("run_completed").len();
    assert_eq!(ended("two"), 1);
    assert_eq!(site.journal("one"), before[0], "it was not named");
    let resumed = site.run(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(ended("one"), 1);
    let quiet = site.run(&run("last"));
    assert!(!quiet.out.contains("unfinished"), "{}", quiet.out);
}

/// The same request again, after its process was killed.
#[cfg(debug_assertions)]
#[test]
fn a_start_that_is_sent_again_continues_its_run() {
    let site = site();
    let start = ["run", "--plan", "plan.json", "--request-id", "once"];
    let killed = site.run_with(&start, &[("CAIRN_FAIL_COMMIT", "after:3")]);
    assert_eq!(killed.signal, Some(9), "{killed:?}");
    let output = site.run(&start);
    assert_eq!(output.code, Some(0), "{output:?}");
    let [session] = &site.sessions()[..] else {
        panic!("one session");
    };
    assert_eq!(site.journal(session).of_kind("run_started").len(), 1);
}

fn git(site: &Site, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    let output = git.args(arguments).current_dir(site.path()).output();
    let output = output.expect("git");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_store_is_not_added_to_a_repository() {
    let site = site();
    git(&site, &["init", "--quiet"]);
    let added = || {
        git(&site, &["add", "."]);
        git(&site, &["ls-files", "--", "data"])
    };
    let named = [&run("s")[..], &["--store", "data/cairn.db"]].concat();
    assert_eq!(site.run(&named).code, Some(0));
    assert!(site.path().join("data/cairn.db").exists());
    assert_eq!(added(), "");
    // Beside the user's own files, nothing is ignored for them.
    site.write("mine/notes.md", "mine");
    let elsewhere = [&run("s")[..], &["--store", "mine/cairn.db"]].concat();
    assert_eq!(site.run(&elsewhere).code, Some(0));
    assert_eq!(site.read("mine/.gitignore"), None);
}

/// As with `--plan -`, which reads standard input.
#[test]
fn a_dash_as_output_is_standard_output() {
    let site = site();
    assert_eq!(site.run(&run("s")).code, Some(0));
    for command in [
        &["export", "s"][..],
        &["report", "s"],
        &["tree", "s"],
        &["report", "s", "--json"],
    ] {
        let plain = site.run(command);
        let dash = site.run(&[command, &["--output", "-"]].concat());
        assert_eq!(dash.code, Some(0), "{command:?}: {dash:?}");
        assert_eq!(dash.out, plain.out, "{command:?}");
    }
    // A file is written anew, and a stream is not.
    let live = site.run(&["tree", "s", "--live", "--output", "-"]);
    assert_eq!(live.code, Some(2), "{live:?}");
    assert_eq!(site.read("-"), None);
}

#[test]
fn an_exported_journal_is_for_its_user_alone() {
    let site = site();
    assert_eq!(site.run(&run("s")).code, Some(0));
    let journal = site.run(&["export", "s"]).out;
    site.write("journal.jsonl", "old");
    let output = site.run(&["export", "s", "--output", "journal.jsonl"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(site.read("journal.jsonl"), Some(journal));
    let mode = std::fs::metadata(site.path().join("journal.jsonl")).expect("a file");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    // A session that is not there leaves the file as it is.
    let before = site.read("journal.jsonl");
    let refused = site.run(&["export", "none", "--output", "journal.jsonl"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(site.read("journal.jsonl"), before);
}
