//! Kill -9 of `cairn serve` before and after every commit from the wish for another plan to the end
//! of a step of that plan. Afterwards one of the two plans is in force, whole, and a client that asks
//! again gets the answer that it got, or would have got. In a file, and at a third of the commits on Redis
//! and on a cluster.

mod reviser;
mod stage;

use crate::support::{commits, place, served};
use cairn_testkit::{Journal, TestStore};
use commits::{Sweep, kill_around_each};
use place::Place;
use reviser::{Reviser, Way};
use serde_json::Value;
use served::SESSION;
use stage::{Ready, Stage};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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

async fn undisturbed(stage: Stage, way: Way, store: &Arc<TestStore>) -> (Reference, usize) {
    let ready = Ready::at(stage, store).await;
    let mut place = ready.place("undisturbed").await;
    let count = format!("count:{}", place.site.path().join("commits").display());
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
    let mut reviser = Reviser::new(stage, way);
    let nothing = Journal(Vec::new());
    let ended = reviser.go_on(&place, &nothing).await;
    let log = || place.site.tail("listen.log", 12);
    ended.unwrap_or_else(|status| panic!("nobody disturbs it: {status:?}\n{}", log()));
    let commits = place.site.read("commits").expect("commits are counted");
    let journal = place.journal(SESSION);
    let reference = Reference {
        ready,
        way,
        answers: reviser.answers(),
        journal,
    };
    check_end(&place, &reviser, &reference, "undisturbed");
    (reference, commits.lines().count())
}

/// What a kill came to.
struct Killed {
    /// How many calls were in doubt.
    doubts: usize,
    /// The plan that was in force then, or as soon as somebody could look, was the new one.
    is_new: bool,
}

/// None if there was no such commit.
async fn kill_once(side: &str, commit: usize, reference: &Reference) -> Option<Killed> {
    let fail = &format!("{side}:{commit}");
    let mut place = reference.ready.place(&format!("{side}-{commit}")).await;
    let mut reviser = Reviser::new(reference.ready.stage, reference.way);
    if place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]) {
        // The server dies under it, or has just served it to the end. A busy store may be away
        // between.
        while place.is_served() && !reviser.has_ended {
            let _ = reviser.go_on(&place, &reference.journal).await;
            place.pause().await;
        }
        if place.is_served() {
            return None;
        }
    }
    assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
    // Whoever answers looks at what the call did.
    place.site.wait_for_programs();
    let left = place.is_file().then(|| Left::read(&place, fail));
    if let Some(left) = &left {
        left.check(&place, &reviser, fail);
    }

    place.keep_serving();
    let is_new = match &left {
        Some(left) => left.is_new,
        None => has_new_plan(&place, fail),
    };
    assert!(
        is_new || !reviser.was_reported_applied(),
        "{fail}: what the client was told was lost"
    );
    while !reviser.has_ended {
        let went = reviser.go_on(&place, &reference.journal).await;
        went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    let journal = check_end(&place, &reviser, reference, fail);
    if let Some(Left {
        journal: before, ..
    }) = left
    {
        let kept = &journal.0[..before.0.len()];
        assert_eq!(kept, before.0, "{fail}: what was durable is");
    }
    Some(Killed {
        doubts: journal.of_kind("call_in_doubt").len(),
        is_new,
    })
}

/// Whether the plan that is in force is the new one. Panics unless it is one of the two, whole.
fn has_new_plan(place: &Place, fail: &str) -> bool {
    let shown = place.with_code(0, &["plan", "show", SESSION, "--json"]).out;
    let shown: Value = serde_json::from_str(&shown).expect("a plan");
    let shown = stage::words(&shown);
    let is_new = shown == stage::words(&stage::new());
    assert!(is_new || shown == stage::words(&stage::old()), "{fail}");
    is_new
}

/// What a killed server left in a file. Elsewhere only another server can tell, and that continues with
/// what it finds.
struct Left {
    journal: Journal,
    is_new: bool,
}

impl Left {
    fn read(place: &Place, fail: &str) -> Self {
        Self {
            journal: place.journal(SESSION),
            is_new: has_new_plan(place, fail),
        }
    }

    /// Panics unless one of the two plans is in force, and what the client was told is so.
    fn check(&self, place: &Place, reviser: &Reviser, fail: &str) {
        let Self { journal, is_new } = self;
        let applied = journal.of_kind("plan_applied");
        assert_eq!(applied.len(), 1 + usize::from(*is_new), "{fail}");
        let plan = if *is_new { stage::new() } else { stage::old() };
        let last = applied.last().expect("a plan");
        assert_eq!(stage::words(&last["plan"]), stage::words(&plan), "{fail}");
        // The step that the new plan has not is stopped with it, not before and not after.
        let skipped = journal.of_kind("step_skipped");
        let was_running = reviser.stage != Stage::Completed;
        assert_eq!(skipped.len(), usize::from(*is_new && was_running), "{fail}");
        if reviser.was_reported_proposed() {
            assert_eq!(journal.of_kind("plan_proposed").len(), 1, "{fail}");
        }
        // Nobody but its client resumes a run that is paused.
        let was_paused = journal.of_kind("run_paused").len();
        let resumed = journal.of_kind("run_resumed").into_iter();
        let resumed = resumed.filter(|it| it["answers"].is_u64());
        if was_paused > resumed.count() {
            let shown = place.with_code(0, &["show", SESSION, "--json"]).out;
            let shown: Value = serde_json::from_str(&shown).expect("a session");
            let status = &shown["session"]["latest_run"]["status"];
            assert_eq!(status, "paused", "{fail}");
        }
    }
}

/// Panics unless it all ended as if nobody had disturbed it.
fn check_end(place: &Place, reviser: &Reviser, reference: &Reference, fail: &str) -> Journal {
    let journal = place.journal(SESSION);
    journal.check();
    journal.check_like(&reference.journal);
    reviser.check_watched(&journal, fail);
    assert_eq!(reviser.answers(), reference.answers, "{fail}");
    let ledger = place.site.ledger();
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
async fn kill_everywhere(
    (stage, way): (Stage, Way),
    store: Arc<TestStore>,
    sweep: Sweep,
    turns: Arc<Semaphore>,
) {
    let (reference, commits) = undisturbed(stage, way, &store).await;
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let (reference, turns) = (Arc::clone(&reference), Arc::clone(&turns));
        let kill = tokio::spawn(async move {
            let _turn = turns.acquire_owned().await.expect("turns");
            Box::pin(kill_once(side, commit, &reference)).await
        });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
    let reached: &[Killed] = &swept.killed;
    let doubts: usize = reached.iter().map(|it| it.doubts).sum();
    let new = reached.iter().filter(|it| it.is_new).count();
    println!(
        "{stage:?}, {way:?}: {commits} commits, {} kills: the plan before was in force after {}, the \
         new one after {new}; {doubts} calls in doubt",
        reached.len(),
        reached.len() - new,
    );
    swept.check_reached(2);
    if swept.is_complete() {
        let old = reached.len() - new;
        assert!(new >= 2 && old >= 2, "kills on one side only");
        assert!(doubts >= 1, "no call was killed on its way");
    }
}

/// Stages at the same time, so that those that wait let others go on.
async fn kill_all(way: Way, store: TestStore) {
    let sweep = Sweep::over(&store);
    let store = Arc::new(store);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut stages = JoinSet::new();
    for stage in [Stage::Running, Stage::Paused, Stage::Completed] {
        let (store, turns) = (Arc::clone(&store), Arc::clone(&turns));
        let killed = kill_everywhere((stage, way), store, sweep, turns);
        stages.spawn(async move { Box::pin(killed).await });
    }
    stages.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn a_plan_that_is_proposed_and_applied_survives_a_kill_at_every_commit() {
    kill_all(Way::ByHand, TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn feedback_survives_a_kill_at_every_commit() {
    kill_all(Way::Feedback, TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::{TestStore, Way, kill_all};

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn a_plan_that_is_proposed_and_applied_survives_kills_at_sampled_commits_over_a_cluster()
    {
        kill_all(Way::ByHand, TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn feedback_survives_kills_at_sampled_commits_over_redis() {
        kill_all(Way::Feedback, TestStore::redis()).await;
    }
}
