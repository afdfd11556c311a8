//! Two clients change a context in the middle of its turn, whose messages stand behind the mark.

use super::{append, create, list, next, session, text, user, watch};
use crate::support::{Kind, World, reply};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use pb::context_notice::Notice;
use std::collections::BTreeSet;
use tonic::Status;

/// All messages of a context that clients see.
async fn texts(world: &World, session: &str, context: &str) -> Vec<String> {
    let request = pb::ListMessagesRequest {
        session: session.to_owned(),
        context: context.to_owned(),
        ..pb::ListMessagesRequest::default()
    };
    let listed = list(world, request).await;
    assert!(
        listed
            .iter()
            .map(|(index, _)| *index)
            .eq(0..listed.len() as u32)
    );
    listed.into_iter().map(|(_, text)| text).collect()
}

fn insert(world: &World, session: &str, index: u32, text: &str) -> pb::InsertMessageRequest {
    pb::InsertMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        index,
        message: Some(user(text)),
        ..pb::InsertMessageRequest::default()
    }
}

/// A turn of this context begins.
async fn submit(world: &World, session: &str, context: &str) {
    let submit = pb::SubmitTurnRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        turn: Some(wire::SubmitTurn {
            context: context.to_owned(),
            message: Some(user("pay")),
            ..wire::SubmitTurn::default()
        }),
        ..pb::SubmitTurnRequest::default()
    };
    let mut client = world.client.clone();
    let submitted = world.until(client.submit_turn(submit)).await;
    submitted.expect("a turn");
}

/// A turn of `main` waits for the approval of its call.
async fn waiting(world: &World, session: &str) {
    submit(world, session, "").await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("approved", "{}")]));
    let is_waiting = |kind: &Kind| matches!(kind, Kind::RunWaiting(_));
    world.seen(session, is_waiting).await;
    world.until(attempt.dropped()).await;
}

async fn approve(world: &World, session: &str) {
    let request = pb::ListPendingRequest {
        session: session.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let mut client = world.client.clone();
    let pending = client.list_pending(request).await.expect("a question");
    let approve = wire::settlement::Approve {};
    let decide = pb::DecideRequest {
        session: session.to_owned(),
        pending_id: pending.into_inner().pending[0].id.clone(),
        settlement: Some(wire::Settlement {
            outcome: Some(wire::settlement::Outcome::Approve(approve)),
        }),
        request_id: world.request_id(),
    };
    world.until(client.decide(decide)).await.expect("an answer");
}

fn sent(messages: &[wire::NumberedMessage]) -> Vec<&str> {
    let messages = messages.iter().map(|it| it.message.as_ref());
    messages.map(text).collect()
}

/// What a subscriber makes of notices, who knows nothing else.
fn replay(zone: &mut Vec<String>, notices: &[pb::ContextNotice]) {
    let said = |message: &Option<wire::Message>| text(message.as_ref()).to_owned();
    for notice in notices {
        match notice.notice.as_ref().expect("a notice") {
            Notice::Appended(it) => zone.push(said(&it.message)),
            Notice::Updated(it) => zone[it.index as usize] = said(&it.message),
            Notice::Inserted(it) => zone.insert(it.index as usize, said(&it.message)),
            Notice::Removed(it) => drop(zone.remove(it.index as usize)),
            other => panic!("{other:?}"),
        }
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let error = RpcError::from_status(&answer.expect_err("it is refused"));
    error.reason_name().to_owned()
}

/// Two clients insert, append, update and remove a message.
async fn edit(world: &World, session: &str) {
    let (mut first, mut other) = (world.contexts.clone(), world.contexts.clone());
    let both = async {
        tokio::join!(
            first.insert_message(insert(world, session, 0, "zero")),
            other.append_message(pb::AppendMessageRequest {
                session: session.to_owned(),
                request_id: world.request_id(),
                message: Some(user("three")),
                ..pb::AppendMessageRequest::default()
            }),
        )
    };
    let (inserted, added) = world.until(both).await;
    inserted.expect("it is inserted");
    added.expect("it is appended");
    let update = pb::UpdateMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        index: 1,
        message: Some(user("ONE")),
        ..pb::UpdateMessageRequest::default()
    };
    world
        .until(first.update_message(update))
        .await
        .expect("it is updated");
    let remove = pb::RemoveMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        index: 2,
        ..pb::RemoveMessageRequest::default()
    };
    world
        .until(other.remove_message(remove))
        .await
        .expect("it is removed");
}

#[tokio::test(start_paused = true)]
async fn two_clients_change_a_context_whose_turn_waits() {
    let world = World::new().await;
    let session = session(&world).await;
    append(&world, &session, "", user("one")).await;
    let second = append(&world, &session, "", user("two")).await;
    waiting(&world, &session).await;
    let mut watched = watch(&world, &session, "", second).await;
    assert!(next(&world, &mut watched).await.notices.is_empty());
    assert_eq!(texts(&world, &session, "").await, ["one", "two"]);

    edit(&world, &session).await;
    // The turn has two messages, which no index reaches.
    let mut contexts = world.contexts.clone();
    let beyond = insert(&world, &session, 4, "beyond");
    let beyond = world.until(contexts.insert_message(beyond)).await;
    assert_eq!(refusal(beyond), "BAD_INDEX");
    let before = ["zero", "ONE", "three"];
    assert_eq!(texts(&world, &session, "").await, before);
    let mut zone = vec!["one".to_owned(), "two".to_owned()];
    for _ in 0..4 {
        let message = next(&world, &mut watched).await;
        replay(&mut zone, &message.notices);
    }
    assert_eq!(zone, before);

    approve(&world, &session).await;
    let mut attempt = world.attempt().await;
    let conversation = attempt.start.conversation.clone().expect("a conversation");
    assert_eq!(sent(&conversation.incremental), before);
    assert_eq!(sent(&conversation.behind), ["pay", ""]);
    let all = conversation.incremental.iter().chain(&conversation.behind);
    let numbers: Vec<u32> = all.map(|it| it.number).collect();
    assert!(!numbers.is_sorted(), "{numbers:?}");
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(numbers.iter().max(), Some(&conversation.last_number));
    attempt.report_result(0, 0, "paid");
    attempt.reply(reply(1, "done", &[]));
    // One notice for each message of the turn, all in one answer.
    let message = next(&world, &mut watched).await;
    assert_eq!(message.notices.len(), 4);
    replay(&mut zone, &message.notices);
    let after = ["zero", "ONE", "three", "pay", "", "", "done"];
    assert_eq!(zone, after);
    assert_eq!(texts(&world, &session, "").await, after);
}

#[tokio::test(start_paused = true)]
async fn what_clients_change_stays_when_the_turn_is_cancelled() {
    let world = World::new().await;
    let session = session(&world).await;
    waiting(&world, &session).await;
    append(&world, &session, "", user("aside")).await;
    let mut client = world.client.clone();
    let cancelled = world
        .until(client.cancel_run(world.cancellation(&session)))
        .await;
    cancelled.expect("it is cancelled");
    assert_eq!(texts(&world, &session, "").await, ["aside"]);
    submit(&world, &session, "").await;
    let attempt = world.attempt().await;
    let conversation = attempt.start.conversation.expect("a conversation");
    assert_eq!(sent(&conversation.incremental), ["aside"]);
    assert_eq!(sent(&conversation.behind), ["pay"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_works_keeps_its_own_context_alone_busy() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        ..wire::CreateContext::default()
    };
    create(&world, &session, side).await;
    submit(&world, &session, "side").await;
    let mut attempt = world.attempt().await;
    append(&world, &session, "", user("elsewhere")).await;
    let clear = pb::ClearMessagesRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: "side".to_owned(),
        ..pb::ClearMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let cleared = world.until(contexts.clear_messages(clear)).await;
    assert_eq!(refusal(cleared), "CONTEXT_BUSY");
    assert_eq!(texts(&world, &session, "side").await, [""; 0]);
    attempt.reply(reply(0, "done", &[]));
    world.ended(&session).await;
    assert_eq!(texts(&world, &session, "side").await, ["pay", "done"]);
    assert_eq!(texts(&world, &session, "").await, ["elsewhere"]);
}
