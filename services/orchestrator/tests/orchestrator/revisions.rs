//! Another plan in the middle: proposed, applied, wished for; runs that are held up.

use crate::support::{
    Fault, World, chain, count, goal, graph, model_step, names, reply, tool_step,
};
use cairn_engine::limits::MAX_CALLS;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::StepFate::{Added, Continues, Repeated, Reused, Waiting};
use cairn_proto::orchestrator::apply_plan_request::Change;
use cairn_proto::orchestrator::propose_plan_request::Change as Proposed;
use cairn_rpc::RpcError;
use tonic::Status;

fn plan(steps: &[&str]) -> wire::Plan {
    wire::Plan {
        order: wire::Order::Chain.into(),
        steps: steps.iter().map(|title| model_step(title)).collect(),
    }
}

fn applying(world: &World, session: &str, change: Change) -> pb::ApplyPlanRequest {
    pb::ApplyPlanRequest {
        session: session.to_owned(),
        run: 0,
        request_id: world.request_id(),
        expected_revision: 0,
        change: Some(change),
    }
}

async fn apply(
    world: &World,
    session: &str,
    change: Change,
) -> Result<pb::ApplyPlanResponse, Status> {
    let request = applying(world, session, change);
    let mut client = world.client.clone();
    let answer = world.until(client.apply_plan(request)).await;
    answer.map(tonic::Response::into_inner)
}

fn fates(diff: &Option<pb::PlanDiff>) -> Vec<(u32, pb::StepFate)> {
    let steps = &diff.as_ref().expect("a diff").steps;
    steps
        .iter()
        .map(|step| (step.number, step.fate()))
        .collect()
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.expect_err("a refusal");
    RpcError::from_status(&status).reason_name().to_owned()
}

/// Carries a step out to its end.
async fn done(world: &World, step: u32) {
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.place(), (step, 1));
    attempt.complete(0);
    assert!(attempt.settled().await);
}

#[tokio::test(start_paused = true)]
async fn a_plan_by_hand_keeps_what_was_done_and_what_is_under_way() {
    let world = World::new().await;
    let steps = ["survey", "search", "write"].map(model_step).to_vec();
    let session = world.start(chain(steps)).await;
    done(&world, 1).await;
    let mut second = world.attempt().await;
    assert_eq!(second.place(), (2, 1));
    let changed = plan(&["survey", "search", "compare", "write"]);
    let answer = apply(&world, &session, Change::Plan(changed))
        .await
        .unwrap();
    assert_eq!(answer.revision, 2);
    let expected = [(1, Reused), (2, Continues), (0, Added), (0, Waiting)];
    assert_eq!(fates(&answer.diff), expected);
    world.settle().await;
    assert!(second.is_held(), "it continues undisturbed");
    second.complete(0);
    assert!(second.settled().await);
    // The new steps have the next numbers.
    done(&world, 4).await;
    done(&world, 5).await;
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepStarted"), 4, "{:?}", names(&events));
    assert_eq!(world.run(&session).await.steps_done, 4);
}

#[tokio::test(start_paused = true)]
async fn a_running_step_that_is_dropped_is_stopped_before_its_call() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("pay")])).await;
    let mut attempt = world.attempt().await;
    let applied = apply(&world, &session, Change::Plan(plan(&["ask first"])));
    let applied = applied.await.unwrap();
    assert_eq!(applied.revision, 2);
    // The model had asked for the call when the plan changed.
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    attempt.dropped().await;
    done(&world, 2).await;
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "CallIntended"), 0, "{:?}", names(&events));
    assert_eq!(count(&events, "StepSkipped"), 1);
    let diff = applied.diff.expect("a diff");
    assert_eq!(diff.gone[0].status(), pb::StepStatus::Running);
}

/// The steps that are stopped for a plan are shown as they ran before, however many calls they had sent.
#[tokio::test(start_paused = true)]
async fn a_diff_shows_what_ran_before_anything_was_stopped() {
    const STEPS: u32 = 9;
    let world = World::new().await;
    let limits = wire::LimitOverrides {
        max_parallel_steps: STEPS,
        ..wire::LimitOverrides::default()
    };
    let steps = (0..STEPS).map(|at| model_step(&format!("pay {at}")));
    let run = wire::StartRun {
        limits: Some(limits),
        ..graph(steps.collect())
    };
    let session = world.start(run).await;
    let mut attempts = Vec::new();
    for _ in 0..STEPS {
        let mut attempt = world.attempt().await;
        attempt.reply(reply(0, "", &[("effectful", "{}"); MAX_CALLS]));
        assert!(!attempt.settled().await);
        attempts.push(attempt);
    }
    let applied = apply(&world, &session, Change::Plan(plan(&["ask first"])));
    let diff = applied.await.unwrap().diff.expect("a diff");
    let statuses: Vec<_> = diff.gone.iter().map(pb::OldStep::status).collect();
    assert_eq!(statuses, [pb::StepStatus::Running; STEPS as usize]);
}

#[tokio::test(start_paused = true)]
async fn feedback_opens_a_finished_run_and_only_what_changed_is_done() {
    let world = World::new().await;
    let steps = ["survey", "write"].map(model_step).to_vec();
    let session = world.start(chain(steps)).await;
    done(&world, 1).await;
    done(&world, 2).await;
    world.ended(&session).await;
    let request = pb::SendFeedbackRequest {
        session: session.clone(),
        run: 0,
        request_id: world.request_id(),
        feedback: "mention the year".to_owned(),
    };
    let mut client = world.client.clone();
    let sent = tokio::spawn(async move { client.send_feedback(request).await });
    let asked = world.asked().await;
    let earlier = asked.request.earlier.clone().expect("an earlier plan");
    assert_eq!(earlier.feedback, "mention the year");
    assert_eq!(earlier.results, "- 1: done: done\n- 2: done: done");
    assert_eq!(earlier.plan.map(|plan| plan.steps.len()), Some(2));
    let steps = ["survey", "write with the year"].map(model_step).to_vec();
    asked.plan(steps, wire::Usage::default());
    let answer = world.until(sent).await.unwrap().unwrap().into_inner();
    assert_eq!(fates(&answer.diff), [(1, Reused), (0, Added)]);
    assert_eq!(answer.diff.unwrap().saved_tool_turns, 1);
    done(&world, 3).await;
    let run = world.run(&session).await;
    assert_eq!(run.status(), pb::RunStatus::Completed);
    assert!(world.other_attempts().await.is_empty());
}

/// A plan that a person has not agreed to is not in force, however it came about.
#[tokio::test(start_paused = true)]
async fn feedback_to_a_plan_under_review_proposes_another_in_its_stead() {
    let world = World::new().await;
    let limits = wire::LimitOverrides {
        review_plan: true,
        ..wire::LimitOverrides::default()
    };
    let start = wire::StartRun {
        limits: Some(limits),
        ..goal("the goal")
    };
    let session = world.start(start).await;
    world
        .asked()
        .await
        .plan(vec![model_step("survey")], wire::Usage::default());
    let request = pb::SendFeedbackRequest {
        session: session.clone(),
        run: 1,
        request_id: world.request_id(),
        feedback: "mention the year".to_owned(),
    };
    let send = |request: pb::SendFeedbackRequest| {
        let mut client = world.client.clone();
        tokio::spawn(async move { client.send_feedback(request).await })
    };
    let sent = send(request.clone());
    let asked = world.asked().await;
    let steps = vec![model_step("survey with the year")];
    asked.plan(steps, wire::Usage::default());
    let answer = world.until(sent).await.unwrap().unwrap().into_inner();
    assert_eq!((answer.revision, answer.proposal), (0, 2));
    assert_eq!(fates(&answer.diff), [(0, Added)]);
    let again = world.until(send(request)).await.unwrap().unwrap();
    assert_eq!(again.into_inner(), answer);
    let run = world.run(&session).await;
    assert_eq!(run.wait_reason(), wire::WaitReason::PlanReview);
}

#[tokio::test(start_paused = true)]
async fn a_proposal_changes_nothing_and_is_applied_once() {
    let world = World::new().await;
    let steps = ["survey", "write"].map(model_step).to_vec();
    let session = world.start(chain(steps)).await;
    let _first = world.attempt().await;
    let propose = |titles: &[&str]| pb::ProposePlanRequest {
        session: session.clone(),
        run: 0,
        request_id: world.request_id(),
        expected_revision: 1,
        change: Some(Proposed::Plan(plan(titles))),
    };
    let mut client = world.client.clone();
    let proposed = world.until(client.propose_plan(propose(&["survey", "count"])));
    let proposed = proposed.await.unwrap().into_inner();
    assert_eq!((proposed.run, proposed.proposal), (1, 1));
    assert_eq!(fates(&proposed.diff), [(1, Continues), (0, Added)]);
    let other = world.until(client.propose_plan(propose(&["survey", "write", "send"])));
    let other = other.await.unwrap().into_inner();
    assert_eq!(
        fates(&other.diff),
        [(1, Continues), (2, Waiting), (0, Added)]
    );

    let request = applying(&world, &session, Change::Proposal(1));
    let first = world.until(client.apply_plan(request.clone())).await;
    let again = world.until(client.apply_plan(request)).await;
    let (first, again) = (first.unwrap().into_inner(), again.unwrap().into_inner());
    assert_eq!((first.revision, &first), (2, &again), "the same answer");
    let stale = apply(&world, &session, Change::Proposal(2)).await;
    assert_eq!(reason(stale), "PLAN_MOVED_ON");
    let unknown = apply(&world, &session, Change::Proposal(7)).await;
    assert_eq!(reason(unknown), "NO_SUCH_PROPOSAL");
    let late = world.until(client.propose_plan(propose(&["other"]))).await;
    assert_eq!(reason(late), "PLAN_MOVED_ON");
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "PlanApplied"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revision_whose_answer_was_lost_is_in_force_once() {
    let world = World::new().await;
    let steps = ["survey", "write"].map(model_step).to_vec();
    let session = world.start(chain(steps)).await;
    let _first = world.attempt().await;
    world.faults.next("Commit", Fault::LoseAnswer, 1);
    let answer = apply(&world, &session, Change::Plan(plan(&["survey", "count"])));
    assert_eq!(answer.await.unwrap().revision, 2);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "PlanApplied"), 2, "{:?}", names(&events));
}

#[tokio::test(start_paused = true)]
async fn a_planner_that_has_no_other_plan_leaves_the_one_in_force() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("survey")])).await;
    let mut attempt = world.attempt().await;
    let request = pb::SendFeedbackRequest {
        session: session.clone(),
        run: 0,
        request_id: world.request_id(),
        feedback: "do it in verse".to_owned(),
    };
    let mut client = world.client.clone();
    let sent = tokio::spawn(async move { client.send_feedback(request).await });
    world.asked().await.plan(Vec::new(), wire::Usage::default());
    let answer = world.until(sent).await.unwrap();
    assert_eq!(reason(answer), "REVISION_FAILED");
    assert!(attempt.is_held());
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_step_is_done_again_with_what_depends_on_it() {
    let world = World::new().await;
    let steps = vec![tool_step("pure"), tool_step("idempotent")];
    let session = world.start(chain(steps)).await;
    for _ in 0..2 {
        let mut attempt = world.attempt().await;
        attempt.report_result(0, 0, "made");
        assert!(attempt.settled().await);
    }
    world.ended(&session).await;
    let answer = apply(&world, &session, Change::RedoStep(2)).await.unwrap();
    assert_eq!(fates(&answer.diff), [(1, Reused), (0, Repeated)]);
    let mut again = world.attempt().await;
    assert_eq!(again.place(), (3, 1));
    again.report_result(0, 0, "made anew");
    assert!(again.settled().await);
    let missing = apply(&world, &session, Change::RedoStep(2)).await;
    assert_eq!(
        reason(missing),
        "NO_SUCH_STEP",
        "it is not in the plan any more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_begins_nothing_until_it_is_resumed() {
    let world = World::new().await;
    let steps = vec![model_step("survey"), tool_step("pure")];
    let session = world.start(chain(steps)).await;
    let attempt = world.attempt().await;
    let pause = pb::PauseRunRequest {
        session: session.clone(),
        run: 0,
        reason: "lunch".to_owned(),
        request_id: world.request_id(),
    };
    let mut client = world.client.clone();
    world.until(client.pause_run(pause.clone())).await.unwrap();
    attempt.dropped().await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Paused);
    let again = pb::PauseRunRequest {
        request_id: world.request_id(),
        ..pause
    };
    assert_eq!(
        reason(world.until(client.pause_run(again)).await),
        "RUN_PAUSED"
    );
    assert!(world.other_attempts().await.is_empty());

    let resume = pb::ResumeRunRequest {
        session: session.clone(),
        run: 0,
        request_id: world.request_id(),
    };
    world.until(client.resume_run(resume)).await.unwrap();
    done(&world, 1).await;
    let skip = pb::SkipStepRequest {
        session: session.clone(),
        run: 0,
        step: 2,
        reason: "not needed".to_owned(),
        request_id: world.request_id(),
    };
    let second = world.attempt().await;
    assert_eq!(second.place(), (2, 1));
    world.until(client.skip_step(skip.clone())).await.unwrap();
    second.dropped().await;
    world.ended(&session).await;
    let late = pb::SkipStepRequest {
        request_id: world.request_id(),
        ..skip
    };
    assert_eq!(
        reason(world.until(client.skip_step(late)).await),
        "RUN_ENDED"
    );
}
