//! An owner that is about to let go begins nothing; the next one continues with what it left.

use crate::world::{
    LEASE, TIME_LIMIT, World, finished, graph, kinds, look, model_step, send, tool_call,
};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::CallFinished;
use cairn_engine::session::CallStatus;
use serde_json::json;

/// Two steps, the first of them in the midst of a call with side effects.
fn leaving() -> World {
    let mut world = World::with_plan(graph(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[send()]);
    world.starts = false;
    world
}

fn take_over(world: &mut World) -> Vec<String> {
    world.starts = true;
    let events = world.decide(Input::TakenOver { holder_dead: false });
    kinds(&events)
}

#[test]
fn a_reply_is_kept_and_its_calls_are_intended_by_the_next_owner() {
    let mut world = leaving();
    let events = world.reply(2, "", &[send(), look()]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    world.result(1, 0, "sent");
    let expected = ["AttemptContinued", "AttemptContinued", "CallIntended"];
    assert_eq!(take_over(&mut world), expected);
    let call = world.session.call(world.call(2, 0)).unwrap();
    assert!(matches!(call.status, CallStatus::Intended { times: 1, .. }));
    assert_eq!(world.session, world.folded());
}

#[test]
fn an_answer_that_takes_effect_at_the_end_sends_nothing() {
    let mut world = leaving();
    world.starts = true;
    take_over(&mut world);
    world.now += LEASE + TIME_LIMIT;
    world.starts = false;
    let events = world.answer("call-1.1.1.0.0", Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "CallSettled", "RunResumed"]);
    let expected = ["AttemptContinued", "AttemptContinued", "CallIntended"];
    assert_eq!(take_over(&mut world), expected);
}

/// For the next owner it is not in doubt.
#[test]
fn a_call_that_was_certainly_not_sent_is_left_to_the_next_owner() {
    let mut world = leaving();
    let events = world.error(1, 0, CallFinished::NOT_SENT);
    assert_eq!(kinds(&events), ["CallHeld"]);
    let expected = ["AttemptContinued", "AttemptContinued", "CallIntended"];
    assert_eq!(take_over(&mut world), expected);
}

#[test]
fn a_call_that_was_never_intended_is_not_intended_now() {
    let mut world = leaving();
    world.reply(2, "", &[tool_call("put", &json!({}))]);
    let call = world.call(2, 0);
    let events = world.report(2, vec![finished(call, "", CallFinished::NOT_SENT)]);
    assert!(events.is_empty(), "{events:?}");
    let call = world.session.call(call).unwrap();
    assert_eq!(call.status, CallStatus::Requested);
}
