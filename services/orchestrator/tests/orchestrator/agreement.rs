//! What the views of a session say is what the fold of its journal says.

use crate::support::{World, chain, model_step, reply, tool_step};
use crate::turns::{rest, session, submit, turn};
use cairn_engine::event::EventKind;
use cairn_engine::session::{Run, RunStatus, Session, StepStatus};
use cairn_proto::event as wire;
use cairn_proto::executor::Reply;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;

/// The fold of all events.
async fn folded(world: &World, session: &str) -> Session {
    let mut folded = Session::default();
    for (seq, event) in (1..).zip(world.journal.events(session).await) {
        folded.apply(seq, &event).expect("it folds");
    }
    folded
}

/// What the last run answers: the summary of its last step, or all of a turn's last reply.
async fn answer(world: &World, session: &str, run: &Run) -> String {
    if run.status != RunStatus::Completed || run.turn.is_none() {
        return run.end.answer.clone();
    }
    let events = world.journal.events(session).await;
    let replies = events.into_iter().filter_map(|event| match event.kind {
        EventKind::ReplyReceived(reply) if reply.attempt.run == run.number => Some(reply.text),
        _ => None,
    });
    // The turns here call no tools: each reply continues the one before.
    replies.collect()
}

fn status(run: &Run) -> (pb::RunStatus, pb::SessionStatus) {
    match run.status {
        RunStatus::Planning => (pb::RunStatus::Planning, pb::SessionStatus::Running),
        RunStatus::Running => (pb::RunStatus::Running, pb::SessionStatus::Running),
        RunStatus::Waiting(_) => (pb::RunStatus::Waiting, pb::SessionStatus::Waiting),
        RunStatus::Paused => (pb::RunStatus::Paused, pb::SessionStatus::Paused),
        RunStatus::Completed => (pb::RunStatus::Completed, pb::SessionStatus::Idle),
        RunStatus::Failed => (pb::RunStatus::Failed, pb::SessionStatus::Idle),
        RunStatus::Cancelled => (pb::RunStatus::Cancelled, pb::SessionStatus::Idle),
    }
}

fn steps(run: &Run) -> Vec<(pb::StepStatus, pb::NodeStatus)> {
    use pb::{NodeStatus as Node, StepStatus as Listed};
    let steps = run.plan.iter().flat_map(|plan| plan.current());
    let status = steps.map(|(_, step)| match step.status {
        StepStatus::Pending => (Listed::Pending, Node::Planned),
        StepStatus::Running(_) => (Listed::Running, Node::InProgress),
        StepStatus::Completed { .. } => (Listed::Completed, Node::Completed),
        StepStatus::Failed { .. } => (Listed::Failed, Node::Failed),
        StepStatus::Skipped { .. } => (Listed::Skipped, Node::Skipped),
    });
    status.collect()
}

/// The status of each step of the newest run, in its plan and in its tree.
async fn seen_steps(world: &World, id: &str) -> Vec<(pb::StepStatus, pb::NodeStatus)> {
    let mut client = world.client.clone();
    let request = pb::GetPlanRequest {
        session: id.to_owned(),
        ..pb::GetPlanRequest::default()
    };
    let plan = client.get_plan(request).await.expect("a plan").into_inner();
    let request = pb::GetTreeRequest {
        session: id.to_owned(),
        ..pb::GetTreeRequest::default()
    };
    let tree = client.get_tree(request).await.expect("a tree").into_inner();
    let is_step =
        |node: &&pb::TreeNode| node.parent_id.is_empty() && node.kind() == pb::NodeKind::Goal;
    let goals = tree.nodes.iter().filter(is_step);
    assert_eq!(goals.clone().count(), plan.steps.len());
    let both = plan.steps.iter().zip(goals);
    both.map(|(step, goal)| (step.status(), goal.status()))
        .collect()
}

/// Compares every view of the session and of its last run with the fold.
async fn compare(world: &World, id: &str) {
    let folded = folded(world, id).await;
    let run = folded.runs.last().expect("a run");
    let (run_status, session_status) = status(run);
    let answer = answer(world, id, run).await;
    let seen = world.run(id).await;
    assert_eq!((seen.status(), &seen.answer), (run_status, &answer));

    let mut client = world.client.clone();
    let request = pb::ListRunsRequest {
        session: id.to_owned(),
    };
    let runs = client.list_runs(request).await.expect("its runs");
    let runs = runs.into_inner().runs;
    assert_eq!(runs.len(), folded.runs.len());
    // A conversation may have more of them than a response may have bytes.
    let listed_answer = match run.turn {
        Some(_) => String::new(),
        None => answer.clone(),
    };
    let in_list = pb::Run {
        answer: listed_answer,
        ..seen.clone()
    };
    assert_eq!(runs.last(), Some(&in_list));

    let request = pb::GetSessionRequest {
        session: id.to_owned(),
    };
    let session = client.get_session(request).await.expect("a session");
    let session = session.into_inner().session.expect("a session");
    assert_eq!(session.status(), session_status);
    assert_eq!(session.latest_run.as_ref(), Some(&seen));

    let listed = world.listed(0).await;
    let listed = listed
        .iter()
        .find(|entry| entry.id == id)
        .expect("an entry");
    assert_eq!(listed.status(), session_status);

    let request = pb::GetStateRequest {
        session: id.to_owned(),
        at_seq: 0,
    };
    let state = client.get_state(request).await.expect("a state");
    let state: serde_json::Value =
        serde_json::from_str(&state.into_inner().json).expect("it is JSON");
    let is_completed = run.status == RunStatus::Completed;
    let stated = state["answer"].as_str();
    assert_eq!(stated, is_completed.then_some(answer.as_str()), "{state}");
    // The tree of a turn has the turn itself in place of a plan.
    if run.plan.is_some() {
        assert_eq!(seen_steps(world, id).await, steps(run));
    }
}

#[tokio::test(start_paused = true)]
async fn runs_are_the_same_in_every_view() {
    let world = World::new().await;
    let running = world.start(chain(vec![model_step("think")])).await;
    let held = world.attempt().await;
    compare(&world, &running).await;
    drop(held);

    let world = World::new().await;
    let limits = wire::LimitOverrides {
        max_turns: 1,
        ..wire::LimitOverrides::default()
    };
    let waiting = wire::StartRun {
        limits: Some(limits),
        ..chain(vec![model_step("long")])
    };
    let waiting = world.start(waiting).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "hm", &[]));
    attempt.dropped().await;
    compare(&world, &waiting).await;

    let done = world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    assert!(attempt.settled().await);
    world.ended(&done).await;
    compare(&world, &done).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_paused_is_so_in_every_view() {
    let world = World::new().await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    let attempt = world.attempt().await;
    let mut client = world.client.clone();
    let fork = pb::ForkSessionRequest {
        session: parent.clone(),
        request_id: world.request_id(),
        ..pb::ForkSessionRequest::default()
    };
    let child = world.until(client.fork_session(fork)).await.unwrap();
    let child = child.into_inner().session;
    compare(&world, &child).await;

    let pause = pb::PauseRunRequest {
        session: parent.clone(),
        run: 0,
        reason: "lunch".to_owned(),
        request_id: world.request_id(),
    };
    world.until(client.pause_run(pause)).await.unwrap();
    attempt.dropped().await;
    compare(&world, &parent).await;
    let filter = pb::SessionFilter {
        statuses: vec![pb::SessionStatus::Paused.into()],
        ..pb::SessionFilter::default()
    };
    let request = pb::ListSessionsRequest {
        filter: Some(filter),
        ..pb::ListSessionsRequest::default()
    };
    let listed = client.list_sessions(request).await.unwrap().into_inner();
    let mut listed: Vec<_> = listed.sessions.iter().map(|entry| &entry.id).collect();
    let mut paused = [&child, &parent];
    listed.sort_unstable();
    paused.sort_unstable();
    assert_eq!(listed, paused);
}

/// The last reply of a turn is its answer, with what was cut of it, wherever the journal has it.
#[tokio::test(start_paused = true)]
async fn a_turn_is_answered_in_every_view() -> Result<(), RpcError> {
    let world = World::new().await;
    let id = session(&world).await;
    for parts in [&["good day"][..], &["good ", "day"]] {
        let mut stream = submit(&world, turn(&world, &id)).await?;
        let mut attempt = world.attempt().await;
        for (tool_turn, part) in (0..).zip(parts) {
            let mut part = reply(tool_turn, part, &[]);
            if tool_turn as usize + 1 < parts.len() {
                part = Reply {
                    finish: wire::FinishReason::Length.into(),
                    ..part
                };
            }
            attempt.reply(part);
        }
        rest(&world, &mut stream).await.expect("an end");
        assert_eq!(world.run(&id).await.answer, "good day");
        compare(&world, &id).await;
    }
    Ok(())
}

/// Its last reply was cut, and more happened before than fits beside it into one read.
#[tokio::test(start_paused = true)]
async fn a_turn_of_many_calls_is_answered_in_every_view() -> Result<(), RpcError> {
    let world = World::new().await;
    let id = session(&world).await;
    let mut stream = submit(&world, turn(&world, &id)).await?;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}"); 12]));
    let results = (0..12).map(|index| attempt.result(0, index, "seen"));
    let results = results.collect();
    let cut = Reply {
        finish: wire::FinishReason::Length.into(),
        ..reply(1, "good ", &[])
    };
    attempt.reply_with(results, cut);
    attempt.reply(reply(2, "day", &[]));
    rest(&world, &mut stream).await.expect("an end");
    assert_eq!(world.run(&id).await.answer, "good day");
    compare(&world, &id).await;
    Ok(())
}
