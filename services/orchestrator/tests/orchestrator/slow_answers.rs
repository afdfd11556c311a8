//! An answer takes three seconds, and its owner dies at each commit around it. The next owner's model gets one
//! answer, and the journal has one.

use crate::answers::{finished, lines, read, results, with_long_result};
use crate::support::{Side, World, count};
use cairn_orchestrator::Config;
use std::time::Duration;

/// The store needs this long for the read.
const SLOW: Duration = Duration::from_secs(3);
const TEXT_LINES: usize = 20_000;
const ANSWER: &str = "result-1-0792: lines 1 to ";

/// Commits of a run that nobody disturbs, from the reply that asks: those before the read begins, those before
/// the answer is acknowledged, and all.
struct Commits {
    asked: usize,
    answered: usize,
    all: usize,
}

async fn undisturbed() -> Commits {
    let world = World::new().await;
    let (session, mut attempt, _) = with_long_result(&world, &lines(TEXT_LINES)).await;
    let before = world.faults.calls("Commit");
    let commits = || world.faults.calls("Commit") - before;
    let mut held = world.faults.hold("GetBlob");
    read(&mut attempt, 1, "");
    world.until(held.reached()).await;
    let asked = commits();
    world.pass(SLOW).await;
    held.release();
    results(&world, &mut attempt).await;
    let answered = commits();
    attempt.complete(2);
    world.ended(&session).await;
    world.settle().await;
    Commits {
        asked,
        answered,
        all: commits(),
    }
}

/// The owner dies around the commit of this number, and another one continues once the lease has ended.
async fn dies_at(commits: &Commits, commit: usize, side: Side) {
    let world = World::new().await;
    let (session, mut attempt, _) = with_long_result(&world, &lines(TEXT_LINES)).await;
    let mut held = world.faults.hold("GetBlob");
    let died = world.faults.die_at("Commit", commit, side);
    read(&mut attempt, 1, "");
    if commit > commits.asked {
        world.until(held.reached()).await;
        world.pass(SLOW).await;
        held.release();
    }
    if commit > commits.answered {
        results(&world, &mut attempt).await;
        attempt.complete(2);
    }
    world.until(died).await.expect("it dies");
    // The streams of a process end with it.
    drop(attempt);

    let config = Config {
        owner: "o-2".to_owned(),
        ..Config::default()
    };
    let (_client, _running) = world.successor(config).await;
    let events = world.journal.events(&session).await;
    if count(&events, "RunCompleted") == 0 {
        let mut attempt = world.attempt().await;
        let answers = match attempt.start.tool_turns {
            // Its reply was not stored, so the model is asked again.
            1 => {
                read(&mut attempt, 1, "");
                results(&world, &mut attempt).await
            }
            _ => attempt.start.results.clone(),
        };
        let answers: Vec<&str> = answers.iter().map(|it| it.output.as_str()).collect();
        assert!(
            matches!(answers[..], [answer] if answer.starts_with(ANSWER)),
            "{side:?} {commit}: {answers:?}"
        );
        attempt.complete(2);
    }
    let events = world.ended(&session).await;
    let recorded = finished(&events).into_iter();
    let recorded = recorded.filter(|it| it.output.starts_with(ANSWER));
    assert_eq!(recorded.count(), 1, "{side:?} {commit}");
    assert_eq!(count(&events, "StepCompleted"), 1, "{side:?} {commit}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_survives_the_death_of_its_owner_at_every_commit() {
    let commits = Box::pin(undisturbed()).await;
    assert!(commits.asked >= 1 && commits.answered > commits.asked);
    assert!(commits.all > commits.answered);
    for commit in 1..=commits.all {
        for side in [Side::Before, Side::After] {
            Box::pin(dies_at(&commits, commit, side)).await;
        }
    }
}
