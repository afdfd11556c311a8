//! Kill -9 of `cairn serve` before and after every commit of a run, under a client that watches and
//! asks again.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

mod support;

#[path = "kill_serve/watcher.rs"]
mod watcher;

use cairn_proto::event as wire;
use cairn_testkit::{Journal, Site};
use support::chain;
use watcher::Watcher;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const SIGKILL: i32 = 9;
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

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

fn run() -> wire::StartRun {
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

/// The journal of a run that nobody disturbs, and its commits.
async fn undisturbed() -> (Journal, usize) {
    let site = Site::new(CAIRN);
    let count = site.path().join("commits");
    let count = format!("count:{}", count.display());
    let _server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", &count)]);
    let mut watcher = Watcher::of(run());
    let nothing = Journal(Vec::new());
    let ended = watcher.go_on(&site, &nothing).await;
    ended.expect("a run that nobody disturbs");
    let commits = site.read("commits").expect("commits are counted");
    let journal = site.journal(&watcher.session);
    watcher.check(&journal, "undisturbed");
    (journal, commits.lines().count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_run_survives_a_kill_at_every_commit() {
    let (reference, commits) = undisturbed().await;
    assert_eq!(commits, 5, "four tool steps");
    // Calls in doubt wait until they can no longer be running: all at the same time.
    let points = (1..=commits).flat_map(|commit| ["before", "after"].map(|side| (side, commit)));
    let kills = points.map(async |(side, commit)| {
        let doubts = kill_once(&format!("{side}:{commit}"), &reference).await;
        println!("commit {commit}: killed {side}");
        doubts
    });
    let doubts: usize = futures::future::join_all(kills).await.iter().sum();
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt",
        commits * 2
    );
    assert!(doubts >= 2, "no call was killed on its way");
}

/// Returns how many calls were in doubt.
async fn kill_once(fail: &str, reference: &Journal) -> usize {
    let site = Site::new(CAIRN);
    let mut watcher = Watcher::of(run());
    let mut server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", fail)]);
    // The server dies under it, or has just served it to the end.
    let _ = watcher.go_on(&site, reference).await;
    assert_eq!(server.wait_for_signal(), Some(SIGKILL), "{fail}");
    // Whoever answers looks at what the call did.
    site.wait_for_programs();

    let _server = site.start(&SERVE, &[]);
    while !watcher.has_ended {
        watcher
            .go_on(&site, reference)
            .await
            .unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    let journal = site.journal(&watcher.session);
    journal.check();
    watcher.check(&journal, fail);
    journal.check_like(reference);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 2, "{fail}: {uses:?}");
    assert!(
        uses.values().all(|&times| times == 1),
        "{fail}: a call happened twice: {uses:?}"
    );
    journal.of_kind("call_in_doubt").len()
}
