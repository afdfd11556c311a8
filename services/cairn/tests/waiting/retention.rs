//! Sessions that end because their time is over, with real processes: in a file and on Redis.

use crate::support::{self, CAIRN, place};
use cairn_memory::archive::{Item, Reader};
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_testkit::{Site, TestStore};
use place::Place;
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use support::connect;

const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];
const AFTER: (&str, &str) = ("CAIRN_STORE__RETENTION__AFTER", "1s");
const ARCHIVE: (&str, &str) = ("CAIRN_STORE__RETENTION__ARCHIVE", "archive");

const PLAN: &str = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;

/// A place with a session `s` that has done its work and remembers something, and its journal.
fn place(store: TestStore) -> (Place, String) {
    let place = Place::over(store);
    place.site.write("plan.json", PLAN);
    place.with_code(0, &["run", "--session", "s", "--plan", "plan.json"]);
    place.with_code(0, &["memory", "set", "tone", "dry", "--session", "s"]);
    let journal = place.with_code(0, &["export", "s"]).out;
    (place, journal)
}

/// Waits until the session is no more, and tells what is said of it then.
async fn end_of(address: &str, session: &str) -> RpcError {
    let mut client = connect(address);
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

/// The archive of a session, read to its end: how many events, and the time to live.
fn archived(site: &Site, session: &str) -> (usize, Option<u64>) {
    let path = format!("archive/default/{session}.jsonl");
    let file = File::open(site.path().join(path)).expect("an archive");
    let mode = file.metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut reader = Reader::new(BufReader::new(file)).expect("a header");
    assert_eq!(reader.header().session, session);
    let mut events = 0;
    while let Some(item) = reader.next_item().expect("an item") {
        events += usize::from(matches!(item, Item::Event(_)));
    }
    (events, reader.header().time_to_live_ms)
}

fn count(journal: &str) -> usize {
    journal.lines().count()
}

/// Everything that can be seen of a session.
fn views(place: &Place, session: &str) -> Vec<String> {
    let commands: [&[&str]; 8] = [
        &["export", session],
        &["log", session],
        &["tree", session],
        &["report", session],
        &["state", session],
        &["show", session, "--json"],
        &["plan", "show", session],
        &["memory", "list", "--session", session, "--json"],
    ];
    commands
        .map(|command| place.with_code(0, command).out)
        .into()
}

async fn an_archived_session_can_be_restored(store: TestStore) {
    let (place, journal) = place(store);
    let site = &place.site;
    let was = views(&place, "s");
    let (serving, address) = place.serve(&[AFTER, ARCHIVE]);
    let gone = end_of(&address, "s").await;
    drop(serving);
    assert_eq!(gone.metadata("end"), Some("archived"));
    assert_eq!(archived(site, "s"), (count(&journal), None));
    assert!(place.sessions().is_empty());

    let text = site.read("archive/default/s.jsonl").expect("an archive");
    site.write("cut.jsonl", &text[..text.len() / 2]);
    site.write("other.jsonl", &journal);
    site.write("damaged.jsonl", &text.replacen("\"seq\":3", "\"seq\":4", 1));
    for (file, problem) in [
        ("cut.jsonl", "the file is cut off in line "),
        ("other.jsonl", "the file is not an archive of a session"),
        ("damaged.jsonl", "line 4 is damaged: its sum is wrong"),
        ("none.jsonl", "cannot read none.jsonl"),
    ] {
        let refused = place.with_code(1, &["import", file]);
        assert!(refused.err.contains(problem), "{}", refused.err);
    }
    assert!(place.sessions().is_empty());

    let archive = "archive/default/s.jsonl";
    let output = place.with_code(0, &["import", archive]).out;
    assert!(
        output.starts_with(&format!(
            "session s  imported: {} events\n",
            count(&journal)
        )),
        "{output}"
    );
    assert_eq!(views(&place, "s"), was);
    let again = place.with_code(0, &["import", archive, "--json"]).out;
    let again: serde_json::Value = serde_json::from_str(&again).expect("JSON");
    assert_eq!(
        (&again["session"], &again["imported"]),
        (&"s".into(), &false.into())
    );
    assert_eq!(place.sessions(), ["s"]);
    assert_eq!(place.with_code(0, &["export", "s"]).out, journal);

    place.with_code(0, &["import", archive, "--new-session", "copy"]);
    let copy = place.journal("copy");
    assert_eq!(copy.0.len(), count(&journal) + 1);
    assert_eq!(copy.of_kind("forked_from").len(), 1);
    // What came back can be worked with, and another session of its name is in the way of the archive.
    place.with_code(0, &["run", "--session", "s", "--plan", "plan.json"]);
    place.with_code(0, &["run", "--session", "taken", "--plan", "plan.json"]);
    let taken = ["import", archive, "--new-session", "taken"];
    let refused = place.with_code(1, &taken);
    let hint = "import it under another id: cairn import archive/default/s.jsonl --new-session ID";
    for text in ["there is another session taken; nothing was imported", hint] {
        assert!(refused.err.contains(text), "{}", refused.err);
    }
}

async fn a_session_is_archived_and_deleted(store: TestStore) {
    let (place, journal) = place(store);
    let (serving, address) = place.serve(&[AFTER, ARCHIVE]);
    let gone = end_of(&address, "s").await;
    drop(serving);
    assert_eq!(gone.reason_name(), "TERMINAL");
    assert_eq!(gone.metadata("end"), Some("archived"));
    assert_eq!(archived(&place.site, "s"), (count(&journal), None));
    let shown = place.run(&["show", "s"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(
        shown.err.contains("session s was archived and deleted"),
        "{}",
        shown.err
    );
    let started = place.run(&["run", "--session", "s", "--plan", "plan.json"]);
    assert!(started.err.contains("archived"), "{started:?}");
    let log = place.site.read("listen.log").expect("its log");
    assert!(log.contains("a session was ended"), "{log}");
    assert!(place.sessions().is_empty());
}

async fn without_an_archive_a_session_is_only_deleted(store: TestStore) {
    let (place, _) = place(store);
    let (_serving, address) = place.serve(&[AFTER]);
    let gone = end_of(&address, "s").await;
    assert_eq!(gone.metadata("end"), Some("expired"));
    assert!(!place.site.path().join("archive").exists());
}

/// Killed after the file was written and before the session was deleted, and in the middle of that.
#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_archive_and_deletion_is_made_up_for() {
    for moment in ["before:1", "after:1"] {
        let (place, journal) = place(TestStore::file());
        let site = &place.site;
        let kill = ("CAIRN_FAIL_COMMIT", moment);
        let (mut serving, _) = place.serve(&[AFTER, ARCHIVE, kill]);
        assert_eq!(serving.wait_for_signal(), Some(9), "{moment}");
        assert_eq!(archived(site, "s"), (count(&journal), None));
        let is_there = !site.sessions().is_empty();
        assert_eq!(is_there, moment == "before:1");
        let (_serving, address) = place.serve(&[AFTER, ARCHIVE]);
        let gone = end_of(&address, "s").await;
        assert_eq!(gone.metadata("end"), Some("archived"), "{moment}");
        assert_eq!(archived(site, "s"), (count(&journal), None));
        let files = fs::read_dir(site.path().join("archive/default")).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort_unstable();
        assert_eq!(files, [".lock", "s.jsonl"]);
    }
}

#[test]
fn an_archive_that_cannot_be_written_is_reported_before_anything_begins() {
    let site = Site::new(CAIRN);
    site.write("archive", "a file");
    let refused = site.run_with(&SERVE, &[ARCHIVE]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let named = refused.err.contains("store.retention") && refused.err.contains("\"archive");
    assert!(named, "{}", refused.err);
    assert!(!site.store().exists());
    let shown = site.run_with(&["check-config"], &[AFTER, ARCHIVE]);
    for line in ["store.retention.after", "store.retention.archive"] {
        assert!(shown.out.contains(line), "{}", shown.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_counts_where_sessions_stay_indefinitely() {
    let (place, _) = place(TestStore::file());
    let site = &place.site;
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

    let (_serving, address) = place.serve(&[ARCHIVE]);
    let gone = end_of(&address, "t").await;
    assert_eq!(gone.metadata("end"), Some("archived"));
    assert_eq!(archived(site, "t"), (count(&journal), Some(1000)));
    assert_eq!(site.sessions(), [sessions[0].as_str(), "s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_session_is_archived_and_deleted() {
    a_session_is_archived_and_deleted(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_an_archived_session_can_be_restored() {
    an_archived_session_can_be_restored(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_without_an_archive_a_session_is_only_deleted() {
    without_an_archive_a_session_is_only_deleted(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_an_archived_session_can_be_restored() {
        an_archived_session_can_be_restored(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_without_an_archive_a_session_is_only_deleted() {
        without_an_archive_a_session_is_only_deleted(TestStore::redis()).await;
    }

    /// Every server of the store looks for sessions whose time is over, so all of them have to know
    /// the archive.
    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_time_to_live_counts_where_sessions_stay_indefinitely() {
        let (place, _) = place(TestStore::redis());
        let (serving, address) = place.serve(&[ARCHIVE]);
        let run = [
            "run",
            "--session",
            "t",
            "--keep",
            "1s",
            "--server",
            &address,
        ];
        let made = place
            .site
            .run(&[&run[..], &["--plan", "plan.json"]].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
        // A server looks a second after its start, and once a minute from then on.
        drop(serving);
        let (_serving, address) = place.serve(&[ARCHIVE]);
        let gone = end_of(&address, "t").await;
        assert_eq!(gone.metadata("end"), Some("archived"));
        let (events, time_to_live) = archived(&place.site, "t");
        assert_eq!(time_to_live, Some(1000));
        assert!(events > 3, "{events}");
        assert_eq!(place.sessions(), ["s"]);
    }
}
