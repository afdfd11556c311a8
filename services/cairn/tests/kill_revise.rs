//! Kill -9 of `cairn serve` before and after every commit from the wish for another plan to the end
//! of a step of that plan. Afterwards one of the two plans is in force, whole, and a client that asks
//! again gets the answer that it got, or would have got.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

#[path = "support/served.rs"]
mod served;
mod support;

#[path = "kill_revise/reviser.rs"]
mod reviser;
#[path = "kill_revise/stage.rs"]
mod stage;

use cairn_testkit::{Journal, Site};
use reviser::{Reviser, Way};
use serde_json::Value;
use served::{SERVE, SESSION};
use stage::{Ready, Stage};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const SIGKILL: i32 = 9;
/// Kills at the same time: calls in doubt wait until they can no longer be running.
const AT_ONCE: usize = 6;

/// What a revision comes to when nobody disturbs it.
struct Reference {
    ready: Ready,
    way: Way,
    journal: Journal,
    answers: Vec<String>,
}

async fn undisturbed(stage: Stage, way: Way) -> (Reference, usize) {
    let ready = Ready::at(stage).await;
    let site = ready.copy();
    let count = format!("count:{}", site.path().join("commits").display());
    let server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", &count)]);
    let mut reviser = Reviser::new(stage, way);
    let nothing = Journal(Vec::new());
    let ended = reviser.go_on(&site, &nothing).await;
    let log = || site.tail("listen.log", 12);
    ended.unwrap_or_else(|status| panic!("nobody disturbs it: {status:?}\n{}", log()));
    drop(server);
    let commits = site.read("commits").expect("commits are counted");
    let journal = site.journal(SESSION);
    let reference = Reference {
        ready,
        way,
        answers: reviser.answers(),
        journal,
    };
    check_end(&site, &reviser, &reference, "undisturbed");
    (reference, commits.lines().count())
}

/// What a kill came to.
struct Killed {
    /// How many calls were in doubt.
    doubts: usize,
    /// The plan that was in force then was the new one.
    is_new: bool,
}

/// None if there was no such commit.
async fn kill_once(fail: &str, reference: &Reference) -> Option<Killed> {
    let site = reference.ready.copy();
    let mut reviser = Reviser::new(reference.ready.stage, reference.way);
    let mut server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", fail)]);
    // The server dies under it, or has just served it to the end.
    let went = reviser.go_on(&site, &reference.journal).await;
    if went.is_ok() && reviser.has_ended && server.is_alive() {
        return None;
    }
    assert_eq!(server.wait_for_signal(), Some(SIGKILL), "{fail}");
    // Whoever answers looks at what the call did.
    site.wait_for_programs();
    let before = site.journal(SESSION);
    let is_new = check_whole(&site, &before, &reviser, fail);

    let _server = site.start(&SERVE, &[]);
    while !reviser.has_ended {
        let went = reviser.go_on(&site, &reference.journal).await;
        went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    let journal = check_end(&site, &reviser, reference, fail);
    let kept = &journal.0[..before.0.len()];
    assert_eq!(kept, before.0, "{fail}: what was durable is");
    Some(Killed {
        doubts: journal.of_kind("call_in_doubt").len(),
        is_new,
    })
}

/// Panics unless one of the two plans is in force in the store that was left, and what the client was
/// told is so. Says whether it is the new plan.
fn check_whole(site: &Site, journal: &Journal, reviser: &Reviser, fail: &str) -> bool {
    let shown = site.run(&["plan", "show", SESSION, "--json"]);
    assert_eq!(shown.code, Some(0), "{fail}: {shown:?}");
    let shown: Value = serde_json::from_str(&shown.out).expect("a plan");
    let applied = journal.of_kind("plan_applied");
    let is_new = applied.len() == 2;
    assert!(is_new || applied.len() == 1, "{fail}: {applied:?}");
    let plan = if is_new { stage::new() } else { stage::old() };
    assert_eq!(stage::words(&shown), stage::words(&plan), "{fail}");
    let last = applied.last().expect("a plan");
    assert_eq!(stage::words(&last["plan"]), stage::words(&plan), "{fail}");
    // The step that the new plan has not is stopped with it, not before and not after.
    let skipped = journal.of_kind("step_skipped");
    let was_running = reviser.stage != Stage::Completed;
    assert_eq!(skipped.len(), usize::from(is_new && was_running), "{fail}");
    if reviser.was_told_applied() {
        assert!(is_new, "{fail}: what the client was told was lost");
    }
    if reviser.was_told_proposed() {
        assert_eq!(journal.of_kind("plan_proposed").len(), 1, "{fail}");
    }
    // Nobody but its client resumes a run that is paused.
    let was_paused = journal.of_kind("run_paused").len();
    let resumed = journal.of_kind("run_resumed").into_iter();
    let resumed = resumed.filter(|it| it["command_seq"].as_u64() > Some(0));
    if was_paused > resumed.count() {
        let shown = site.run(&["show", SESSION, "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).expect("a session");
        let status = &shown["session"]["latest_run"]["status"];
        assert_eq!(status, "paused", "{fail}");
    }
    is_new
}

/// Panics unless it all ended as if nobody had disturbed it.
fn check_end(site: &Site, reviser: &Reviser, reference: &Reference, fail: &str) -> Journal {
    let journal = site.journal(SESSION);
    journal.check();
    journal.check_like(&reference.journal);
    reviser.check_watched(&journal, fail);
    assert_eq!(reviser.answers(), reference.answers, "{fail}");
    let ledger = site.ledger();
    let uses = ledger.uses();
    assert!(uses.values().all(|&times| times == 1), "{fail}: {uses:?}");
    let finished = reviser.stage == Stage::Completed;
    for (what, times) in [("one", 1), ("two", usize::from(finished)), ("three", 1)] {
        let known = ledger.times(&format!(r#"{{"what":"{what}"}}"#));
        assert_eq!(known, times, "{fail}: {what}");
    }
    let ends = journal.of_kind("run_completed").len();
    assert_eq!(ends, 1 + usize::from(finished), "{fail}");
    journal
}

/// Kills a revision around each of its commits.
async fn kill_everywhere(stage: Stage, way: Way, turns: Arc<Semaphore>) {
    let (reference, commits) = undisturbed(stage, way).await;
    let reference = Arc::new(reference);
    let mut kills = JoinSet::new();
    // A busy machine may make one commit of two.
    for commit in 1..=commits {
        for side in ["before", "after"] {
            let (reference, turns) = (Arc::clone(&reference), Arc::clone(&turns));
            kills.spawn(async move {
                let _turn = turns.acquire_owned().await.expect("turns");
                let fail = format!("{side}:{commit}");
                let killed = Box::pin(kill_once(&fail, &reference)).await;
                (commit, side, killed)
            });
        }
    }
    let kills = kills.join_all().await;
    let reached: Vec<_> = kills.iter().filter_map(|(.., it)| it.as_ref()).collect();
    let doubts: usize = reached.iter().map(|it| it.doubts).sum();
    let new = reached.iter().filter(|it| it.is_new).count();
    println!(
        "{stage:?}, {way:?}: {commits} commits, {} kills: the plan before was in force after {}, the \
         new one after {new}; {doubts} calls in doubt",
        reached.len(),
        reached.len() - new,
    );
    assert!(reached.len() + 2 >= 2 * commits, "too few were killed");
    assert!(
        new >= 2 && reached.len() - new >= 2,
        "kills on one side only"
    );
    assert!(doubts >= 1, "no call was killed on its way");
}

/// Stages at the same time, so that those that wait let others go on.
async fn kill_all(way: Way, at: &[Stage]) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut stages = JoinSet::new();
    for &stage in at {
        let turns = Arc::clone(&turns);
        stages.spawn(async move { Box::pin(kill_everywhere(stage, way, turns)).await });
    }
    stages.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn a_plan_that_is_proposed_and_applied_survives_a_kill_at_every_commit() {
    let stages = [Stage::Running, Stage::Paused, Stage::Completed];
    kill_all(Way::ByHand, &stages).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn feedback_survives_a_kill_at_every_commit() {
    let stages = [Stage::Running, Stage::Paused, Stage::Completed];
    kill_all(Way::Feedback, &stages).await;
}
