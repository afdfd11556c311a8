//! Calls whose outcome nobody knows, and what a person may say of them.

use crate::world::{
    LEASE, TIME_LIMIT, World, chain, complete, graph, kinds, look, model_step, send, tool_call,
    tool_step,
};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::{self, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, Pending, pending};
use cairn_engine::refusal::Refusal;
use cairn_engine::session::{CallStatus, RunStatus, StepStatus};
use serde_json::json;

const WAITING: RunStatus = RunStatus::Waiting(WaitReason::InDoubt);
const TOOL_STEP: &str = "call-1.1.1.0.0";

fn done() -> Settlement {
    Settlement::Done {
        output: "it was sent".to_owned(),
    }
}

fn skip() -> Settlement {
    Settlement::Skip {
        reason: "not needed".to_owned(),
    }
}

fn fail() -> Settlement {
    Settlement::Fail {
        reason: "no use".to_owned(),
    }
}

/// A tool step whose effectful call is in doubt, and after which an answer counts at once.
fn doubtful_tool_step() -> World {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send"), model_step("two")]));
    lose(&mut world, 1);
    world.now += LEASE + TIME_LIMIT;
    world
}

/// A model step whose reply asked to look and to send; to send is in doubt.
fn doubtful_model_step() -> World {
    let mut world = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[look(), send()]);
    world.result(1, 0, "text");
    lose(&mut world, 1);
    world.now += LEASE + TIME_LIMIT;
    world
}

fn lose(world: &mut World, step: u32) {
    let attempt = world.attempt(step);
    world.decide(Input::AttemptLost { attempt });
}

#[test]
fn only_effectful_calls_come_into_doubt() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let put = tool_call("put", &json!({}));
    world.reply(1, "", &[look(), put, send()]);
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(
        kinds(&events),
        ["AttemptContinued", "CallInDoubt", "RunWaiting"]
    );
    let open = pending(&world.session);
    assert_eq!(open.len(), 1);
    let Asked::Doubt { call, .. } = &open[0].asked else {
        panic!("{open:?}");
    };
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("send", r#"{"to":"somebody"}"#)
    );
    assert!(!open[0].is_answered);
    assert_eq!(world.in_doubt(), 1);
    assert!(
        world.outstanding().is_empty(),
        "somebody has to say something"
    );
}

#[test]
fn a_call_that_was_not_intended_is_just_made() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look()]);
    let events = world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(kinds(&events), ["AttemptContinued"]);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn a_late_result_of_a_call_in_doubt_counts_for_nothing() {
    let mut world = doubtful_model_step();
    assert!(world.result(1, 1, "sent after all").is_empty());
    assert_eq!(world.run().status, WAITING);
}

#[test]
fn done_gives_a_model_step_the_output() {
    let mut world = doubtful_model_step();
    let events = world.answer("call-1.1.1.0.1", done());
    assert_eq!(kinds(&events), ["Decided", "CallSettled", "RunResumed"]);
    let call = world.session.call(world.call(1, 1)).unwrap();
    let CallStatus::Finished {
        output, is_error, ..
    } = &call.status
    else {
        panic!("{call:?}");
    };
    assert_eq!((output.as_str(), *is_error), ("it was sent", false));
    assert_eq!(world.in_doubt(), 0);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn done_ends_a_model_step_that_waited_to_complete() {
    let mut world = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[send(), complete("sent")]);
    lose(&mut world, 1);
    world.now += LEASE + TIME_LIMIT;
    world.answer("call-1.1.1.0.0", done());
    assert!(matches!(world.status(1), StepStatus::Completed { .. }));
    assert_eq!(world.running(), [2]);
}

#[test]
fn done_ends_a_tool_step() {
    let mut world = doubtful_tool_step();
    world.answer(TOOL_STEP, done());
    let StepStatus::Completed { summary, .. } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(summary, "it was sent");
    assert_eq!(world.running(), [2]);
}

#[test]
fn retry_intends_the_call_again() {
    for mut world in [doubtful_tool_step(), doubtful_model_step()] {
        let open = pending(&world.session)[0].id().to_string();
        let events = world.answer(&open, Settlement::Retry);
        let expected = ["Decided", "CallSettled", "CallIntended", "RunResumed"];
        assert_eq!(kinds(&events), expected);
        let EventKind::CallIntended(event::CallIntended { not_after, .. }) = events[2].kind else {
            panic!("{events:?}");
        };
        assert_eq!(not_after, world.now + LEASE);
        assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
        lose(&mut world, 1);
        assert_eq!(world.run().status, WAITING, "it may come into doubt again");
        assert_eq!(world.in_doubt(), 1);
    }
}

#[test]
fn skip_skips_a_tool_step_and_continues() {
    let mut world = doubtful_tool_step();
    world.answer(TOOL_STEP, skip());
    let StepStatus::Skipped { reason, .. } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(reason, "not needed");
    assert_eq!(world.running(), [2], "a skipped step holds nothing up");
}

#[test]
fn skip_tells_a_model_to_go_on_without_the_call() {
    let mut world = doubtful_model_step();
    world.answer("call-1.1.1.0.1", skip());
    let call = world.session.call(world.call(1, 1)).unwrap();
    let CallStatus::Finished {
        output, is_error, ..
    } = &call.status
    else {
        panic!("{call:?}");
    };
    let expected = "a person decided to go on without this call; do not repeat it: not needed";
    assert_eq!((output.as_str(), *is_error), (expected, true));
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn fail_fails_the_step() {
    let cases = [
        (doubtful_tool_step(), TOOL_STEP),
        (doubtful_model_step(), "call-1.1.1.0.1"),
    ];
    for (mut world, id) in cases {
        world.answer(id, fail());
        let StepStatus::Failed { failure } = world.status(1) else {
            panic!("{:?}", world.status(1));
        };
        assert!(failure.message.contains("no use"), "{}", failure.message);
        assert_eq!(world.run().status, RunStatus::Failed);
        assert_eq!(world.in_doubt(), 0);
    }
}

#[test]
fn an_early_answer_takes_effect_only_when_the_call_can_no_longer_be_running() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send")]));
    lose(&mut world, 1);
    let settle_after = world.now + LEASE + TIME_LIMIT;
    world.now += 1_000;
    let events = world.answer(TOOL_STEP, done());
    assert_eq!(kinds(&events), ["Decided"]);
    assert!(pending(&world.session)[0].is_answered);
    assert_eq!(world.outstanding(), [Work::Wake { at: settle_after }]);
    world.now = settle_after - 1;
    assert!(world.decide(Input::Tick).is_empty());
    let again = world.answer(TOOL_STEP, skip());
    let EventKind::CommandRefused(event::CommandRefused { reason, .. }) = &again[0].kind else {
        panic!("{again:?}");
    };
    assert_eq!(*reason, Refusal::AlreadyDecided);
    world.now = settle_after;
    let events = world.decide(Input::Tick);
    assert_eq!(
        kinds(&events),
        ["CallSettled", "StepCompleted", "RunResumed", "RunCompleted"]
    );
}

#[test]
fn an_answer_counts_at_once_for_a_call_that_died_with_its_process() {
    for (tool, holder_dead, is_settled) in [
        ("exec", true, true),
        ("exec", false, false),
        ("send", true, false),
    ] {
        let mut world = World::with_plan(chain(vec![tool_step("one", tool)]));
        world.decide(Input::TakenOver { holder_dead });
        world.answer(TOOL_STEP, done());
        let is_done = matches!(world.status(1), StepStatus::Completed { .. });
        assert_eq!(is_done, is_settled, "{tool} {holder_dead}");
    }
}

#[test]
fn a_new_owner_lets_an_answer_take_effect() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send")]));
    lose(&mut world, 1);
    world.answer(TOOL_STEP, done());
    world.session = world.folded();
    world.now += LEASE + TIME_LIMIT;
    world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn each_doubt_of_a_reply_is_a_question_of_its_own() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send(), send()]);
    lose(&mut world, 1);
    assert_eq!(world.in_doubt(), 2);
    let ids: Vec<_> = pending(&world.session)
        .iter()
        .map(|open| open.id().to_string())
        .collect();
    assert_eq!(ids, ["call-1.1.1.0.0", "call-1.1.1.0.1"]);
    world.now += LEASE + TIME_LIMIT;
    world.answer(&ids[0], done());
    assert_eq!(world.run().status, WAITING);
    world.answer(&ids[1], skip());
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn an_answer_that_fails_the_step_settles_its_other_doubts_too() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send(), send()]);
    lose(&mut world, 1);
    world.answer("call-1.1.1.0.0", fail());
    world.answer("call-1.1.1.0.1", done());
    world.now += LEASE + TIME_LIMIT;
    let events = world.decide(Input::Tick);
    assert_eq!(
        kinds(&events),
        ["CallSettled", "StepFailed", "RunResumed", "RunFailed"]
    );
    assert_eq!(world.in_doubt(), 0);
    assert!(pending(&world.session).is_empty());
}

#[test]
fn other_steps_go_on_while_one_is_in_doubt() {
    let mut world = World::with_plan(graph(vec![tool_step("a", "send"), model_step("b")]));
    lose(&mut world, 1);
    assert_eq!(world.run().status, WAITING);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
    world.complete(2, "b is done");
    assert_eq!(world.run().status, WAITING);
    assert!(world.outstanding().is_empty());
}

#[test]
fn a_question_that_is_not_open_cannot_be_answered() {
    let mut world = doubtful_tool_step();
    for id in [
        "",
        "call-1",
        "call-1.1.1.0.1",
        "call-1.1.2.0.0",
        "call-x.1.1.0.0",
        "budget-1",
        "budget-",
    ] {
        let events = world.answer(id, done());
        let EventKind::CommandRefused(event::CommandRefused { reason, .. }) = &events[0].kind
        else {
            panic!("{events:?}");
        };
        assert_eq!(*reason, Refusal::NotPending, "{id}");
    }
    world.answer(TOOL_STEP, done());
    let events = world.answer(TOOL_STEP, done());
    assert_eq!(kinds(&events), ["CommandRefused"]);
}

/// Nobody is asked any more, but it may have been sent.
#[test]
fn a_call_of_a_step_that_fails_is_in_doubt_first() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look(), send()]);
    let lost = Failure::new(FailureKind::Other, "ExecutorLost", "it was lost");
    let events = world.fail(1, lost);
    assert_eq!(kinds(&events), ["CallInDoubt", "StepFailed", "RunFailed"]);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_call_that_is_sent_again_is_in_doubt_when_another_fails_its_step() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send(), send()]);
    lose(&mut world, 1);
    world.now += LEASE + TIME_LIMIT;
    world.answer("call-1.1.1.0.0", Settlement::Retry);
    let events = world.answer("call-1.1.1.0.1", fail());
    let expected = ["Decided", "CallSettled", "CallInDoubt", "StepFailed"];
    assert_eq!(kinds(&events)[..4], expected);
}

/// A client that did not hear that its answer was taken sends it again: it must not answer what is
/// asked about the next try.
#[test]
fn a_call_that_is_in_doubt_again_is_another_question() {
    let mut world = doubtful_tool_step();
    world.answer(TOOL_STEP, Settlement::Retry);
    lose(&mut world, 1);
    let again = pending(&world.session).remove(0);
    assert_eq!(
        (&*again.id().to_string(), again.is_answered),
        ("call-1.1.1.0.0-2", false)
    );
    let events = world.answer(TOOL_STEP, done());
    assert_eq!(kinds(&events), ["CommandReceived", "CommandRefused"][1..]);
    assert!(!pending(&world.session)[0].is_answered);
    world.answer("call-1.1.1.0.0-2", done());
    assert!(pending(&world.session)[0].is_answered);
    assert_eq!(world.session, world.folded());
}

/// What a client hears of its answer is the same however often it asks.
#[test]
fn an_answer_says_when_it_takes_effect() {
    let settle_after = |world: &mut World| {
        let events = world.answer(TOOL_STEP, done());
        events.iter().find_map(|event| match event.kind {
            EventKind::Decided(event::Decided { settle_after, .. }) => Some(settle_after),
            _ => None,
        })
    };
    assert_eq!(settle_after(&mut doubtful_tool_step()), Some(0));
    let mut early = World::with_plan(chain(vec![tool_step("one", "send")]));
    lose(&mut early, 1);
    let asked = takes_effect(&early);
    assert_eq!(settle_after(&mut early), Some(asked));
    assert!(asked > early.now);
}

/// When an answer to the only question takes effect.
pub(crate) fn takes_effect(world: &World) -> u64 {
    match pending(&world.session)[..] {
        [
            Pending {
                asked: Asked::Doubt { settle_after, .. },
                ..
            },
        ] => settle_after,
        ref open => panic!("{open:?}"),
    }
}
