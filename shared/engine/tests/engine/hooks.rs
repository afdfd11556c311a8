//! Hooks are asked at the points of runs, turns, requests and plans. Those of calls are in `calls_hooked`.

use crate::play::{Op, People, ops, plan_seeds, play_to_the_end};
use crate::turns::{refusal, said, submit};
use crate::world::{
    World, chain, complete, graph, hooked, kinds, look, model_step, report_reply, send, with_goal,
};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::{
    CancelRun, ChangeContext, Command, CompactContext, ContextOp, LimitOverrides, PauseRun,
    ResumeRun, RevisePlan, SendMessage, Settlement, StartRun,
};
use cairn_engine::conversation::Op as Change;
use cairn_engine::decide::{Agents, Fork, Input, Retry};
use cairn_engine::event::{AttemptRef, Budget, CommandReceived, Event, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{
    Changes, EndStatus, Gate, Mutation, Outcome, Payload, PinnedHook, Point, Points, PresentHook,
    PresentHooks, Verdict, VerdictKind,
};
use cairn_engine::message::Message;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{PerBudget, RunStatus, Session, StepStatus};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const HOOK: RunStatus = RunStatus::Waiting(WaitReason::Hook);

fn guard(points: &[Point]) -> PresentHooks {
    let pin = PinnedHook {
        name: "guard".to_owned(),
        digest: "first".to_owned(),
        points: points.iter().copied().collect::<Points>(),
        tools: Vec::new(),
    };
    PresentHooks(vec![PresentHook { pin, agents: None }])
}

/// No run yet.
fn idle(points: &[Point]) -> World {
    let mut world = World::new();
    world.hooks = guard(points);
    world
}

/// A run of one step.
fn world(points: &[Point]) -> World {
    let mut world = idle(points);
    world.start(chain(vec![model_step("a")]));
    world
}

/// The answer of one hook.
fn outcome(verdict: Verdict) -> Outcome {
    let mut outcome = Outcome::new(0);
    outcome.take("guard", verdict, None, 5);
    outcome
}

fn block() -> Verdict {
    Verdict::Block("not today".to_owned())
}

fn person() -> Verdict {
    Verdict::RequireApproval("look at it".to_owned())
}

impl World {
    /// The only question that is asked.
    fn gate(&self) -> Gate {
        let gates = self.session.open_gates();
        let [gate] = gates[..] else {
            panic!("{gates:?}");
        };
        let works: Vec<_> = self.outstanding();
        assert!(works.contains(&Work::AskHooks(gate)), "{works:?}");
        assert!(self.session.is_open(gate));
        gate
    }

    /// What it is about.
    fn payload(&self) -> Payload {
        let questions = self.session.hook_questions(self.gate());
        let [question] = &questions[..] else {
            panic!("{questions:?}");
        };
        question.payload.clone()
    }

    /// Answers the only question, which is asked at this point.
    fn hook(&mut self, point: Point, verdict: Verdict) -> Vec<String> {
        let gate = self.gate();
        assert_eq!(gate.point, point);
        let outcomes = vec![outcome(verdict)];
        let input = hooked(gate, outcomes);
        let events = self.decide(input.clone());
        assert!(self.decide(input).is_empty(), "it was answered");
        check(self);
        kinds(&events)
    }
}

/// The fold of the journal, and a checkpoint, are the same state.
fn check(world: &World) {
    assert_eq!(world.folded(), world.session);
    let bytes = world.session.to_checkpoint().unwrap();
    let restored = Session::from_checkpoint(&bytes);
    assert_eq!(restored.as_ref(), Some(&world.session));
}

fn is_planning(world: &World) -> bool {
    let plan = |work: &Work| matches!(work, Work::Plan { .. });
    world.outstanding().iter().any(plan)
}

/// Why the newest run failed.
fn failure(world: &World) -> (FailureKind, String) {
    let run = world.run();
    assert_eq!(run.status, RunStatus::Failed);
    let failure = run.end.failure.clone().unwrap();
    assert_eq!(failure.reason, "HOOK_BLOCKED");
    (failure.kind, failure.message)
}

fn blocked(point: Point) -> (FailureKind, String) {
    let message = format!("hook 'guard' blocked {}: not today", point.name());
    (FailureKind::HookBlocked, message)
}

#[test]
fn without_a_listener_nothing_is_asked() {
    for hooks in [PresentHooks::default(), guard(&[Point::OnRetry])] {
        let mut world = World::new();
        world.hooks = hooks;
        world.start(chain(vec![model_step("a")]));
        world.reply(1, "", &[look()]);
        world.result(1, 0, "notes");
        world.complete(1, "done");
        assert_eq!(world.run().status, RunStatus::Completed);
        let asked = kinds(&world.journal);
        assert!(
            !asked.iter().any(|kind| kind.contains("Hooks")),
            "{asked:?}"
        );
        check(&world);
    }
}

/// The point, the turn index and the step index of the only question.
fn indices(world: &World) -> (Point, Option<u32>, Option<u32>) {
    let gate = world.gate();
    let questions = world.session.hook_questions(gate);
    let [question] = &questions[..] else {
        panic!("{questions:?}");
    };
    (gate.point, question.turn_index, question.step_index)
}

/// How the step ended that the only question is about.
fn ended(world: &World) -> EndStatus {
    match world.payload() {
        Payload::StepEnd { status, .. } => status,
        payload => panic!("{payload:?}"),
    }
}

/// One step completes, hooks skip the next one, and the last one fails.
#[test]
fn questions_of_a_run_count_turns_and_steps_from_0() {
    let mut world = idle(&[
        Point::OnRunStart,
        Point::OnPlanProposed,
        Point::OnStepStart,
        Point::OnTurnStart,
        Point::PreRequest,
        Point::OnTurnEnd,
        Point::OnPlanStepComplete,
        Point::OnRunEnd,
    ]);
    let steps = ["a", "b", "c"].map(model_step);
    world.start(chain(steps.into()));
    let mut asked = Vec::new();
    let mut pass = |world: &mut World, times: usize| {
        for _ in 0..times {
            let found = indices(world);
            world.hook(found.0, Verdict::Proceed);
            asked.push(found);
        }
    };
    pass(&mut world, 5);
    world.complete(1, "done");
    pass(&mut world, 1);
    assert_eq!(ended(&world), EndStatus::Completed);
    pass(&mut world, 1);
    world.hook(Point::OnStepStart, Verdict::Skip("by hand".to_owned()));
    assert_eq!(ended(&world), EndStatus::Skipped);
    pass(&mut world, 4);
    world.fail(3, Failure::new(FailureKind::Llm, "Server", "it is down"));
    assert_eq!(ended(&world), EndStatus::Failed);
    pass(&mut world, 2);
    let expected = [
        (Point::OnRunStart, None, None),
        (Point::OnPlanProposed, None, None),
        (Point::OnStepStart, Some(0), Some(0)),
        (Point::OnTurnStart, Some(0), Some(0)),
        (Point::PreRequest, Some(0), Some(0)),
        (Point::OnTurnEnd, Some(0), Some(0)),
        (Point::OnPlanStepComplete, Some(1), Some(0)),
        (Point::OnPlanStepComplete, Some(1), Some(1)),
        (Point::OnStepStart, Some(1), Some(2)),
        (Point::OnTurnStart, Some(1), Some(2)),
        (Point::PreRequest, Some(1), Some(2)),
        (Point::OnPlanStepComplete, Some(1), Some(2)),
        (Point::OnRunEnd, None, None),
    ];
    assert_eq!(asked, expected);
}

/// A turn that fails has no end that hooks are asked about, and is not counted.
#[test]
fn questions_of_a_conversation_count_the_turns_that_completed() {
    let mut world = idle(&[Point::OnTurnStart, Point::OnTurnEnd]);
    for (text, index, completes) in [("one", 0, true), ("two", 1, false), ("three", 1, true)] {
        submit(&mut world, text);
        assert_eq!(indices(&world), (Point::OnTurnStart, Some(index), None));
        let payload = world.payload();
        let Payload::TurnStart {
            message: Some(message),
        } = &payload
        else {
            panic!("{payload:?}");
        };
        assert!(message.text().contains(text), "{message:?}");
        if completes {
            world.hook(Point::OnTurnStart, Verdict::Proceed);
            world.reply(1, "fine", &[]);
            assert_eq!(indices(&world), (Point::OnTurnEnd, Some(index), None));
            world.hook(Point::OnTurnEnd, Verdict::Proceed);
        } else {
            world.hook(Point::OnTurnStart, block());
            assert_eq!(failure(&world), blocked(Point::OnTurnStart));
        }
        assert!(world.session.open_gates().is_empty());
    }
}

/// What the next hook is asked about after others have changed this.
fn changed(world: &World, mutations: &[Mutation; 2]) -> Payload {
    let mut questions = world.session.hook_questions(world.gate());
    let mut question = questions.remove(0);
    for mutation in mutations {
        question.with(mutation);
    }
    question.payload
}

fn both(change: fn(String) -> Mutation) -> [Mutation; 2] {
    ["one", "two"].map(|text| change(text.to_owned()))
}

#[test]
fn each_hook_is_asked_about_what_those_before_it_left() {
    let mut before = world(&[Point::PreToolCall]);
    before.reply(1, "", &[look()]);
    let arguments = |text: String| Mutation::Arguments(format!(r#"{{"path":"{text}"}}"#));
    let Payload::Call(call) = changed(&before, &both(arguments)) else {
        panic!("no call");
    };
    assert_eq!(call.arguments, r#"{"path":"two"}"#);
    assert_eq!(call.asked, Some(look().arguments), "what the model wrote");

    let mut after = world(&[Point::PostToolCall]);
    after.reply(1, "", &[look()]);
    after.result(1, 0, "notes");
    let payload = changed(&after, &both(Mutation::Output));
    assert!(matches!(&payload, Payload::Result { output, .. } if output == "two"));

    let mut replied = world(&[Point::PostRequest]);
    replied.reply(1, "text", &[]);
    let payload = changed(&replied, &both(Mutation::Text));
    assert!(matches!(&payload, Payload::Reply { text, .. } if text == "two"));

    let asking = world(&[Point::PreRequest]);
    let append = |text: String| Mutation::Ops(vec![Change::Append(Message::user(text))]);
    let Payload::Request(request) = changed(&asking, &both(append)) else {
        panic!("no request");
    };
    let new = request.new_messages().map(|entry| entry.message.text());
    let new: Vec<_> = new.collect();
    let [.., one, two] = &new[..] else {
        panic!("{new:?}");
    };
    assert_eq!((one.as_str(), two.as_str()), ("one", "two"));
    assert_eq!(request.messages() as usize, new.len());

    let mut planned = idle(&[Point::OnPlanProposed]);
    planned.start(chain(vec![model_step("a")]));
    let plan = |title: String| Mutation::Plan(chain(vec![model_step(&title)]));
    let Payload::PlanProposed { plan, .. } = changed(&planned, &both(plan)) else {
        panic!("no plan");
    };
    assert_eq!(plan.steps[0].title, "two");

    let payload = changed(&compacting(), &both(Mutation::Prompt));
    assert!(matches!(&payload, Payload::Compaction { prompt, .. } if prompt == "two"));
}

#[test]
fn a_run_does_nothing_before_its_start_is_answered() {
    let mut world = idle(&[Point::OnRunStart]);
    world.command(with_goal("count"));
    assert!(!is_planning(&world));
    let payload = world.payload();
    assert!(matches!(&payload, Payload::RunStart { goal, .. } if goal == "count"));
    let mut blocks = world.clone();
    assert_eq!(
        blocks.hook(Point::OnRunStart, block()),
        ["HooksAnswered", "RunEnding", "RunFailed"]
    );
    assert_eq!(failure(&blocks), blocked(Point::OnRunStart));
    let mut asks = world.clone();
    assert_eq!(
        asks.hook(Point::OnRunStart, person()),
        ["HooksAnswered", "RunWaiting"]
    );
    assert_eq!(asks.run().status, HOOK);
    assert!(asks.outstanding().is_empty());
    let mut denied = asks.clone();
    let reason = String::new();
    denied.answer("hook-1", Settlement::Deny { reason });
    assert_eq!(denied.run().status, RunStatus::Failed);
    asks.answer("hook-1", Settlement::Approve);
    assert!(is_planning(&asks));
    check(&asks);
    assert_eq!(
        world.hook(Point::OnRunStart, Verdict::Proceed),
        ["HooksAnswered"]
    );
    assert!(is_planning(&world));
}

#[test]
fn a_plan_comes_into_force_as_hooks_leave_it() {
    let world = idle(&[Point::OnPlanProposed]);
    let plan = || chain(vec![model_step("a")]);
    let mut given = world.clone();
    given.start(plan());
    let mut planned = world;
    planned.command(with_goal("count"));
    planned.planned(Ok(plan()));
    let used = planned.run().spent.usage;
    assert_eq!(used.input_tokens, 50);
    assert!(!is_planning(&planned));
    for mut world in [given, planned] {
        let Payload::PlanProposed { plan, feedback } = world.payload() else {
            panic!("{:?}", world.gate());
        };
        assert_eq!((plan.steps.len(), feedback.as_str()), (1, ""));
        let mut blocks = world.clone();
        blocks.hook(Point::OnPlanProposed, block());
        assert_eq!(failure(&blocks), blocked(Point::OnPlanProposed));
        let mut asks = world.clone();
        let events = asks.hook(Point::OnPlanProposed, person());
        assert_eq!(events, ["HooksAnswered", "PlanProposed", "RunWaiting"]);
        asks.answer("plan-1.1", Settlement::Approve);
        assert_eq!(asks.running(), [1]);
        let more = chain(vec![model_step("b"), model_step("c")]);
        world.hook(Point::OnPlanProposed, Verdict::Mutate(Mutation::Plan(more)));
        assert_eq!(world.run().plan.as_ref().unwrap().steps.len(), 2);
        assert_eq!(world.running(), [1]);
    }
}

#[test]
fn a_blocked_revision_fails_its_request_only() {
    let mut world = idle(&[Point::OnPlanProposed]);
    world.start(chain(vec![model_step("a")]));
    world.hook(Point::OnPlanProposed, Verdict::Proceed);
    world.command(Command::RevisePlan(RevisePlan {
        feedback: "add a test".to_owned(),
        apply: true,
        ..RevisePlan::default()
    }));
    let events = world.revised(Ok(chain(vec![model_step("b")])));
    assert_eq!(kinds(&events), ["HooksAsked"]);
    assert!(!is_planning(&world), "the planner has answered");
    let mut passes = world.clone();
    passes.hook(Point::OnPlanProposed, Verdict::Proceed);
    assert_eq!(passes.run().revision(), 2);
    let events = world.hook(Point::OnPlanProposed, block());
    assert_eq!(events, ["HooksAnswered", "RevisionFailed"]);
    assert_eq!((world.run().revision(), world.running()), (1, vec![1]));
}

#[test]
fn a_step_starts_once_hooks_let_it() {
    let world = world(&[Point::OnStepStart]);
    assert!(world.running().is_empty());
    let payload = world.payload();
    assert!(matches!(&payload, Payload::StepStart { title, .. } if title == "a"));
    let mut skips = world.clone();
    let events = skips.hook(Point::OnStepStart, Verdict::Skip("done by hand".to_owned()));
    assert_eq!(events, ["HooksAnswered", "StepSkipped", "RunCompleted"]);
    let mut blocks = world.clone();
    blocks.hook(Point::OnStepStart, block());
    assert_eq!(failure(&blocks), blocked(Point::OnStepStart));
    let mut asks = world.clone();
    asks.hook(Point::OnStepStart, person());
    assert_eq!((asks.run().status, asks.running()), (HOOK, vec![]));
    let mut denied = asks.clone();
    let reason = String::new();
    denied.answer("hook-1", Settlement::Deny { reason });
    assert!(matches!(denied.status(1), StepStatus::Failed { .. }));
    asks.answer("hook-1", Settlement::Approve);
    assert_eq!(
        (asks.run().status, asks.running()),
        (RunStatus::Running, vec![1])
    );
    let mut passes = world;
    passes.hook(Point::OnStepStart, Verdict::Proceed);
    assert_eq!(passes.running(), [1]);
    passes.complete(1, "done");
    assert_eq!(passes.run().status, RunStatus::Completed);
}

#[test]
fn an_attempt_is_told_nothing_before_its_turn_starts() {
    let world = world(&[Point::OnTurnStart]);
    let name = world.attempt(1);
    let system = |world: &World| {
        let attempt = world.session.attempt(name).unwrap();
        attempt.waiting_ops.len()
    };
    assert_eq!((world.running(), system(&world)), (vec![1], 0));
    let mut taken_over = world.clone();
    taken_over.decide(Input::TakenOver { holder_dead: true });
    assert_eq!((taken_over.gate(), system(&taken_over)), (world.gate(), 0));
    let mut blocks = world.clone();
    blocks.hook(Point::OnTurnStart, block());
    assert_eq!(failure(&blocks), blocked(Point::OnTurnStart));
    let mut passes = world;
    let events = passes.hook(Point::OnTurnStart, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "ContextChanged"]);
    assert!(system(&passes) > 0);
}

#[test]
fn each_request_is_asked_about_once() {
    let mut world = world(&[Point::PreRequest]);
    let name = world.attempt(1);
    assert_eq!(world.gate(), Gate::of_attempt(Point::PreRequest, name, 0));
    let reply = report_reply(name, (0, 0), "early", &[]);
    assert!(
        world.clone().try_decide(reply).is_err(),
        "no model was asked"
    );
    let events = world.hook(Point::PreRequest, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered"]);
    assert!(world.session.open_gates().is_empty());
    assert!(world.outstanding().contains(&Work::RunStep(name)));
    let events = world.reply(1, "", &[look()]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    let events = world.result(1, 0, "notes");
    assert_eq!(kinds(&events), ["CallFinished", "HooksAsked"]);
    assert_eq!(world.gate(), Gate::of_attempt(Point::PreRequest, name, 1));
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    let new = request.new_messages().map(|entry| entry.message.text());
    assert_eq!(
        new.collect::<Vec<_>>(),
        ["", "notes"],
        "the reply and its result"
    );
    assert_eq!(request.messages(), 3);
    // An owner that takes it over asks the same.
    let mut taken_over = world.clone();
    taken_over.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(taken_over.gate(), world.gate());
    let lost = world.decide(Input::AttemptLost { attempt: name });
    assert_eq!(kinds(&lost), ["AttemptContinued"]);
    world.hook(Point::PreRequest, block());
    assert_eq!(failure(&world), blocked(Point::PreRequest));
}

#[test]
fn what_a_hook_adds_to_a_request_stays_in_the_conversation() {
    let mut world = world(&[Point::PreRequest]);
    let name = world.attempt(1);
    let more = Change::Append(Message::user("be brief"));
    let ops = Verdict::Mutate(Mutation::Ops(vec![more]));
    world.hook(Point::PreRequest, ops);
    let said = |world: &World| -> Vec<String> {
        let said = world.session.said(name);
        said.iter().map(|message| message.text()).collect()
    };
    assert!(said(&world).contains(&"be brief".to_owned()));
    world.reply(1, "well", &[look()]);
    assert!(said(&world).contains(&"be brief".to_owned()));
    check(&world);
}

/// The context has them when the turn is over, as the next turn does.
#[test]
fn what_a_hook_changes_in_a_turn_stays_in_its_context() {
    let mut world = idle(&[Point::PreRequest]);
    submit(&mut world, "hello");
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    let number = request.new_messages().next().unwrap().number;
    let ops = vec![
        Change::Append(Message::user("be brief")),
        Change::Append(Message::user("and loud")),
        Change::Update {
            number,
            message: Message::user("good day"),
        },
        Change::Remove { number: number + 2 },
    ];
    world.hook(Point::PreRequest, Verdict::Mutate(Mutation::Ops(ops)));
    world.reply(1, "hi", &[]);
    let expected = ["user: good day", "user: be brief", "assistant: hi"];
    assert_eq!(said(&world), expected);
    submit(&mut world, "once more");
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    assert_eq!(request.messages(), 4);
    let new = request.new_messages().map(|entry| entry.message.text());
    assert_eq!(new.collect::<Vec<_>>(), ["once more"]);
    check(&world);
}

#[test]
fn changes_that_do_not_fit_any_more_block() {
    let mut world = world(&[Point::PreRequest]);
    let gone = Change::Remove { number: 99 };
    let ops = Verdict::Mutate(Mutation::Ops(vec![gone]));
    world.hook(Point::PreRequest, ops);
    assert_eq!(world.run().status, RunStatus::Failed);
}

#[test]
fn a_hook_replies_in_place_of_a_model() {
    let mut world = idle(&[Point::PreRequest, Point::PostRequest]);
    submit(&mut world, "hello");
    let events = world.hook(Point::PreRequest, Verdict::Skip("no need".to_owned()));
    assert_eq!(
        events,
        [
            "HooksAnswered",
            "ReplyReceived",
            "StepCompleted",
            "RunCompleted"
        ]
    );
    assert_eq!(said(&world), ["user: hello", "assistant: no need"]);
    assert_eq!(world.session.usage.model_calls, 0);
}

/// A reply without calls ends no step, so the model would have to be asked.
#[test]
fn a_step_whose_requests_are_all_skipped_fails_and_names_the_hook() {
    let mut world = world(&[Point::PreRequest]);
    for _ in 0..=world.limits.max_tool_turns {
        world.hook(Point::PreRequest, Verdict::Skip("no need".to_owned()));
    }
    let words = "the step used all of its 10 tool turns without completing; \
                 hook 'guard' skipped the last request";
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(failure.message, words);
}

#[test]
fn a_retry_waits_for_hooks() {
    let mut world = world(&[Point::OnRetry]);
    let attempt = world.attempt(1);
    let retry = |tool_turn| Input::Report {
        attempt,
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full: None,
        summary: None,
        retry: Some(Box::new(Retry {
            tool_turn,
            attempt: 2,
            failure: Failure::new(FailureKind::Llm, "Server", "it is down"),
        })),
    };
    assert!(world.decide(retry(7)).is_empty(), "of another request");
    assert_eq!(kinds(&world.decide(retry(0))), ["HooksAsked"]);
    let Payload::Retry {
        attempt: 2,
        failure,
        ..
    } = world.payload()
    else {
        panic!("{:?}", world.gate());
    };
    assert_eq!(failure.reason, "Server");
    let mut blocks = world.clone();
    blocks.hook(Point::OnRetry, block());
    assert_eq!(crate::hooks::failure(&blocks), blocked(Point::OnRetry));
    assert_eq!(
        world.hook(Point::OnRetry, Verdict::Proceed),
        ["HooksAnswered"]
    );
    world.complete(1, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// Each executor counts its tries from 1.
#[test]
fn a_retry_by_another_executor_is_another_question() {
    let mut world = world(&[Point::OnRetry]);
    let attempt = world.attempt(1);
    let mut asked_with = |tool_turn, tries| {
        world.decide(Input::Report {
            attempt,
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: Some(Box::new(Retry {
                tool_turn,
                attempt: tries,
                failure: Failure::new(FailureKind::Llm, "Server", "it is down"),
            })),
        });
        let gate = world.gate();
        assert_eq!(gate.turn, tool_turn);
        world.hook(Point::OnRetry, Verdict::Proceed);
        if tries == 3 {
            world.decide(Input::AttemptLost { attempt });
            world.decide(Input::TakenOver { holder_dead: true });
        }
        if tries == 7 {
            world.reply(1, "hm", &[]);
        }
        gate.index
    };
    let tries = [1, 3, 1, 2, 7].map(|tries| asked_with(0, tries));
    assert_eq!(tries, [1, 3, 4, 5, 7]);
    assert_eq!(asked_with(1, 1), 1, "another request");
}

/// Two models may not be asked where one may, also if hooks let both.
#[test]
fn requests_that_wait_for_hooks_keep_to_the_budgets() {
    let plan = || graph(vec![model_step("a"), model_step("b")]);
    let limits = |limits| {
        let mut world = idle(&[Point::PreRequest]);
        world.start_with(plan(), limits);
        world
    };
    let runs = |world: &World, has_begun: u32| -> Vec<u32> {
        let begun = world.attempt(has_begun);
        let work = world.session.outstanding_beside(|name| name == begun);
        let run = |step: &u32| work.contains(&Work::RunStep(world.attempt(*step)));
        [1, 2].into_iter().filter(run).collect()
    };
    let turns = |most| {
        limits(LimitOverrides {
            budgets: PerBudget::from([(Budget::Turns, most)]),
            ..LimitOverrides::default()
        })
    };
    let world = turns(2);
    assert_eq!(world.session.open_gates().len(), 2);
    assert_eq!(runs(&world, 1), [1, 2]);
    let mut world = turns(1);
    assert_eq!(runs(&world, 1), [1]);
    assert_eq!(runs(&world, 2), [2], "the other one is being asked");
    // An answer that is decided changes nothing of that.
    let gate = Gate::of_attempt(Point::PreRequest, world.attempt(2), 0);
    let outcomes = vec![outcome(Verdict::Proceed)];
    world.decide(hooked(gate, outcomes));
    assert_eq!(runs(&world, 1), [1]);
    assert_eq!(runs(&world, 2), [2]);
    check(&world);
}

#[test]
fn a_reply_counts_as_hooks_leave_it() {
    let mut world = idle(&[Point::PostRequest]);
    submit(&mut world, "hello");
    let events = world.reply(1, "a secret", &[]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    let payload = world.payload();
    let Payload::Reply { text, usage, .. } = &payload else {
        panic!("{payload:?}");
    };
    assert_eq!((text.as_str(), usage.model_calls), ("a secret", 1));
    let mut blocks = world.clone();
    blocks.hook(Point::PostRequest, block());
    assert_eq!(failure(&blocks), blocked(Point::PostRequest));
    let text = Mutation::Text("[removed]".to_owned());
    let events = world.hook(Point::PostRequest, Verdict::Mutate(text));
    assert_eq!(events, ["HooksAnswered", "StepCompleted", "RunCompleted"]);
    assert_eq!(said(&world), ["user: hello", "assistant: [removed]"]);
}

/// The message came after the reply, and before the answer of the hooks was decided.
#[test]
fn a_turn_does_not_end_with_a_message_that_its_model_has_not_read() {
    let mut world = idle(&[Point::PostRequest]);
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    let message = SendMessage {
        step: None,
        message: Message::user("and more"),
    };
    world.foreign(EventKind::CommandReceived(CommandReceived {
        request_id: "steering".to_owned(),
        command: message.into(),
    }));
    let events = world.hook(Point::PostRequest, Verdict::Proceed);
    assert_eq!(events, ["ContextChanged", "HooksAnswered"]);
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn no_call_is_made_before_hooks_have_seen_the_reply() {
    let mut world = world(&[Point::PostRequest]);
    let events = world.reply(1, "", &[send(), complete("done")]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    world.decide(Input::TakenOver { holder_dead: true });
    let events = world.hook(Point::PostRequest, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "CallIntended"]);
    world.result(1, 0, "sent");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn hooks_hear_of_the_turn_before_the_step() {
    let mut world = world(&[Point::OnTurnEnd, Point::OnPlanStepComplete]);
    let events = world.complete(1, "done");
    assert_eq!(
        kinds(&events),
        ["ReplyReceived", "CallFinished", "StepCompleted"]
    );
    let payload = world.payload();
    assert!(matches!(&payload, Payload::TurnEnd { summary, .. } if summary == "done"));
    let mut blocks = world.clone();
    let events = blocks.hook(Point::OnTurnEnd, block());
    assert_eq!(events, ["HooksAnswered", "RunEnding"]);
    let events = blocks.hook(Point::OnPlanStepComplete, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "RunFailed"]);
    assert_eq!(failure(&blocks), blocked(Point::OnTurnEnd));
    assert!(
        matches!(blocks.status(1), StepStatus::Completed { .. }),
        "it stands"
    );
    world.hook(Point::OnTurnEnd, Verdict::Proceed);
    let payload = world.payload();
    let Payload::StepEnd { status, .. } = payload else {
        panic!("{payload:?}");
    };
    assert_eq!(status, EndStatus::Completed);
    let events = world.hook(Point::OnPlanStepComplete, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "RunCompleted"]);
}

#[test]
fn an_error_is_told_before_the_run_ends() {
    let wrong = || Failure::new(FailureKind::Llm, "Server", "it is down");
    let mut step = world(&[Point::OnError]);
    assert_eq!(kinds(&step.fail(1, wrong())), ["StepFailed"]);
    let mut plan = idle(&[Point::OnError]);
    plan.command(with_goal("count"));
    plan.planned(Err(wrong()));
    assert_eq!(plan.run().spent.usage.input_tokens, 50);
    for mut world in [step, plan] {
        assert_eq!(world.payload(), Payload::Error(wrong()));
        assert!(!is_planning(&world));
        let events = world.hook(Point::OnError, Verdict::Proceed);
        assert_eq!(events, ["HooksAnswered", "RunFailed"]);
        assert_eq!(world.run().end.failure, Some(wrong()));
    }
}

#[test]
fn the_end_of_a_run_holds_nothing_up() {
    let mut world = idle(&[Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    let payload = world.payload();
    let Payload::RunEnd { status, usage, .. } = payload else {
        panic!("{payload:?}");
    };
    assert_eq!((status, usage.model_calls), (EndStatus::Completed, 1));
    submit(&mut world, "once more");
    assert_eq!(world.running(), [1]);
    assert_eq!(world.gate(), Gate::of_run(Point::OnRunEnd, 1));
    assert_eq!(
        world.hook(Point::OnRunEnd, Verdict::Proceed),
        ["HooksAnswered"]
    );
    let run = world.run().number;
    let reason = String::new();
    world.command(Command::CancelRun(CancelRun { run, reason }));
    let payload = world.payload();
    assert!(matches!(
        payload,
        Payload::RunEnd {
            status: EndStatus::Skipped,
            ..
        }
    ));
}

/// A context with three messages, of which one is to stay.
fn compacting() -> World {
    let mut world = idle(&[Point::OnCompaction, Point::OnTurnStart, Point::PreRequest]);
    let ops = ["one", "two", "three"].map(|text| ContextOp::Append(Message::user(text)));
    world.command(Command::ChangeContext(ChangeContext {
        ops: ops.into(),
        ..ChangeContext::default()
    }));
    world.command(Command::CompactContext(CompactContext {
        keep: 1,
        ..CompactContext::default()
    }));
    world
}

#[test]
fn messages_give_way_once_hooks_let_them() {
    let world = compacting();
    let payload = world.payload();
    let is_requested = true;
    let prompt = String::new();
    assert_eq!(
        payload,
        Payload::Compaction {
            is_requested,
            prompt
        }
    );
    let mut blocks = world.clone();
    blocks.hook(Point::OnCompaction, block());
    assert_eq!(failure(&blocks), blocked(Point::OnCompaction));
    let mut passes = world;
    let prompt = Mutation::Prompt("only names".to_owned());
    let events = passes.hook(Point::OnCompaction, Verdict::Mutate(prompt));
    assert_eq!(events, ["HooksAnswered", "SummaryAsked"]);
    let attempt = passes.session.attempt(passes.attempt(1)).unwrap();
    let task = attempt.summary.as_ref().unwrap();
    assert!(task.prompt.contains("only names"), "{}", task.prompt);
}

#[test]
fn a_run_waits_for_hooks_that_are_missing() {
    let mut world = world(&[Point::PreRequest]);
    let missing = Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    };
    let events = world.decide(missing.clone());
    assert_eq!(kinds(&events), ["HooksChanged", "RunWaiting"]);
    assert_eq!(world.run().status, HOOK);
    assert!(world.outstanding().is_empty() && !world.session.needs_owner());
    assert!(world.decide(missing).is_empty());
    check(&world);
    let mut again = world.clone();
    again.answer("hook-1", Settlement::Retry);
    assert_eq!(again.gate().point, Point::PreRequest);
    let mut fails = world.clone();
    let reason = "no".to_owned();
    fails.answer("hook-1", Settlement::Fail { reason });
    assert_eq!(fails.run().status, RunStatus::Failed);
    world.hooks = PresentHooks::default();
    world.answer("hook-1", Settlement::Approve);
    assert!(world.run().hooks.pinned.is_empty());
    assert_eq!(world.gate().point, Point::PreRequest, "it stays open");
}

#[test]
fn what_is_gone_takes_no_answer() {
    let mut world = world(&[Point::PreRequest]);
    let gate = world.gate();
    let reason = String::new();
    world.command(Command::CancelRun(CancelRun { run: 1, reason }));
    assert!(!world.session.is_open(gate) && world.session.open_gates().is_empty());
    let outcomes = vec![outcome(block())];
    assert!(world.decide(hooked(gate, outcomes)).is_empty());
}

#[test]
fn a_pause_asks_nothing() {
    for point in [Point::PreRequest, Point::OnStepStart, Point::OnTurnStart] {
        let mut world = world(&[point]);
        let gate = world.gate();
        world.command(Command::PauseRun(PauseRun::default()));
        assert!(world.session.open_gates().is_empty());
        assert!(world.session.is_open(gate));
        world.command(Command::ResumeRun(ResumeRun::default()));
        assert_eq!(world.gate(), gate);
        check(&world);
    }
}

#[test]
fn an_imported_run_asks_the_hooks_of_its_new_place() {
    let mut world = idle(&[Point::PreRequest, Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.hook(Point::PreRequest, Verdict::Skip("hi".to_owned()));
    submit(&mut world, "once more");
    assert_eq!(world.session.open_gates().len(), 2);
    assert_eq!(kinds(&world.decide(Input::Imported)), ["HooksDropped"]);
    assert!(world.session.open_gates().is_empty());
    assert!(world.run().hooks.pinned.is_empty());
    assert!(world.decide(Input::Imported).is_empty());
    world.hooks.0[0].pin.digest = "other".to_owned();
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(kinds(&events)[0], "HooksPinned");
    assert_eq!(world.run().hooks.pinned[0].digest, "other");
    assert_eq!(world.gate().point, Point::PreRequest);
    check(&world);
}

/// The hooks of another place count only if those of this place are the same, or if a person says so.
#[test]
fn an_imported_run_that_opens_again_keeps_its_hooks_or_asks_a_person() {
    let mut world = world(&[Point::PreRequest, Point::OnRunEnd]);
    world.hook(Point::PreRequest, Verdict::Proceed);
    world.complete(1, "done");
    let pinned = world.run().hooks.pinned.clone();
    assert_eq!(kinds(&world.decide(Input::Imported)), ["HooksDropped"]);
    assert!(world.outstanding().is_empty() && !world.session.needs_owner());
    world.decide(Input::TakenOver { holder_dead: true });
    let plan = chain(vec![model_step("a"), model_step("b")]);
    world.command(Command::RevisePlan(RevisePlan {
        plan: Some(plan),
        apply: true,
        ..RevisePlan::default()
    }));
    assert_eq!(world.run().hooks.pinned, pinned);
    let gate = Gate::of_attempt(Point::PreRequest, world.attempt(2), 0);
    assert_eq!(world.gate(), gate);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: Vec::new(),
        changed: vec!["guard".to_owned()],
    });
    assert_eq!(world.run().status, HOOK);
    assert!(world.outstanding().is_empty());
    world.hooks.0[0].pin.digest = "other".to_owned();
    world.answer("hook-1", Settlement::Approve);
    assert_eq!(world.run().hooks.pinned[0].digest, "other");
    assert_eq!(world.gate(), gate);
    check(&world);
}

#[test]
fn an_imported_run_whose_hooks_were_missing_gets_an_owner() {
    let mut world = idle(&[Point::OnRunStart]);
    world.command(with_goal("count"));
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    assert_eq!(world.run().status, HOOK);
    assert!(!world.session.needs_owner());
    world.decide(Input::Imported);
    assert!(world.session.needs_owner());
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(world.run().status, RunStatus::Planning);
    assert_eq!(world.gate().point, Point::OnRunStart);
    check(&world);
}

#[test]
fn a_copy_has_its_own_questions() {
    let mut world = idle(&[Point::PreRequest, Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.hook(Point::PreRequest, Verdict::Skip("hi".to_owned()));
    submit(&mut world, "once more");
    world.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues: true,
    }));
    assert_eq!(world.gate().point, Point::PreRequest);
    check(&world);
}

#[test]
fn hooks_are_pinned_by_the_agent() {
    let mut world = idle(&[Point::PreRequest]);
    world.hooks.0[0].agents = Some(vec!["review*".to_owned()]);
    let naming = |hook: &str| AgentDefinition {
        hooks: vec![hook.to_owned()],
        ..AgentDefinition::named("writer")
    };
    let agents = [
        ("", Ok(None)),
        (
            "reviewer",
            Ok(Some(Arc::new(AgentDefinition::named("reviewer")))),
        ),
        ("writer", Ok(Some(Arc::new(naming("guard"))))),
        ("lost", Ok(Some(Arc::new(naming("gone"))))),
    ];
    let agents = agents.map(|(name, agent)| (name.to_owned(), agent));
    world.agents = Agents(BTreeMap::from(agents));
    let start = |agent: &str| {
        Command::StartRun(StartRun {
            plan: Some(chain(vec![model_step("a")])),
            agent: agent.to_owned(),
            ..StartRun::default()
        })
    };
    for (agent, pinned) in [("", 0), ("reviewer", 1), ("writer", 1)] {
        let mut world = world.clone();
        world.command(start(agent));
        assert_eq!(world.run().hooks.pinned.len(), pinned, "{agent}");
    }
    assert_eq!(refusal(&world.command(start("lost"))), "HOOK_NOT_FOUND");
    world.hooks.0.extend(vec![world.hooks.0[0].clone(); 32]);
    assert_eq!(refusal(&world.command(start("reviewer"))), "LIMIT");
}

#[test]
fn a_limit_ends_a_run_that_waits_for_hooks() {
    let mut world = world(&[Point::PreRequest, Point::OnError, Point::OnRunEnd]);
    let failure = Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full");
    world.decide(Input::LimitReached { failure });
    assert_eq!(world.run().status, RunStatus::Failed);
    let events = {
        let gate = world.gate();
        let outcomes = vec![outcome(Verdict::Proceed)];
        world.decide(hooked(gate, outcomes))
    };
    let [Event { kind, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(matches!(kind, EventKind::HooksAnswered(_)) && kind.ends_only());
}

/// An answer that a point takes.
fn some_verdict(point: Point, seed: u8) -> Verdict {
    let mutation = match point.changes() {
        Changes::None => None,
        Changes::Arguments => Some(Mutation::Arguments(r#"{"path":"other.md"}"#.to_owned())),
        Changes::Output => Some(Mutation::Output("changed".to_owned())),
        Changes::Text => Some(Mutation::Text("changed".to_owned())),
        Changes::Ops => {
            let more = Change::Append(Message::user("more"));
            Some(Mutation::Ops(vec![more]))
        }
        Changes::Plan => Some(Mutation::Plan(chain(vec![model_step("another")]))),
        Changes::Prompt => Some(Mutation::Prompt("sum up".to_owned())),
    };
    let verdict = match seed % 16 {
        0 => block(),
        1 => Verdict::Skip("skipped".to_owned()),
        2 => person(),
        3..6 => mutation.map_or(Verdict::Proceed, Verdict::Mutate),
        _ => Verdict::Proceed,
    };
    match point.takes(verdict.kind()) {
        true => verdict,
        false => Verdict::Proceed,
    }
}

/// Answers one of the open questions.
fn answer_one(world: &mut World, seed: u8) {
    let gates = world.session.open_gates();
    let Some(&gate) = gates.get(usize::from(seed) % gates.len().max(1)) else {
        return;
    };
    let questions = world.session.hook_questions(gate);
    assert!(!questions.is_empty(), "{gate:?}");
    let outcomes = questions.iter().map(|question| {
        let mut outcome = Outcome::new(question.index);
        outcome.take("guard", some_verdict(gate.point, seed / 4), None, 5);
        outcome
    });
    let outcomes = outcomes.collect();
    let events = world.decide(hooked(gate, outcomes));
    assert_eq!(kinds(&events)[0], "HooksAnswered", "{gate:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_with_hooks_folds_to_the_decided_state(
        ops in ops(),
        seeds in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut world = idle(Point::ALL);
        let mut seeds = seeds.iter().copied().cycle();
        for (op, count) in ops.iter().zip(1..) {
            world.play(op);
            for _ in 0..seeds.next().unwrap_or_default() % 4 {
                answer_one(&mut world, seeds.next().unwrap_or_default());
            }
            if count % 8 == 0 {
                check(&world);
            }
        }
        check(&world);
    }

    #[test]
    fn hooks_that_let_all_pass_change_no_end(
        seed in plan_seeds(),
        seeds in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut seed = seed;
        // A tool that is not in the catalogue would fail its step.
        seed.steps.iter_mut().filter(|(kind, _)| kind % 32 == 12).for_each(|(kind, _)| *kind = 0);
        let mut world = idle(Point::ALL);
        world.play(&Op::Start(seed.clone()));
        play_to_the_end(&mut world, &seed, &seeds, People::Agree);
        prop_assert_eq!(world.run().status, RunStatus::Completed);
        check(&world);
    }
}

#[test]
fn a_question_has_a_key_of_its_own() {
    let attempt = AttemptRef {
        run: 1,
        step: 2.into(),
        attempt: 3,
    };
    let gate = Gate::of_attempt(Point::PreRequest, attempt, 4);
    let key = |gate: Gate| gate.key("default", "session", "guard");
    assert_eq!(key(gate), key(gate));
    let others = [
        Gate { turn: 5, ..gate },
        Gate { index: 1, ..gate },
        Gate {
            point: Point::PostRequest,
            ..gate
        },
    ];
    assert!(others.iter().all(|other| key(*other) != key(gate)));
    assert_ne!(gate.key("default", "session", "other"), key(gate));
    assert_eq!(key(gate).len(), 64);
    assert_eq!(VerdictKind::ALL.len(), 5);
}
