//! Long results from a program and from a server of the Model Context Protocol. The model reads pieces of them,
//! and `cairn serve` is killed before and after every commit: over a file, and at a third of the commits over
//! Redis. Each result and each answer is recorded once, and the model gets the same.

use crate::proofs::results::{SETTINGS, give, lines};
use crate::support::CAIRN;
use crate::support::commits::{Sweep, kill_around_each};
use crate::support::connect;
use crate::support::place::Place;
use crate::support::watcher::Watcher;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Journal, Site, TestStore};
use std::sync::Arc;
use tonic::Status;

const SIGKILL: i32 = 9;
/// Kills at the same time.
const AT_ONCE: usize = 8;
const KIB: usize = 1024;

/// A model that was recorded: it has both results given, and reads a piece of each in one reply.
const PLAYED: &str = r#"
{"match": {"contains": "Read it all"}, "reply": {"text": "{\"steps\": [{\"title\": \"First\", \"description\": \"Read.\"}]}"}}
{"match": {"step": "First"}, "replies": [{"tool_calls": [{"name": "much", "arguments": {}}]}, {"tool_calls": [{"name": "ops__long", "arguments": {}}]}, {"tool_calls": [{"name": "read_result", "arguments": {"handle": "result-1", "search": "line 100"}}, {"name": "read_result", "arguments": {"handle": "result-2", "from_line": 1000, "to_line": 1002}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Read."}}]}]}
"#;

/// Another: it searches for thousands of lines, and reads on in the result.
const SEARCHED: &str = r#"
{"match": {"contains": "Search it all"}, "reply": {"text": "{\"steps\": [{\"title\": \"First\", \"description\": \"Search.\"}]}"}}
{"match": {"step": "First"}, "replies": [{"tool_calls": [{"name": "search_files", "arguments": {"pattern": "line", "path": "many.txt", "max": 10000}}]}, {"tool_calls": [{"name": "read_result", "arguments": {"handle": "result-1", "from_line": 5000, "to_line": 5001}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Searched."}}]}]}
"#;
const MODEL: &str = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";

/// A run over a store.
struct World {
    store: Arc<TestStore>,
    of_program: String,
    of_server: String,
}

impl World {
    /// The results have about so many bytes.
    fn over(store: TestStore, of_program: usize, of_server: usize) -> Self {
        Self {
            store: Arc::new(store),
            of_program: lines(of_program),
            of_server: lines(of_server),
        }
    }

    /// Where one run is made.
    fn place(&self, name: &str) -> Place {
        let place = Place::beside_others(&self.store, name);
        give(&place.site, &self.of_program, &self.of_server);
        place.site.write("played.jsonl", PLAYED.trim_start());
        place
            .site
            .append("cairn.toml", &format!("{SETTINGS}{MODEL}"));
        place
    }

    fn watcher() -> Watcher {
        Watcher::of(wire::StartRun {
            goal: "Read it all.".to_owned(),
            model: "played".to_owned(),
            ..wire::StartRun::default()
        })
    }

    /// The journal of a run that nothing disturbs, and its commits.
    async fn undisturbed(&self) -> (Journal, usize) {
        let mut place = self.place("undisturbed");
        let count = place.site.path().join("commits");
        let count = format!("count:{}", count.display());
        assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
        let mut watcher = Self::watcher();
        let ended = watch(&mut watcher, &place, &Journal(Vec::new())).await;
        ended.expect("a run that nothing disturbs");
        let commits = place.site.read("commits").expect("commits are counted");
        let journal = place.journal(&watcher.session);
        watcher.check(&journal, "undisturbed");
        self.check(&journal);
        (journal, commits.lines().count())
    }

    /// Panics unless both results are kept whole, and the model was sent pieces of them.
    fn check(&self, journal: &Journal) {
        let finished = journal.of_kind("call_finished");
        for (result, text) in finished.iter().zip([&self.of_program, &self.of_server]) {
            let whole = &result["whole"];
            assert_eq!(whole["bytes"], text.len(), "{whole}");
            assert_eq!(whole["lines"], text.lines().count(), "{whole}");
            assert_eq!(whole["lost_bytes"], 0, "{whole}");
            let blobs = result["blobs"].as_array().expect("blobs");
            let sizes = blobs.iter().filter_map(|blob| blob["size"].as_u64());
            assert_eq!(sizes.sum::<u64>(), text.len() as u64);
            let output = result["output"].as_str().expect("an output");
            assert!(output.len() <= 32 * KIB && output.starts_with("line 1: x"));
        }
        let answers = finished.iter().filter_map(|it| it["output"].as_str());
        let answers: Vec<&str> = answers.filter(|it| it.starts_with("result-")).collect();
        assert_eq!(answers.len(), 2, "one answer for each question");
        let found = answers.iter().find(|it| it.contains("contain 'line 100'"));
        assert!(found.is_some_and(|it| it.contains("\n100\tline 100: x")));
        let range = answers
            .iter()
            .find(|it| it.starts_with("result-2-") && it.contains(": lines 1000 to 1002 of"));
        assert!(range.is_some_and(|it| it.contains("\n1002\tline 1002: x")));
    }

    /// Returns whether the server was killed.
    async fn kill_once(&self, side: &str, commit: usize, reference: &Journal) -> Option<()> {
        let fail = &format!("{side}:{commit}");
        let mut place = self.place(&format!("{side}-{commit}"));
        let mut watcher = Self::watcher();
        // The server dies before it is there, dies under it, or has just served it to the end.
        if place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]) {
            while place.is_served() && !watcher.has_ended {
                let _ = watch(&mut watcher, &place, reference).await;
                place.pause().await;
            }
            if place.is_served() {
                return None;
            }
        }
        assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
        place.site.wait_for_programs();
        place.keep_serving();
        while !watcher.has_ended {
            let watched = watch(&mut watcher, &place, reference).await;
            watched.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
        }
        let journal = place.journal(&watcher.session);
        journal.check();
        watcher.check(&journal, fail);
        journal.check_like(reference);
        self.check(&journal);
        Some(())
    }

    async fn kill_everywhere(&self) {
        let (reference, commits) = self.undisturbed().await;
        let kill = |side: &'static str, commit: usize| self.kill_once(side, commit, &reference);
        let sweep = Sweep::over(&self.store);
        let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
        println!("{commits} commits, {} kills", swept.killed.len());
        swept.check_reached(swept.points / 4);
    }
}

/// Starts the run, or finds it started, and watches until it ends or the server is gone.
async fn watch(watcher: &mut Watcher, place: &Place, reference: &Journal) -> Result<(), Status> {
    let client = connect(place.address());
    watcher.go_on_with(client, &place.site, reference).await
}

#[tokio::test(flavor = "multi_thread")]
async fn long_results_survive_a_kill_at_every_commit() {
    World::over(TestStore::file(), 2_560 * KIB, 100 * KIB)
        .kill_everywhere()
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_of_a_server_is_kept_whole() {
    let world = World::over(TestStore::file(), 100 * KIB, 2_560 * KIB);
    world.undisturbed().await;
}

/// The copy has the blobs of its results, and none is lost with the session that it was copied from.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_reads_the_results_of_its_origin() {
    let world = World::over(TestStore::file(), 2_560 * KIB, 100 * KIB);
    let mut place = world.place("forked");
    place.keep_serving();
    let mut watcher = World::watcher();
    let ended = watch(&mut watcher, &place, &Journal(Vec::new())).await;
    ended.expect("a run that nothing disturbs");
    let session = watcher.session.as_str();
    let journal = place.journal(session);
    let results = journal.of_kind("call_finished");
    let second = results[1]["seq"].as_u64().expect("a seq").to_string();
    place.with_code(
        0,
        &["fork", session, "--at", &second, "--new-session", "copy"],
    );
    let delete = pb::DeleteSessionRequest {
        session: session.to_owned(),
    };
    let deleted = connect(place.address()).delete_session(delete).await;
    deleted.expect("the origin is deleted");
    place.with_code(0, &["resume", "copy"]);
    world.check(&place.journal("copy"));
}

/// A search has as many matches as its call asks for, and the model reads those that it did not get at once.
#[test]
fn a_long_search_is_read_on() {
    let site = Site::new(CAIRN);
    let text = lines(600 * KIB);
    site.write("many.txt", &text);
    site.write("played.jsonl", SEARCHED.trim_start());
    site.append("cairn.toml", MODEL);
    let run = ["run", "--model", "played", "--session", "s"];
    let done = site.run(&[&run[..], &["Search it all."]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let journal = Journal::read(&site.run(&["export", "s"]).out);
    let finished = journal.of_kind("call_finished");
    let found = text.lines().count();
    // The totals are the last line.
    assert_eq!(finished[0]["whole"]["lines"], found + 1);
    let read = finished[1]["output"].as_str().expect("an output");
    let range = format!(": lines 5000 to 5001 of {} lines\n", found + 1);
    let (handle, _) = read.split_once(&range).expect("a range");
    assert!(handle.starts_with("result-1-"), "{read}");
    assert!(
        read.contains("\n5001\tmany.txt:5001:\tline 5001: x"),
        "{read}"
    );
}

/// Each needs servers of Redis.
mod redis {
    use super::{KIB, TestStore, World};

    #[tokio::test(flavor = "multi_thread")]
    async fn long_results_survive_kills_at_sampled_commits_over_redis() {
        World::over(TestStore::redis(), 2_560 * KIB, 100 * KIB)
            .kill_everywhere()
            .await;
    }
}
