//! Usage per tool turn, step, run and session.

mod view;

use crate::world::{
    World, chain, complete, explored, kinds, look, model_step, report_reply, with_goal,
};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
pub(crate) use view::UsageView;

fn usage(world: &World) -> UsageView {
    let mut view = UsageView::default();
    world.journal.iter().for_each(|event| view.apply(event));
    view
}

#[test]
fn turns_add_up_to_steps_and_steps_to_the_run() {
    let world = explored();
    let view = usage(&world);
    let run = view.run(1).unwrap();
    assert_eq!(run.total, world.run().spent.usage);
    assert_eq!((run.planning.input_tokens, run.planning_ms), (50, 900));
    let mut sum = run.planning;
    for step in run.steps.values() {
        let mut turns = cairn_engine::message::Usage::default();
        step.turns.iter().for_each(|turn| turns.add(&turn.usage));
        assert_eq!(turns, step.total);
        sum.add(&step.total);
    }
    assert_eq!(sum, run.total);
    assert_eq!(run.tool_turns(), 6);
    let steps: Vec<u32> = run.steps.keys().copied().collect();
    assert_eq!(steps, [1, 3], "a tool step asks no model");
    let turn = &run.steps[&1].turns[4];
    assert_eq!(
        (turn.attempt, turn.tool_turn, turn.duration_ms),
        (1, 4, 700)
    );
    assert_eq!(turn.model, "test-model");
    assert_eq!(turn.usage.cost_nano_usd, 2_500_000);
}

#[test]
fn planning_that_failed_is_charged_to_the_run() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    let failure = Failure::new(FailureKind::PlanParse, "BadJson", "no JSON");
    world.planned(Err(failure));
    let view = usage(&world);
    let run = view.run(1).unwrap();
    assert_eq!((run.planning.input_tokens, run.planning_ms), (50, 900));
    assert_eq!(run.total, run.planning);
    assert_eq!(run.total, world.run().spent.usage);
}

/// Its planning was charged with its plan.
#[test]
fn a_run_whose_step_fails_is_charged_nothing_more() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world.planned(Ok(chain(vec![model_step("one")])));
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    let last = world.journal.last().map(|event| &event.kind);
    let Some(EventKind::RunFailed(event::RunFailed {
        usage: charged,
        duration_ms,
        ..
    })) = last
    else {
        panic!("{last:?}");
    };
    assert_eq!((*charged, *duration_ms), (None, 0));
    assert_eq!(usage(&world).total().input_tokens, 50);
}

#[test]
fn runs_add_up_to_the_session() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[complete("done")]);
    world.start(chain(vec![model_step("two")]));
    world.reply(1, "hm", &[]);
    let view = usage(&world);
    assert_eq!(
        view.runs().map(|(number, _)| number).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(view.total().model_calls, 2);
    assert_eq!(view.total().input_tokens, 200);
    assert_eq!(view.run(3), None);
}

#[test]
fn of_a_reply_that_comes_with_a_failure_only_the_usage_counts() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    let mut input = report_reply(world.attempt(1), (0, 0), "hm", &[look()]);
    let Input::Report { failure, .. } = &mut input else {
        panic!("a report");
    };
    *failure = Some(Failure::new(FailureKind::Llm, "EmptyReply", "empty"));
    let events = world.decide(input);
    assert_eq!(kinds(&events), ["ReplyReceived", "StepFailed", "RunFailed"]);
    let EventKind::ReplyReceived(reply) = &events[0].kind else {
        panic!("{events:?}");
    };
    assert!(reply.text.is_empty() && reply.calls.is_empty(), "{reply:?}");
    assert_eq!(usage(&world).run(1).unwrap().total.model_calls, 1);
    assert_eq!(world.run().spent.usage.model_calls, 1);
}
