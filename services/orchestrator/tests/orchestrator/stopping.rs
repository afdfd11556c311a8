//! A process that ends beside a real executor.

use crate::drain::Draining;
use crate::support::{Question, World, count, graph, model_step, names, real_executor};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// The first question of each step, by title.
async fn asked(
    world: &World,
    questions: &mut UnboundedReceiver<Question>,
    steps: usize,
) -> BTreeMap<String, Question> {
    let mut asked = BTreeMap::new();
    while asked.len() < steps {
        let question = world.until(questions.recv()).await.expect("a question");
        asked.insert(question.step.clone(), question);
    }
    asked
}

/// A reply with an effectful call waits behind a commit when the process begins to end. The executor
/// insists on an answer for each call, and a reply of another step arrives with the next commit.
#[tokio::test(start_paused = true)]
async fn a_reply_whose_call_may_not_begin_any_more_fails_no_step() {
    let (executor, mut questions) = real_executor().await;
    let world = Arc::new(World::with_executor(executor).await);
    let steps = ["first", "acts", "third"].map(model_step);
    let session = world.start(graph(steps.to_vec())).await;
    let mut asked = asked(&world, &mut questions, 3).await;
    let mut take = |step: &str| asked.remove(step).expect("the step asks");
    let mut commit = world.faults.hold("Commit");
    take("first").reply("one", &[]);
    world.until(commit.reached()).await;
    take("acts").reply("", &[("effectful", "{}")]);
    world.settle().await;
    let draining = Draining::of(&world).await;
    let mut second = world.faults.hold("Commit");
    commit.release();
    world.until(second.reached()).await;
    let third = take("third");
    let is_given_up = third.is_given_up();
    third.reply("three", &[]);
    world.settle().await;
    let next = world.faults.hold("Commit");
    second.release();
    world.settle().await;
    next.release();
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    let names = names(&events);
    assert_eq!(count(&events, "StepFailed"), 0, "{names:?}");
    assert_eq!(count(&events, "CallIntended"), 0, "{names:?}");
    assert_eq!(count(&events, "ReplyReceived"), 2, "{names:?}");
    assert!(is_given_up, "a model is asked for a step that ends here");
    assert_eq!(world.claim("o-2").await.len(), 1);
}
