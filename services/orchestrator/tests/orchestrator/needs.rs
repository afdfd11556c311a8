//! What steps need: capabilities by their names, and tools that a planner knows.

use crate::support::{World, chain, goal, model_step, tool_step};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;
use tonic::Status;

fn needs(capability: &str) -> wire::PlanStep {
    wire::PlanStep {
        capabilities: vec![capability.to_owned()],
        ..model_step("think")
    }
}

fn check_refused<T>(answer: Result<T, Status>) {
    let Err(status) = answer else {
        panic!("accepted");
    };
    let error = RpcError::from_status(&status);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.reason_name(), "BAD_PLAN", "{error}");
    let text = error.message().into_owned();
    let expected = "plan.steps.capabilities is wrong: step 2 needs the capability 'GPU', which is no name of one; \
                    allowed: NAME or NAME>=LEVEL";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_step_with_a_capability_that_there_is_runs_and_what_names_none_is_refused() {
    let world = World::new().await;
    let mut client = world.client.clone();
    let start = pb::StartRunRequest {
        request_id: world.request_id(),
        run: Some(chain(vec![model_step("think"), needs("GPU")])),
        ..pb::StartRunRequest::default()
    };
    check_refused(client.start_run(start).await);
    let session = world.start(chain(vec![needs("file_ops")])).await;
    let _attempt = world.attempt().await;
    let plan = chain(vec![model_step("think"), needs("GPU")]).plan.unwrap();
    let propose = pb::ProposePlanRequest {
        session: session.clone(),
        request_id: world.request_id(),
        change: Some(pb::propose_plan_request::Change::Plan(plan.clone())),
        ..pb::ProposePlanRequest::default()
    };
    check_refused(client.propose_plan(propose).await);
    let apply = pb::ApplyPlanRequest {
        session,
        request_id: world.request_id(),
        change: Some(pb::apply_plan_request::Change::Plan(plan)),
        ..pb::ApplyPlanRequest::default()
    };
    check_refused(client.apply_plan(apply).await);
}

/// The tools of the catalogue are named, but for one that rules deny. A server may bring its tools later.
#[tokio::test(start_paused = true)]
async fn a_given_plan_names_tools_that_there_are() {
    let world = World::new().await;
    let mut client = world.client.clone();
    let unknown = || vec![tool_step("pure"), tool_step("web_search")];
    let expected = "plan.steps.tool.name is wrong: step 2 names the tool 'web_search', which does not \
                    exist; available: approved, code_generation_tool, denied, effectful, idempotent, pure";
    let check = |answer: Result<(), Status>| {
        let error = RpcError::from_status(&answer.expect_err("refused"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.reason_name(), "BAD_PLAN", "{error}");
        assert!(error.message().contains(expected), "{error}");
    };
    let start = pb::StartRunRequest {
        request_id: world.request_id(),
        run: Some(chain(unknown())),
        ..pb::StartRunRequest::default()
    };
    check(client.start_run(start).await.map(drop));
    assert!(world.listed(0).await.is_empty(), "nothing was stored");
    let of_server = vec![tool_step("pure"), tool_step("web__search")];
    let session = world.start(chain(of_server)).await;
    let _attempt = world.attempt().await;
    let plan = chain(unknown()).plan.unwrap();
    let propose = pb::ProposePlanRequest {
        session: session.clone(),
        request_id: world.request_id(),
        change: Some(pb::propose_plan_request::Change::Plan(plan.clone())),
        ..pb::ProposePlanRequest::default()
    };
    check(client.propose_plan(propose).await.map(drop));
    let apply = pb::ApplyPlanRequest {
        session,
        request_id: world.request_id(),
        change: Some(pb::apply_plan_request::Change::Plan(plan)),
        ..pb::ApplyPlanRequest::default()
    };
    check(client.apply_plan(apply).await.map(drop));
}

/// A request that was accepted is answered again, and a step that is there may stay; nothing new is accepted.
#[tokio::test(start_paused = true)]
async fn requests_are_repeated_and_steps_stay_after_their_tool_has_gone() {
    let world = World::new().await;
    let mut client = world.client.clone();
    let run = |title: &str| chain(vec![tool_step("pure"), model_step(title)]);
    let start = |run| pb::StartRunRequest {
        request_id: world.request_id(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    };
    let in_new = start(chain(vec![tool_step("pure")]));
    let began = client.start_run(in_new.clone()).await.unwrap().into_inner();
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    assert!(attempt.settled().await);
    world.ended(&began.session).await;
    let in_known = pb::StartRunRequest {
        session: began.session.clone(),
        ..start(run("think"))
    };
    let started = world.until(client.start_run(in_known.clone())).await;
    let started = started.unwrap().into_inner();
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made again");
    assert!(attempt.settled().await);
    let _thinks = world.attempt().await;
    let propose = |title: &str| pb::ProposePlanRequest {
        session: began.session.clone(),
        request_id: world.request_id(),
        change: run(title).plan.map(pb::propose_plan_request::Change::Plan),
        ..pb::ProposePlanRequest::default()
    };
    let apply = |title: &str| pb::ApplyPlanRequest {
        session: began.session.clone(),
        request_id: world.request_id(),
        change: run(title).plan.map(pb::apply_plan_request::Change::Plan),
        ..pb::ApplyPlanRequest::default()
    };
    let (proposal, change) = (propose("think more"), apply("think twice"));
    let proposed = world.until(client.propose_plan(proposal.clone())).await;
    let proposed = proposed.unwrap().into_inner();
    let applied = world.until(client.apply_plan(change.clone())).await;
    let applied = applied.unwrap().into_inner();

    world.tools.remove("pure");
    world.pass(Duration::from_secs(3)).await;
    let again = world.until(client.start_run(in_new)).await;
    assert_eq!(again.unwrap().into_inner(), began);
    let again = world.until(client.start_run(in_known)).await;
    assert_eq!(again.unwrap().into_inner(), started);
    let again = world.until(client.propose_plan(proposal)).await;
    assert_eq!(again.unwrap().into_inner(), proposed);
    let again = world.until(client.apply_plan(change)).await;
    assert_eq!(again.unwrap().into_inner(), applied);

    let other = client.start_run(start(run("think"))).await;
    let error = RpcError::from_status(&other.expect_err("refused"));
    assert_eq!(error.reason_name(), "BAD_PLAN", "{error}");
    let kept = world.until(client.propose_plan(propose("rest"))).await;
    kept.expect("its step is in the plan in force");
    let kept = world.until(client.apply_plan(apply("rest"))).await;
    kept.expect("its step is in the plan in force");
}

/// A planner returns such a plan to its model; what one lets through is no plan.
#[tokio::test(start_paused = true)]
async fn a_plan_of_the_planner_with_a_text_that_names_no_capability_fails_the_run() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    asked.plan(vec![needs("GPU")], wire::Usage::default());
    world.ended(&session).await;
    let failure = world.run(&session).await.failure.unwrap();
    assert_eq!(failure.reason, "BadPlan");
    assert!(failure.message.contains("'GPU'"), "{}", failure.message);
}

#[tokio::test(start_paused = true)]
async fn a_planner_is_given_the_names_of_the_tools() {
    let tools = ["approved", "denied", "effectful", "idempotent", "pure"];
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    assert_eq!(asked.request.tools, tools);
    asked.plan(vec![model_step("think")], wire::Usage::default());
    let _attempt = world.attempt().await;
    let feedback = pb::SendFeedbackRequest {
        session,
        request_id: world.request_id(),
        feedback: "another way".to_owned(),
        ..pb::SendFeedbackRequest::default()
    };
    let mut client = world.client.clone();
    let answer = tokio::spawn(async move { client.send_feedback(feedback).await });
    let asked = world.asked().await;
    assert_eq!(asked.request.tools, tools);
    asked.plan(vec![model_step("think")], wire::Usage::default());
    world.until(answer).await.unwrap().unwrap();
}
