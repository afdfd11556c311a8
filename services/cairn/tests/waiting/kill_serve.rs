//! Kill -9 of `cairn serve` before and after every commit of a run, of tools alone and of a goal, under
//! a client that watches and asks again: over a file, and at a third of the commits over Redis and a
//! cluster.

use crate::support::{self, commits, place, watcher};
use cairn_proto::event as wire;
use cairn_testkit::{Journal, TestStore};
use commits::{Sweep, kill_around_each};
use place::Place;
use std::sync::Arc;
use support::{chain, connect};
use tonic::Status;
use watcher::Watcher;

const SIGKILL: i32 = 9;
/// Kills at the same time: calls in doubt wait until they can no longer be running.
const AT_ONCE: usize = 12;

/// A model that was recorded: it plans two steps, and has a line recorded in each.
const PLAYED: &str = r#"
{"match": {"contains": "Keep the books"}, "reply": {"text": "{\"steps\": [{\"title\": \"First\", \"description\": \"Record one.\"}, {\"title\": \"Second\", \"description\": \"Record two.\"}]}"}}
{"match": {"step": "First"}, "replies": [{"text": "I look first.", "tool_calls": [{"name": "look", "arguments": {"what": "around"}}, {"name": "record", "arguments": {"what": "one"}}]}, {"tool_calls": [{"name": "session_memory_set", "arguments": {"key": "one", "value": "recorded"}}, {"name": "step", "arguments": {"complete": true, "summary": "One line."}}]}]}
{"match": {"step": "Second"}, "replies": [{"tool_calls": [{"name": "write_file", "arguments": {"path": "cairn-out/books.md", "content": "two lines\n"}}, {"name": "record", "arguments": {"what": "two"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Another line."}}]}]}
"#;

fn step(tool: &str, arguments: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments.to_owned(),
        }),
        ..wire::PlanStep::default()
    }
}

/// Steps that are calls of tools.
fn plan() -> wire::StartRun {
    chain(vec![
        step("list_files", r#"{"path": "docs"}"#),
        step("record", r#"{"what": "one"}"#),
        step(
            "write_file",
            r#"{"path": "cairn-out/note.md", "content": "note"}"#,
        ),
        step("record", r#"{"what": "two"}"#),
    ])
}

/// What the recorded model plans and carries out.
fn goal() -> wire::StartRun {
    wire::StartRun {
        goal: "Keep the books.".to_owned(),
        model: "played".to_owned(),
        ..wire::StartRun::default()
    }
}

/// A run over a store.
struct World {
    store: Arc<TestStore>,
    run: wire::StartRun,
}

impl World {
    fn over(store: TestStore, run: wire::StartRun) -> Self {
        let store = Arc::new(store);
        Self { store, run }
    }

    /// Where one run is made.
    fn place(&self, name: &str) -> Place {
        let place = Place::beside_others(&self.store, name);
        place.site.write("played.jsonl", PLAYED.trim_start());
        let model = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";
        place.site.append("cairn.toml", model);
        place
    }

    /// The journal of a run that nobody disturbs, and its commits.
    async fn undisturbed(&self) -> (Journal, usize) {
        let mut place = self.place("undisturbed");
        let count = place.site.path().join("commits");
        let count = format!("count:{}", count.display());
        assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
        let mut watcher = Watcher::of(self.run.clone());
        let nothing = Journal(Vec::new());
        let ended = watch(&mut watcher, &place, &nothing).await;
        ended.expect("a run that nobody disturbs");
        let commits = place.site.read("commits").expect("commits are counted");
        let journal = place.journal(&watcher.session);
        watcher.check(&journal, "undisturbed");
        (journal, commits.lines().count())
    }

    /// Returns how many calls were in doubt; none if there was no such commit: calls that end together
    /// are one.
    async fn kill_once(&self, side: &str, commit: usize, reference: &Journal) -> Option<usize> {
        let fail = &format!("{side}:{commit}");
        let mut place = self.place(&format!("{side}-{commit}"));
        let mut watcher = Watcher::of(self.run.clone());
        assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]));
        // The server dies under it, or has just served it to the end. A busy store may be away between.
        while place.is_served() && !watcher.has_ended {
            let _ = watch(&mut watcher, &place, reference).await;
            place.pause().await;
        }
        if place.is_served() {
            return None;
        }
        assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
        // Whoever answers looks at what the call did.
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
        let uses = place.site.ledger().uses();
        assert_eq!(uses.len(), 2, "{fail}: {uses:?}");
        assert!(
            uses.values().all(|&times| times == 1),
            "{fail}: a call happened twice: {uses:?}"
        );
        Some(journal.of_kind("call_in_doubt").len())
    }

    async fn kill_everywhere(&self) {
        let (reference, commits) = self.undisturbed().await;
        let kill = |side: &'static str, commit: usize| self.kill_once(side, commit, &reference);
        let sweep = Sweep::over(&self.store);
        let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
        let (kills, doubts) = (swept.killed.len(), swept.killed.iter().sum::<usize>());
        println!("{commits} commits, {kills} kills, {doubts} calls in doubt");
        swept.check_reached(swept.points / 4);
        assert!(
            doubts >= 2 || !swept.is_complete(),
            "no call was killed on its way"
        );
    }
}

/// Starts the run, or finds it started, and watches until it ends or the server is gone.
async fn watch(watcher: &mut Watcher, place: &Place, reference: &Journal) -> Result<(), Status> {
    let client = connect(place.address());
    watcher.go_on_with(client, &place.site, reference).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_run_survives_a_kill_at_every_commit() {
    World::over(TestStore::file(), plan())
        .kill_everywhere()
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_goal_survives_a_kill_at_every_commit() {
    World::over(TestStore::file(), goal())
        .kill_everywhere()
        .await;
}

/// Each needs servers of Redis.
mod redis {
    use super::{TestStore, World, goal, plan};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_served_run_survives_kills_at_sampled_commits_over_redis() {
        World::over(TestStore::redis(), plan())
            .kill_everywhere()
            .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_served_goal_survives_kills_at_sampled_commits_over_redis() {
        World::over(TestStore::redis(), goal())
            .kill_everywhere()
            .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_served_goal_survives_kills_at_sampled_commits_over_a_cluster() {
        World::over(TestStore::cluster(), goal())
            .kill_everywhere()
            .await;
    }
}
