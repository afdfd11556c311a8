//! Watchers of a context.

use super::{append, appended, create, next, session, user, watch};
use crate::support::{World, chain, reply, tool_step};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

#[tokio::test(start_paused = true)]
async fn a_watcher_continues_from_its_cursor_and_ends_with_the_context() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        immutable: vec![user("always")],
        ..wire::CreateContext::default()
    };
    let born = create(&world, &session, side).await;
    let first = append(&world, &session, "side", user("one")).await;
    append(&world, &session, "main", user("elsewhere")).await;
    let second = append(&world, &session, "side", user("two")).await;
    for (after, wanted) in [
        (0, &[(first, "one"), (second, "two")][..]),
        (born, &[(first, "one"), (second, "two")]),
        (first, &[(second, "two")]),
        (second, &[]),
    ] {
        let mut watched = watch(&world, &session, "side", after).await;
        for (seq, text) in wanted {
            let message = next(&world, &mut watched).await;
            assert_eq!((message.seq, appended(&message)), (*seq, vec![*text]));
        }
        let caught_up = next(&world, &mut watched).await;
        assert!(caught_up.notices.is_empty() && caught_up.seq >= after);
    }
    let mut contexts = world.contexts.clone();
    let mut watched = watch(&world, &session, "side", second).await;
    assert!(next(&world, &mut watched).await.notices.is_empty());
    let destroy = pb::DestroyContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::DestroyContext {
            context: "side".to_owned(),
            conclusions: [("fact".to_owned(), "it rains".to_owned())].into(),
            ask_model: false,
        }),
    };
    let destroyed = world.until(contexts.destroy_context(destroy)).await;
    let destroyed = destroyed.expect("an answer").into_inner();
    assert_eq!(destroyed.run, 0);
    assert_eq!(
        world.until(watched.message()).await.expect("no error"),
        None
    );
    let gone = pb::WatchContextRequest {
        session: session.clone(),
        context: "side".to_owned(),
        after_seq: destroyed.seq,
    };
    let refused = contexts.watch_context(gone).await.expect_err("it is gone");
    assert_eq!(
        RpcError::from_status(&refused).reason_name(),
        "CONTEXT_NOT_FOUND"
    );
    // What came before its end can still be read.
    let mut watched = watch(&world, &session, "side", first).await;
    assert_eq!(appended(&next(&world, &mut watched).await), ["two"]);
    assert_eq!(
        world.until(watched.message()).await.expect("no error"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_and_a_turn_are_noticed_when_they_complete() {
    let world = World::new().await;
    let run = wire::StartRun {
        goal: "Look.".to_owned(),
        ..chain(vec![tool_step("pure")])
    };
    let session = world.start(run).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "seen");
    world.ended(&session).await;
    let mut watched = watch(&world, &session, "", 0).await;
    assert_eq!(appended(&next(&world, &mut watched).await)[0], "Look.");
    assert!(next(&world, &mut watched).await.notices.is_empty());
    let submit = pb::SubmitTurnRequest {
        session: session.clone(),
        request_id: world.request_id(),
        turn: Some(wire::SubmitTurn {
            message: Some(user("hello")),
            ..wire::SubmitTurn::default()
        }),
        ..pb::SubmitTurnRequest::default()
    };
    let mut client = world.client.clone();
    let _turn = world
        .until(client.submit_turn(submit))
        .await
        .expect("a turn");
    let mut attempt = world.attempt().await;
    let busy: Result<_, Status> = {
        let clear = pb::ClearMessagesRequest {
            session: session.clone(),
            request_id: world.request_id(),
            ..pb::ClearMessagesRequest::default()
        };
        let mut contexts = world.contexts.clone();
        world.until(contexts.clear_messages(clear)).await
    };
    let error = RpcError::from_status(&busy.expect_err("the context is busy"));
    assert_eq!(error.reason_name(), "CONTEXT_BUSY");
    attempt.reply(reply(0, "good day", &[]));
    let message = next(&world, &mut watched).await;
    assert_eq!(appended(&message), ["hello", "good day"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_asked_concludes_before_the_context_ends() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        immutable: vec![user("it rains")],
        ..wire::CreateContext::default()
    };
    let born = create(&world, &session, side).await;
    let mut watched = watch(&world, &session, "side", born).await;
    assert!(next(&world, &mut watched).await.notices.is_empty());
    let destroy = pb::DestroyContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::DestroyContext {
            context: "side".to_owned(),
            ask_model: true,
            ..wire::DestroyContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let asked = world.until(contexts.destroy_context(destroy)).await;
    assert_eq!(asked.expect("an answer").into_inner().run, 1);
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "nothing stays", &[]));
    // The last turn is noticed, and then there is no more.
    let last = next(&world, &mut watched).await;
    assert_eq!(*appended(&last).last().expect("a reply"), "nothing stays");
    let end = world.until(watched.message()).await;
    assert_eq!(end.expect("no error"), None);
    let listed = pb::ListContextsRequest { session };
    let listed = contexts.list_contexts(listed).await.expect("an answer");
    assert_eq!(listed.into_inner().contexts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_beyond_the_end_is_refused() {
    let world = World::new().await;
    let session = session(&world).await;
    let last = append(&world, &session, "main", user("one")).await;
    let mut contexts = world.contexts.clone();
    let beyond = pb::WatchContextRequest {
        session,
        context: "main".to_owned(),
        after_seq: last + 1000,
    };
    let refused = contexts.watch_context(beyond).await.expect_err("beyond");
    let refused = RpcError::from_status(&refused);
    assert_eq!(
        (refused.kind(), refused.reason_name()),
        (ErrorKind::OutOfRange, "WENT_BACK")
    );
}
