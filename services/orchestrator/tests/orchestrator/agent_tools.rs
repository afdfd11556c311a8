//! What agents may call: their tools, the rules for them, and the plans of their runs.

use crate::agent_runs::{REVIEWER, check, of, put, request, try_start};
use crate::support::{
    Kind, Tools, World, chain, goal, model_step, real_executor_on, reply, tool_step,
};
use crate::turns::session;
use cairn_proto::orchestrator as pb;
use cairn_proto::tools::{RuleAnswer, ToolRule};
use cairn_rpc::ErrorKind;
use std::time::Duration;

/// Whatever the model writes, only tools of the list come to the tools service, and each step can end.
#[tokio::test(start_paused = true)]
async fn a_tool_outside_the_list_is_never_sent() {
    let called = Tools::default();
    let (executor, mut questions) = real_executor_on(&called).await;
    let world = World::with_executor(executor).await;
    put(&world, "---\nname: reviewer\ntools: [pure]\n---\nP").await;
    let run = of("reviewer", chain(vec![model_step("one")]));
    let session = world.start(run).await;
    let question = world.until(questions.recv()).await.expect("a question");
    assert!(question.tools.iter().any(|tool| tool == "step"));
    assert!(!question.tools.iter().any(|tool| tool == "effectful"));
    let tries = [
        "effectful",
        "idempotent",
        "approved",
        "denied",
        "Pure",
        "pure ",
        "*",
        "read_skill",
        "nothing__like_it",
    ];
    let mut calls: Vec<(&str, &str)> = tries.iter().map(|tool| (*tool, "{}")).collect();
    calls.push(("pure", "{}"));
    question.reply("I try them all.", &calls);
    let question = world.until(questions.recv()).await.expect("a question");
    assert_eq!(called.called(), ["pure"]);
    let events = world.journal.events(&session).await;
    let missing = events.iter().filter(|event| match &event.kind {
        Kind::CallFinished(finished) => finished.reason == "NotFound",
        _ => false,
    });
    assert_eq!(missing.count(), tries.len());
    question.reply("", &[("step", r#"{"complete": true, "summary": "done"}"#)]);
    world.ended(&session).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Completed);
    assert_eq!(called.called(), ["pure"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_an_agent_without_tools_can_be_completed() {
    let world = World::new().await;
    put(&world, "---\nname: thinker\ntools: []\n---\nThink.").await;
    let session = world
        .start(of("thinker", chain(vec![model_step("one")])))
        .await;
    let mut attempt = world.attempt().await;
    let tools = world.until(attempt.tools()).await;
    assert!(tools.iter().any(|tool| tool == "step"), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool == "pure"), "{tools:?}");
    attempt.complete(0);
    world.ended(&session).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_calls_a_tool_outside_the_list_is_refused() {
    let world = World::new().await;
    put(&world, "---\nname: reviewer\ntools: [pure]\n---\nP").await;
    let known = session(&world).await;
    let run = of("reviewer", chain(vec![tool_step("effectful")]));
    let refused = try_start(&world, request(&world, &known, run)).await;
    let error = refused.expect_err("it is refused");
    check(&error, ErrorKind::FailedPrecondition, "TOOL_NOT_ALLOWED");
}

#[tokio::test(start_paused = true)]
async fn a_planner_knows_the_agent_and_its_tools() {
    let world = World::new().await;
    put(&world, REVIEWER).await;
    world.start(of("reviewer", goal("plan this"))).await;
    let asked = world.asked().await;
    assert_eq!(asked.request.tools, ["pure"]);
    let layers = asked.request.prompt_layers.join("\n");
    assert!(layers.contains("Review with care."), "{layers}");
    assert!(layers.contains("`pure`"), "{layers}");
    assert!(!layers.contains("`effectful`"), "{layers}");
    world.start(goal("plan that")).await;
    let asked = world.asked().await;
    assert!(asked.request.tools.iter().any(|tool| tool == "effectful"));
    assert!(
        !asked
            .request
            .prompt_layers
            .join("\n")
            .contains("Review with care.")
    );
}

/// A rule with an agent holds for that agent alone.
#[tokio::test(start_paused = true)]
async fn rules_with_an_agent_hold_for_its_runs() {
    let world = World::new().await;
    let rule = |agent: &str, tool: &str, answer: RuleAnswer| ToolRule {
        agent: agent.to_owned(),
        tool: tool.to_owned(),
        answer: answer.into(),
        ..ToolRule::default()
    };
    world.tools.set_rules(vec![
        rule("reviewer", "idempotent", RuleAnswer::Deny),
        rule("reviewer", "pure", RuleAnswer::Ask),
        rule("default", "effectful", RuleAnswer::Deny),
    ]);
    world.pass(Duration::from_secs(3)).await;
    put(&world, "---\nname: reviewer\n---\nP").await;
    for (agent, lacks, has, asks) in [
        ("reviewer", "idempotent", "effectful", true),
        ("", "effectful", "idempotent", false),
    ] {
        let run = of(agent, chain(vec![model_step("one")]));
        let session = world.start(run).await;
        let mut attempt = world.attempt().await;
        let tools = world.until(attempt.tools()).await;
        assert!(
            !tools.iter().any(|tool| tool == lacks),
            "{agent}: {tools:?}"
        );
        assert!(tools.iter().any(|tool| tool == has), "{agent}: {tools:?}");
        let call = reply(0, "", &[("pure", "{}")]);
        attempt.reply(call);
        let acknowledged = world.until(attempt.ack()).await;
        // No executor keeps a slot while a person is asked.
        assert_eq!(acknowledged.ended, asks, "{acknowledged:?}");
        let waits = world.run(&session).await.status() == pb::RunStatus::Waiting;
        assert_eq!(waits, asks, "{agent}");
    }
}
