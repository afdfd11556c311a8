//! Calls that are not to be made now.

use crate::bench::Bench;
use crate::owner::{
    Owner, call_ref, catalogue, conversation, model_step, outputs, owners_result, permit,
};
use cairn_engine::message::{Message, ToolCall};
use cairn_proto::event::Effect;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{AttemptStart, PermittedCall};
use cairn_rpc::RpcError;

fn send(index: u32) -> PermittedCall {
    permit(call_ref(0, index), "send", "{}", Effect::Effectful)
}

/// The model has asked for calls of `send`, and its reply is reported.
async fn replied(calls: usize) -> (Bench, Owner) {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let calls = vec![("send", "{}"); calls];
    bench.asked().await.reply("", &calls);
    assert_eq!(owner.report().await.number, 1);
    (bench, owner)
}

#[tokio::test(start_paused = true)]
async fn a_held_call_waits_until_it_is_permitted() {
    let (mut bench, mut owner) = replied(1).await;
    owner.hold(1, vec![call_ref(0, 0)]);
    bench.is_quiet().await;
    owner.ack_with(1, vec![send(0)], Vec::new());
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
    owner.ack(2);
    assert_eq!(bench.asked().await.said().len(), 2);
}

/// The tools service writes only what was previewed.
#[tokio::test(start_paused = true)]
async fn a_permit_after_a_preview_carries_its_digests() {
    let (mut bench, owner) = replied(1).await;
    owner.hold(1, vec![call_ref(0, 0)]);
    let permit = PermittedCall {
        before_digest: "before".to_owned(),
        after_digest: "after".to_owned(),
        ..permit(call_ref(0, 0), "put", "{}", Effect::Idempotent)
    };
    owner.ack_with(1, vec![permit], Vec::new());
    let called = bench.called().await;
    let (before, after) = (&called.request.before_digest, &called.request.after_digest);
    assert_eq!((before.as_str(), after.as_str()), ("before", "after"));
    called.output("written");
}

#[tokio::test(start_paused = true)]
async fn a_held_call_may_get_its_result_from_the_owner() {
    let (mut bench, owner) = replied(2).await;
    owner.hold(1, vec![call_ref(0, 0), call_ref(0, 1)]);
    bench.is_quiet().await;
    let denied = |index| owners_result(call_ref(0, index), "denied");
    owner.ack_with(1, Vec::new(), vec![denied(0)]);
    bench.is_quiet().await;
    owner.ack_with(1, Vec::new(), vec![denied(1)]);
    assert_eq!(bench.asked().await.said().len(), 3);
}

/// Its result does not reach the model.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_may_be_held() {
    let (mut bench, mut owner) = replied(1).await;
    owner.ack_with(1, vec![send(0)], Vec::new());
    let too_late = RpcError::precondition("too late").reason("NOT_SENT");
    bench.called().await.answer(Err(too_late.into()));
    assert_eq!(owner.report().await.results[0].reason, "NotSent");
    owner.hold(2, vec![call_ref(0, 0)]);
    bench.is_quiet().await;
    owner.ack_with(2, vec![send(0)], Vec::new());
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
}

/// A hold that crosses with the result changes nothing.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_cannot_be_held() {
    let (mut bench, mut owner) = replied(1).await;
    owner.ack_with(1, vec![send(0)], Vec::new());
    let called = bench.called().await;
    owner.hold(1, vec![call_ref(0, 0)]);
    called.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
    owner.ack(2);
    bench.asked().await;
}

/// A start after a reply with two calls.
fn after_two_calls() -> AttemptStart {
    let call = |index: u32| ToolCall {
        id: format!("id-{index}"),
        name: "send".to_owned(),
        arguments: "{}".to_owned(),
    };
    let mut said = conversation();
    said.append(Message::assistant("", vec![call(0), call(1)]));
    AttemptStart {
        conversation: Some(said.into()),
        tool_turns: 1,
        ..model_step()
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_may_begin_with_held_calls() {
    let start = AttemptStart {
        open_calls: vec![send(0)],
        held_calls: vec![call_ref(0, 1)],
        ..after_two_calls()
    };
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start).await;
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
    owner.ack(1);
    bench.is_quiet().await;
    owner.ack_with(1, vec![send(1)], Vec::new());
    bench.called().await.output("sent too");
    assert_eq!(outputs(&owner.report().await), [(1, "sent too")]);
    owner.ack(2);
    bench.asked().await;
}

/// A person may decide before the executor has the catalogue that it lacks.
#[tokio::test(start_paused = true)]
async fn held_calls_may_be_decided_before_the_catalogue_comes() {
    let start = AttemptStart {
        catalogue: "another".to_owned(),
        held_calls: vec![call_ref(0, 0), call_ref(0, 1)],
        ..after_two_calls()
    };
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start).await;
    assert!(owner.report().await.lacks_catalogue);
    owner.ack_with(0, vec![send(0)], Vec::new());
    owner.ack_with(0, Vec::new(), vec![owners_result(call_ref(0, 1), "denied")]);
    owner.send(ToExecutor::Catalogue(catalogue()));
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
    owner.ack(1);
    let results = [
        Message::tool("id-0", "sent", false),
        Message::tool("id-1", "denied", false),
    ];
    assert_eq!(bench.asked().await.said()[1..], results);
}
