//! A question names its point, its turn and its step, and has a key of its own.

use super::{block, blocked, check, compacting, failure, guard, idle, world};
use crate::turns::submit;
use crate::world::{World, chain, kinds, look, model_step};
use cairn_engine::conversation::Op as Change;
use cairn_engine::event::AttemptRef;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{
    EndStatus, Gate, Mutation, Payload, Point, PresentHooks, Verdict, VerdictKind,
};
use cairn_engine::message::Message;
use cairn_engine::session::RunStatus;

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
