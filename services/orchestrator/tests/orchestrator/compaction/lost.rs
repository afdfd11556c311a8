//! Answers to questions for a summary that are lost: the question is put again, and each one is charged.

use super::{begin_summary, says, task};
use crate::support::{Attempt, Fault, Kind, World, count, names};
use crate::turns::session;
use cairn_engine::event::{Event, SummaryAsked};
use cairn_proto::executor::SummaryTask;
use std::time::Duration;

fn asked(events: &[Event]) -> Vec<&SummaryAsked> {
    let asked = events.iter().filter_map(|event| match &event.kind {
        Kind::SummaryAsked(asked) => Some(asked),
        _ => None,
    });
    asked.collect()
}

/// The same question is there once more. It is answered, and the turn completes.
async fn answer_again(world: &World, session: &str, first: &SummaryTask, mut again: Attempt) {
    assert_eq!(&task(&again), first);
    again.summarise("FACT 17: it rains.");
    let mut last = world.attempt().await;
    says(&mut last, "Good day.");
    let events = world.ended(session).await;
    let [lost, answered] = asked(&events)[..] else {
        panic!("{:?}", names(&events));
    };
    assert_eq!((lost.again, answered.again), (false, true));
    assert_eq!(count(&events, "ContextCompacted"), 1);
    let usage = world.run(session).await.usage.expect("the usage");
    assert_eq!(usage.input_tokens, lost.estimate + 40 + 5);
    let expected = (lost.estimate, 3);
    assert_eq!((usage.unpriced_tokens, usage.model_calls), expected);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_lost_with_its_executor_is_asked_for_again() {
    let world = World::new().await;
    let session = session(&world).await;
    let (_stream, writing) = begin_summary(&world, &session).await;
    let first = task(&writing);
    drop(writing);
    let again = world.attempt().await;
    answer_again(&world, &session, &first, again).await;
}

/// The owner is cut off from the store while the model writes, and the next owner knows of no summary.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_lost_with_its_owner_is_asked_for_again() {
    let world = World::new().await;
    let session = session(&world).await;
    let (_stream, writing) = begin_summary(&world, &session).await;
    let first = task(&writing);
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.until(writing.dropped()).await;
    world.faults.always("RenewLeases", None);
    let again = world.attempt().await;
    answer_again(&world, &session, &first, again).await;
}

/// The commit of a compaction is made once, whatever becomes of its answers.
#[tokio::test(start_paused = true)]
async fn a_compaction_whose_commit_is_repeated_is_made_once() {
    for fault in [Fault::LoseAnswer, Fault::Refuse, Fault::Hang] {
        let world = World::new().await;
        let session = session(&world).await;
        let (_stream, mut writing) = begin_summary(&world, &session).await;
        world.faults.next("Commit", fault, 2);
        writing.summarise("FACT 17: it rains.");
        let mut last = world.attempt().await;
        assert_eq!(last.conversation().compressed.len(), 1, "{fault:?}");
        says(&mut last, "Good day.");
        let events = world.ended(&session).await;
        assert_eq!(count(&events, "ContextCompacted"), 1, "{fault:?}");
        assert_eq!(count(&events, "SummaryAsked"), 1, "{fault:?}");
        let usage = world.run(&session).await.usage.expect("the usage");
        assert_eq!(usage.input_tokens, 45, "{fault:?}");
    }
}

/// The summary has come, and its commit does not reach the store before the lease ends: it counts for nothing,
/// and its question for what it was estimated.
#[tokio::test(start_paused = true)]
async fn a_summary_that_no_commit_holds_is_none() {
    let world = World::new().await;
    let session = session(&world).await;
    let (_stream, mut writing) = begin_summary(&world, &session).await;
    let first = task(&writing);
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.pass(Duration::from_secs(10)).await;
    world.faults.always("Commit", Some(Fault::Refuse));
    writing.summarise("FACT 1: it is lost.");
    world.until(writing.dropped()).await;
    world.faults.always("Commit", None);
    world.faults.always("RenewLeases", None);
    let again = world.attempt().await;
    assert!(again.conversation().compressed.is_empty());
    answer_again(&world, &session, &first, again).await;
}
