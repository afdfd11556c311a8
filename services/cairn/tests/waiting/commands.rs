//! What commands answer to other programs: exit codes, and sessions found by a part of their id.

use crate::support::{CAIRN, shown};
use cairn_testkit::{Journal, Output, Site};
use std::fs;

const GOAL: &str = "Which files under docs mention Redis?";
const GOOD: &str = r#"{"steps": [{"tool": "list_files", "arguments": {"path": "docs"}}]}"#;
const BAD: &str = r#"{"steps": [{"tool": "read_file", "arguments": {"path": "nowhere"}}]}"#;

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("good.json", GOOD);
    site.write("bad.json", BAD);
    site
}

fn run_plan(site: &Site, session: &str, plan: &str) -> Output {
    site.run(&["run", "--session", session, "--plan", plan])
}

/// A run that waits: it has used up its tool turns.
fn run_out_of_turns(site: &Site, session: &str) -> Output {
    site.run(&["run", "--session", session, "--max-turns", "1", GOAL])
}

#[test]
fn watch_ends_as_the_run_ended() {
    let site = site();
    let watch = |session: &str| site.run(&["watch", session]).code;
    let glance = |session: &str| site.run(&["watch", session, "--no-follow"]).code;
    assert_eq!(run_plan(&site, "good", "good.json").code, Some(0));
    assert_eq!((watch("good"), glance("good")), (Some(0), Some(0)));
    assert_eq!(run_plan(&site, "bad", "bad.json").code, Some(1));
    assert_eq!((watch("bad"), glance("bad")), (Some(1), Some(1)));
    let waits = run_out_of_turns(&site, "waits");
    assert_eq!(waits.code, Some(3), "{waits:?}");
    assert_eq!(glance("waits"), Some(3));
    let cancelled = site.run(&["cancel", "waits"]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!((watch("waits"), glance("waits")), (Some(1), Some(1)));
    // Nothing of these can go on.
    for (session, code, how) in [
        ("good", 0, "there is nothing unfinished in session good"),
        ("bad", 1, "run 1 of session bad failed"),
        ("waits", 1, "run 1 of session waits was cancelled"),
    ] {
        let resumed = site.run(&["resume", session]);
        assert_eq!(resumed.code, Some(code), "{resumed:?}");
        let said = format!("{}{}", resumed.out, resumed.err);
        assert!(said.contains(how), "{resumed:?}");
    }
    // The latest run counts, whatever an earlier one did.
    assert_eq!(run_plan(&site, "bad", "good.json").code, Some(0));
    assert_eq!((watch("bad"), glance("bad")), (Some(0), Some(0)));
    // From the last event on too, when nothing is left to be shown.
    let last = site.journal("waits").0.len().to_string();
    let end = site.run(&["watch", "waits", "--after", &last]);
    assert_eq!((end.code, end.out.as_str()), (Some(1), ""));
}

#[test]
fn an_interrupted_watch_says_so() {
    let site = site();
    assert_eq!(run_out_of_turns(&site, "waits").code, Some(3));
    let mut watch = site.start(&["watch", "waits"], &[]);
    assert!(
        watch.first_line.contains("session created"),
        "{}",
        watch.first_line
    );
    watch.interrupt();
    assert_eq!(watch.wait_for_code(), Some(130));
}

#[test]
fn a_session_is_found_by_a_beginning_that_only_it_has() {
    let site = site();
    for session in ["alpha-1", "alpha-2", "alpha-22", "beta"] {
        assert_eq!(run_plan(&site, session, "good.json").code, Some(0));
    }
    let resolved = |given: &str| {
        let output = site.run(&["show", given, "--json"]);
        assert_eq!(output.code, Some(0), "{given}: {output:?}");
        let line = output.out.lines().next().expect("a line");
        let shown: serde_json::Value = serde_json::from_str(line).expect("JSON");
        shown["session"]["id"].as_str().expect("an id").to_owned()
    };
    for (given, found) in [
        ("b", "beta"),
        ("beta", "beta"),
        ("alpha-1", "alpha-1"),
        ("alpha-22", "alpha-22"),
        // A whole id is meant even if another one begins with it.
        ("alpha-2", "alpha-2"),
    ] {
        assert_eq!(resolved(given), found, "{given}");
    }
    // Without any the latest.
    let latest = site.run(&["show", "--json"]);
    assert!(latest.out.contains("\"beta\""), "{latest:?}");
}

#[test]
fn a_beginning_of_several_ids_or_of_none_is_refused_everywhere() {
    let site = site();
    for session in ["alpha-1", "alpha-2"] {
        assert_eq!(run_plan(&site, session, "good.json").code, Some(0));
    }
    let before = site.journal("alpha-1");
    let mut errors = String::new();
    for command in [
        &["show"][..],
        &["watch"],
        &["tree"],
        &["report"],
        &["log"],
        &["state"],
        &["export"],
        &["pending"],
        &["resume"],
        &["cancel"],
        &["pause"],
        &["plan", "show"],
        &["plan", "edit"],
        &["memory", "list", "--session"],
    ] {
        // It is wrong use of the command line, and nothing is guessed.
        for (given, code) in [("alpha", 2), ("gamma", 1)] {
            let refused = site.run(&[command, &[given]].concat());
            let error = shown::error(&refused, code);
            assert_eq!(refused.out, "", "{command:?}");
            errors.push_str(&format!("--- {} {given}\n{error}\n", command.join(" ")));
        }
    }
    shown::settings(&site).bind(|| insta::assert_snapshot!("beginnings_of_ids", errors));
    assert_eq!(site.sessions().len(), 2);
    assert_eq!(site.journal("alpha-1"), before);
}

#[test]
fn a_run_names_its_session_by_the_whole_id() {
    let site = site();
    let empty = run_plan(&site, "", "good.json");
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.err.contains("id is empty"), "{empty:?}");
    assert!(!site.has_store(), "a store was made");
    assert_eq!(run_plan(&site, "my-1", "good.json").code, Some(0));
    let before = site.journal("my-1");
    for _ in 0..2 {
        let run = run_plan(&site, "my", "good.json");
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    assert_eq!(site.sessions(), ["my", "my-1"]);
    assert_eq!(site.journal("my-1"), before);
    assert_eq!(site.journal("my").of_kind("run_completed").len(), 2);
}

#[test]
fn a_run_in_a_log_tells_steps_and_tools_and_no_more() {
    let site = site();
    let output = site.run(&["run", "--session", "brief", GOAL]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let journal = site.journal("brief");
    let has = |text: &str| {
        output
            .out
            .lines()
            .filter(|line| line.contains(text))
            .count()
    };
    let steps = journal.of_kind("step_completed").len();
    assert_eq!(
        (has("→ step "), has("✓ step ")),
        (steps, steps),
        "{}",
        output.out
    );
    let replies = journal.of_kind("reply_received");
    let calls = replies
        .iter()
        .flat_map(|reply| reply["calls"].as_array().expect("calls"));
    let of_tools = calls.filter(|call| call["effect"] != "state").count();
    assert!(of_tools >= 5, "{of_tools} calls");
    assert_eq!(has(" gave: "), of_tools, "{}", output.out);
    let search = r#"step 2: search_files {"pattern":"Redis""#;
    assert_eq!(has(search), 1, "{}", output.out);
    for noise in ["scratchpad", "notes", "to do: ", "turns to: ", "step gave"] {
        assert_eq!(has(noise), 0, "{noise}: {}", output.out);
    }
}

#[test]
fn a_verbose_run_tells_everything_and_json_is_complete_anyway() {
    let site = site();
    let verbose = site.run(&["run", "--verbose", "--session", "verbose", GOAL]);
    assert_eq!(verbose.code, Some(0), "{verbose:?}");
    for reported in ["scratchpad gave: ", "notes: ", "to do: ", "turns to: "] {
        assert!(
            verbose.out.contains(reported),
            "{reported}: {}",
            verbose.out
        );
    }
    let json = site.run(&["run", "--json", "--session", "json", GOAL]);
    assert_eq!(json.code, Some(0), "{json:?}");
    let reported = Journal::read(&json.out).0;
    let first = usize::try_from(reported[0]["seq"].as_u64().expect("a seq")).expect("a small one");
    assert_eq!(reported[0]["kind"], "run_started");
    assert_eq!(reported, site.journal("json").0[first - 1..]);
}

#[test]
fn the_summary_of_a_tool_step_says_how_much_it_leaves_out() {
    let site = site();
    let text = format!("\n{}\nsecond\nthird\n", "first ".repeat(40));
    site.write("docs/long.md", &text);
    let plan = r#"{"steps": [{"tool": "record", "arguments": {"what": "x"}}, {"tool": "read_file", "arguments": {"path": "docs/long.md"}}]}"#;
    site.write("plan.json", plan);
    assert_eq!(run_plan(&site, "s", "plan.json").code, Some(0));
    let journal = site.journal("s");
    let steps = journal.of_kind("step_completed");
    let summaries: Vec<_> = steps.iter().map(|step| step["summary"].as_str()).collect();
    let read = "docs/long.md lines 1-4 of 4 (+4 lines)";
    assert_eq!(summaries, [Some(r#"recorded {"what":"x"}"#), Some(read)]);
}

const READ_TWICE: &str = r#"{"steps": [{"tool": "read_file", "arguments": {"path": "a.md"}}, {"tool": "read_file", "arguments": {"path": "a.md"}}]}"#;

/// A site with two folders whose files differ, and the whole path of the first. They share a store, as its place
/// is named.
fn two_folders() -> (Site, String) {
    let site = site();
    site.append("cairn.toml", "\n[store]\npath = \"data/cairn.db\"\n");
    site.write("plan.json", READ_TWICE);
    site.write("proto/a.md", "the right one\n");
    site.write("other/a.md", "another one\n");
    let proto = fs::canonicalize(site.path().join("proto")).expect("a folder");
    (site, proto.display().to_string())
}

fn run_in(site: &Site, folder: &str, session: &str) -> Output {
    let plan = ["--session", session, "--plan", "plan.json"];
    site.run(&[&["run", "--in", folder][..], &plan].concat())
}

/// A run in `proto` that was killed once its session was there, and it was accepted and begun.
fn kill_in_proto(site: &Site) {
    let arguments = "run --in proto --session s --plan plan.json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let killed = site.run_with(&arguments, &[("CAIRN_FAIL_COMMIT", "after:3")]);
    assert_eq!(killed.signal, Some(9), "{killed:?}");
}

/// Panics unless `read_file` gave this text in both steps.
fn check_read(site: &Site, session: &str, text: &str) {
    let journal = site.journal(session);
    let calls = journal.of_kind("call_finished");
    assert_eq!(calls.len(), 2);
    for call in calls {
        let given = call.to_string();
        assert!(given.contains(text), "{given}");
    }
}

fn check_refused(output: &Output, says: &[&str]) {
    assert_eq!(output.code, Some(2), "{output:?}");
    for says in says {
        assert!(output.err.contains(says), "{says}: {output:?}");
    }
}

#[test]
fn an_interrupted_run_continues_in_its_own_folder_only() {
    let (site, proto) = two_folders();
    kill_in_proto(&site);
    let before = site.journal("s");
    let commands = [
        &["resume"][..],
        &["resume", "s", "--in", "other"],
        &["run", "--session", "s", "--plan", "plan.json"],
        &[
            "run",
            "--in",
            "other",
            "--session",
            "s",
            "--plan",
            "plan.json",
        ],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    let errors = commands.map(|command| {
        let error = shown::error(&site.run(command), 2);
        assert!(error.contains(&proto), "{error}");
        format!("--- {}\n{error}\n", command.join(" "))
    });
    shown::settings(&site).bind(|| insta::assert_snapshot!("another_folder", errors.concat()));
    assert_eq!(site.journal("s"), before, "something was claimed");
    assert_eq!(site.sessions(), ["s"]);

    let resumed = site.run(&["resume", "--in", "proto"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    check_read(&site, "s", "the right one");
}

#[test]
fn a_new_run_begins_in_another_folder_while_a_session_waits_in_its_own() {
    let (site, proto) = two_folders();
    kill_in_proto(&site);
    let before = site.journal("s");
    let next = run_in(&site, "other", "next");
    assert_eq!(next.code, Some(0), "{next:?}");
    check_read(&site, "next", "another one");
    let resume = format!("cairn resume s --in {proto}\n");
    assert!(next.out.contains(&resume), "{next:?}");
    assert_eq!(site.journal("s"), before, "something was claimed");
    let elsewhere = site.run(&["resume", "s", "--in", "other"]);
    check_refused(&elsewhere, &[&resume]);
    let resumed = site.run(&["resume", "s", "--in", "proto"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    check_read(&site, "s", "the right one");
}

#[test]
fn a_holder_in_another_folder_is_not_given_a_session_that_waits_in_its_own() {
    let (site, proto) = two_folders();
    kill_in_proto(&site);
    let before = site.journal("s");
    let run = ["run", "--in", "other", "--pace", "30s", GOAL];
    let _holder = site.start(&run, &[]);
    let says = format!("belongs to the folder {proto}; another process holds this store");
    let resume = format!("cairn resume s --in {proto}");
    for command in ["resume", "pause", "cancel"] {
        check_refused(&site.run(&[command, "s"]), &[&says, &resume]);
    }
    assert_eq!(site.journal("s"), before, "something was claimed");
}

#[test]
fn work_of_a_folder_that_was_moved_continues_where_it_is_said_to_be() {
    let (site, proto) = two_folders();
    kill_in_proto(&site);
    fs::rename(&proto, site.path().join("moved")).expect("the folder moves");
    check_refused(&site.run(&["resume"]), &[&proto, "gone", "resume s --in"]);
    let resumed = site.run(&["resume", "--in", "moved"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    check_read(&site, "s", "the right one");
}

#[test]
fn a_killed_session_is_interrupted_until_somebody_continues() {
    let (site, proto) = two_folders();
    kill_in_proto(&site);
    let sessions = site.run(&["sessions"]);
    assert!(sessions.out.contains("interrupted"), "{sessions:?}");
    let show = site.run(&["show", "s"]);
    let resume = format!("go on    cairn resume s --in {proto}\n");
    assert!(show.out.contains(&resume), "{show:?}");
    assert!(!show.out.contains("running"), "{show:?}");
    for command in [&["sessions", "--json"][..], &["show", "--json"]] {
        let json = site.run(command);
        let status = r#""status":"interrupted""#;
        assert!(json.out.contains(status), "{json:?}");
    }
    assert_eq!(site.run(&["resume", "--in", "proto"]).code, Some(0));
    let sessions = site.run(&["sessions"]);
    assert!(!sessions.out.contains("interrupted"), "{sessions:?}");
}

#[test]
fn a_run_beside_a_holder_works_in_its_folder_knowingly_or_not_at_all() {
    let (site, proto) = two_folders();
    let serve = "serve --listen 127.0.0.1:0 --in proto";
    let serve: Vec<&str> = serve.split(' ').collect();
    let _holder = site.start(&serve, &[]);
    let says = format!("works in {proto}, not in");
    check_refused(&run_in(&site, "other", "no"), &[&says, "--store"]);
    let plan = ["run", "--session", "s", "--plan", "plan.json"];
    let configured = site.run_with(&plan, &[("CAIRN_WORKSPACE__PATH", "other")]);
    check_refused(&configured, &[&says]);
    assert!(site.sessions().is_empty(), "something was begun");

    let unsaid = run_plan(&site, "s", "plan.json");
    assert_eq!(unsaid.code, Some(0), "{unsaid:?}");
    let reported = format!("does the work in {proto}");
    assert!(unsaid.out.contains(&reported), "{unsaid:?}");
    check_read(&site, "s", "the right one");
    let same = run_in(&site, "./other/../proto", "same");
    assert_eq!(same.code, Some(0), "{same:?}");
}

#[test]
fn an_answer_leaves_the_work_in_its_folder_and_says_how_to_go_on() {
    let (site, proto) = two_folders();
    site.write("proto/docs/one.md", "Redis is here.\n");
    let run = "run --in proto --session s --max-turns 1";
    let mut run: Vec<&str> = run.split(' ').collect();
    run.push(GOAL);
    assert_eq!(site.run(&run).code, Some(3));
    let pending = site.run(&["pending", "s", "--json"]);
    let pending: serde_json::Value = serde_json::from_str(pending.out.trim()).expect("JSON");
    let id = pending["id"].as_str().expect("an id");
    let decided = site.run(&["decide", "s", id, "retry"]);
    assert_eq!(decided.code, Some(0), "{decided:?}");
    let hint = format!("go on  cairn resume s --in {proto}\n");
    assert!(decided.out.ends_with(&hint), "{decided:?}");
    // It came for a moment, from another folder: the work stays where it is.
    let noted = site.read("data/cairn.db.workspace");
    assert_eq!(noted, Some(proto));
    check_refused(&site.run(&["resume"]), &["cairn resume s --in"]);
}
