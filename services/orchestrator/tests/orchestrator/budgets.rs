//! Budgets, as executors see them.

use crate::support::{Kind, World, count, goal, graph, model_step, reply};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use std::time::Duration;

fn with_tokens(max_tokens: u64, steps: &[&str]) -> wire::StartRun {
    let limits = wire::LimitOverrides {
        max_tokens,
        ..wire::LimitOverrides::default()
    };
    wire::StartRun {
        limits: Some(limits),
        ..graph(steps.iter().map(|title| model_step(title)).collect())
    }
}

/// Executors and planners know the prices of models.
#[tokio::test(start_paused = true)]
async fn who_asks_a_model_is_told_of_a_budget_of_money() {
    for max_cost_nano_usd in [0, 1] {
        let limits = wire::LimitOverrides {
            max_cost_nano_usd,
            ..wire::LimitOverrides::default()
        };
        let planned = wire::StartRun {
            limits: Some(limits),
            ..graph(vec![model_step("a")])
        };
        let to_plan = wire::StartRun {
            limits: Some(limits),
            ..goal("Look.")
        };
        let world = World::new().await;
        world.start(planned).await;
        let attempt = world.attempt().await;
        assert_eq!(attempt.start.limits_cost, max_cost_nano_usd > 0);
        world.start(to_plan).await;
        let asked = world.asked().await;
        assert_eq!(asked.request.limits_cost, max_cost_nano_usd > 0);
    }
}

/// A reply takes seven tokens. One that was asked for before the tokens were used up is paid for, so
/// it is waited for and counted; no other is asked for.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_on_its_way_is_taken_when_tokens_are_used_up() {
    let world = World::new().await;
    let session = world.start(with_tokens(15, &["a", "b"])).await;
    let mut first = world.attempt().await;
    assert!(world.other_attempts().await.is_empty(), "nothing is known");
    first.reply(reply(0, "hm", &[]));
    assert!(!first.settled().await);
    let mut second = world.attempt().await;
    first.reply(reply(1, "hm", &[]));
    assert!(first.settled().await, "the last is reserved for the other");
    world.settle().await;
    assert!(second.is_held(), "its model is being asked");
    second.reply(reply(0, "hm", &[("pure", "{}")]));
    assert!(second.settled().await, "now it is not to go on");
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 3);
    assert_eq!(count(&events, "BudgetExhausted"), 1);
    let run = world.run(&session).await;
    assert_eq!(run.wait_reason(), wire::WaitReason::Budget);
    assert_eq!(run.usage.unwrap().input_tokens, 15);
    assert!(world.other_attempts().await.is_empty());
}

/// What replies took so far is reserved for each that is under way: the second step waits for the
/// first, and so does its call, which is pure and may be made again.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_asks_no_model_waits_for_what_others_have_reserved() {
    let world = World::new().await;
    let session = world.start(with_tokens(22, &["a", "b"])).await;
    let mut first = world.attempt().await;
    first.reply(reply(0, "hm", &[]));
    assert!(!first.settled().await);
    let mut second = world.attempt().await;
    second.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!second.settled().await, "14, and 7 for the other reply");
    first.reply(reply(1, "hm", &[]));
    assert!(!first.settled().await, "it is the first in the plan");
    second.dropped().await;
    let run = world.run(&session).await;
    assert_eq!(run.status(), pb::RunStatus::Running);
    first.complete(2);
    assert!(first.settled().await);
    // Seven more are beyond the budget, and who is asked first is told so.
    let run = world.run(&session).await;
    assert_eq!(run.wait_reason(), wire::WaitReason::Budget);
}

/// A timer that was set before the store's clock was set back fires too early. It is set again, also if
/// nothing else happens in the session.
#[tokio::test(start_paused = true)]
async fn a_time_budget_is_used_up_also_after_the_stores_clock_was_set_back() {
    let world = World::new().await;
    let began = world.now();
    let limits = wire::LimitOverrides {
        max_active_ms: 60_000,
        ..wire::LimitOverrides::default()
    };
    let run = wire::StartRun {
        limits: Some(limits),
        ..graph(vec![model_step("a")])
    };
    let session = world.start(run).await;
    let _at_work = world.attempt().await;
    world.set_store_back(Duration::from_secs(10)).await;
    let is_noted = |kind: &Kind| matches!(kind, Kind::BudgetExhausted(_));
    let events = world.seen(&session, is_noted).await;
    assert_eq!(count(&events, "BudgetExhausted"), 1);
    let passed = world.now() - began;
    assert!((59_000..65_000).contains(&passed), "{passed} ms");
}
