//! Sessions that end because their time is over, with real processes.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot set up its world is over"
)]

mod support;

use cairn_proto::orchestrator as pb;
use cairn_rpc::{Link, RpcError};
use cairn_testkit::Site;
use cairn_testkit::site::Running;
use serde_json::Value;
use std::fs;
use support::Client;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];
const AFTER: (&str, &str) = ("CAIRN_STORE__RETENTION__AFTER", "1s");
const ARCHIVE: (&str, &str) = ("CAIRN_STORE__RETENTION__ARCHIVE", "archive");

/// A site with a session `s` that has done its work and remembers something, and its journal.
fn site() -> (Site, String) {
    let site = Site::new(CAIRN);
    let run = |arguments: &[&str]| {
        let output = site.run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        output.out
    };
    site.write(
        "plan.json",
        r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#,
    );
    run(&["run", "--session", "s", "--plan", "plan.json"]);
    run(&["memory", "set", "tone", "dry", "--session", "s"]);
    let journal = run(&["export", "s"]);
    (site, journal)
}

/// Waits until the session is no more, and tells what is said of it then.
async fn end_of(serving: &Running, session: &str) -> RpcError {
    let told: Value = serde_json::from_str(&serving.first_line).expect("a line of JSON");
    let address = told["listen"].as_str().expect("an address").parse();
    let mut client = Client::new(Link::remote(&address.expect("an address")));
    let watch = pb::WatchSessionRequest {
        session: session.to_owned(),
        ..pb::WatchSessionRequest::default()
    };
    // It may be gone already.
    if let Ok(watch) = client.watch_session(watch).await {
        let mut watch = watch.into_inner();
        while watch.message().await.expect("an event").is_some() {}
    }
    let session = session.to_owned();
    let gone = client.get_session(pb::GetSessionRequest { session }).await;
    RpcError::from_status(&gone.expect_err("it is gone"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_archived_as_it_would_be_exported_and_deleted() {
    let (site, journal) = site();
    let serving = site.start(&SERVE, &[AFTER, ARCHIVE]);
    let gone = end_of(&serving, "s").await;
    assert_eq!(gone.reason_name(), "TERMINAL");
    assert_eq!(gone.metadata("end"), Some("archived"));
    assert_eq!(site.read("archive/default/s.jsonl"), Some(journal));
    let shown = site.run(&["show", "s"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(
        shown.err.contains("session s was archived and deleted"),
        "{}",
        shown.err
    );
    let started = site.run(&["run", "--session", "s", "--plan", "plan.json"]);
    assert!(started.err.contains("archived"), "{started:?}");
    let log = site.read("listen.log").expect("its log");
    assert!(log.contains("a session was ended"), "{log}");
    assert!(site.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_archive_a_session_is_only_deleted() {
    let (site, _) = site();
    let serving = site.start(&SERVE, &[AFTER]);
    let gone = end_of(&serving, "s").await;
    assert_eq!(gone.metadata("end"), Some("expired"));
    assert!(!site.path().join("archive").exists());
}

/// Killed after the file was written and before the session was deleted, and in the middle of that.
#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_archive_and_deletion_is_made_up_for() {
    for moment in ["before:1", "after:1"] {
        let (site, journal) = site();
        let kill = ("CAIRN_FAIL_COMMIT", moment);
        let mut serving = site.start(&SERVE, &[AFTER, ARCHIVE, kill]);
        assert_eq!(serving.wait_for_signal(), Some(9), "{moment}");
        assert_eq!(
            site.read("archive/default/s.jsonl").as_ref(),
            Some(&journal)
        );
        let is_there = !site.sessions().is_empty();
        assert_eq!(is_there, moment == "before:1");
        let serving = site.start(&SERVE, &[AFTER, ARCHIVE]);
        let gone = end_of(&serving, "s").await;
        assert_eq!(gone.metadata("end"), Some("archived"), "{moment}");
        assert_eq!(site.read("archive/default/s.jsonl"), Some(journal));
        let files = fs::read_dir(site.path().join("archive/default")).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort_unstable();
        assert_eq!(files, [".lock", "s.jsonl"]);
    }
}

#[test]
fn an_archive_that_cannot_be_written_is_told_before_anything_begins() {
    let site = Site::new(CAIRN);
    site.write("archive", "a file");
    let refused = site.run_with(&SERVE, &[ARCHIVE]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let named = refused.err.contains("store.retention") && refused.err.contains("\"archive");
    assert!(named, "{}", refused.err);
    assert!(!site.path().join(".cairn/cairn.db").exists());
    let shown = site.run_with(&["check-config"], &[AFTER, ARCHIVE]);
    for line in ["store.retention.after", "store.retention.archive"] {
        assert!(shown.out.contains(line), "{}", shown.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_counts_where_sessions_stay_for_ever() {
    let (site, _) = site();
    let run = |arguments: &[&str]| site.run(&[arguments, &["--plan", "plan.json"]].concat());
    let made = run(&["run", "--session", "t", "--keep", "1s"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let again = run(&["run", "--session", "t", "--keep", "1s"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(
        again.err.contains("there is a session t already"),
        "{again:?}"
    );
    assert_eq!(run(&["run", "--keep", "0s"]).code, Some(2));
    let unnamed = run(&["run", "--keep", "2h"]);
    assert_eq!(unnamed.code, Some(0), "{unnamed:?}");
    let sessions = site.sessions();
    assert_eq!(sessions.len(), 3);
    for (session, ttl) in [
        (&sessions[0], 7_200_000),
        (&sessions[1], 1000),
        (&sessions[2], 0),
    ] {
        let journal = site.journal(session);
        assert_eq!(journal.0[0]["time_to_live_ms"], ttl, "{session}");
    }
    let journal = site.run(&["export", "t"]).out;

    let serving = site.start(&SERVE, &[ARCHIVE]);
    let gone = end_of(&serving, "t").await;
    assert_eq!(gone.metadata("end"), Some("archived"));
    assert_eq!(site.read("archive/default/t.jsonl"), Some(journal));
    assert_eq!(site.sessions(), [sessions[0].as_str(), "s"]);
}
