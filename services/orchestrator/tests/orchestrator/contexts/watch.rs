//! Watchers of a context.

use super::{append, appended, create, next, session, user, watch};
use crate::support::{World, chain, reply, tool_step};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::{Status, Streaming};

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

#[tokio::test(start_paused = true)]
async fn watchers_of_a_session_share_one_fold() {
    // Nothing is kept beside what is watched.
    let config = Config {
        cache_bytes: 0,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        ..wire::CreateContext::default()
    };
    create(&world, &session, side).await;
    let last = append(&world, &session, "main", user("one")).await;
    let mut watched = vec![watch(&world, &session, "main", last).await];
    assert!(
        next(&world, &mut watched[0]).await.notices.is_empty(),
        "it has all"
    );
    let before = world.faults.calls("GetCheckpoint");
    for number in 0..20 {
        let context = ["main", "side", ""][number % 3];
        let mut another = watch(&world, &session, context, last).await;
        assert!(next(&world, &mut another).await.notices.is_empty());
        watched.push(another);
    }
    assert_eq!(world.faults.calls("GetCheckpoint"), before);
    // One that begins earlier folds for itself, and goes on with the others.
    let mut late = watch(&world, &session, "main", 0).await;
    assert_eq!(appended(&next(&world, &mut late).await), ["one"]);
    assert!(next(&world, &mut late).await.notices.is_empty());
    watched.push(late);
    for text in ["two", "three"] {
        for context in ["main", "side"] {
            append(&world, &session, context, user(text)).await;
        }
    }
    for (number, another) in watched.iter_mut().enumerate() {
        for (text, version) in [("two", 2), ("three", 3)] {
            let message = next(&world, another).await;
            let seen = (appended(&message), message.version);
            assert_eq!(seen, (vec![text], version), "{number}");
        }
    }
}

/// The texts of further messages, until there are so many or the stream fails.
async fn texts(
    world: &World,
    watched: &mut Streaming<pb::WatchContextResponse>,
    seen: &mut Vec<String>,
    most: usize,
) -> Result<(), Status> {
    while seen.len() < most {
        let message = world.until(watched.message()).await?.expect("more");
        seen.extend(appended(&message).into_iter().map(|it| it[..1].to_owned()));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_makes_room_and_continues_from_its_cursor() {
    let config = Config {
        stream_bytes: 1024 * 1024,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = session(&world).await;
    let letters: Vec<_> = ('a'..='l').map(String::from).collect();
    for letter in &letters {
        append(&world, &session, "main", user(&letter.repeat(40 * 1024))).await;
    }
    let watch = async |after_seq: u64| {
        let request = pb::WatchContextRequest {
            session: session.clone(),
            context: "main".to_owned(),
            after_seq,
        };
        let mut contexts = world.contexts.clone();
        let watched = world.until(contexts.watch_context(request)).await;
        watched.expect("a watch").into_inner()
    };
    let (mut slow, mut seen) = (watch(0).await, Vec::new());
    texts(&world, &mut slow, &mut seen, 2)
        .await
        .expect("no error");
    let (mut other, mut all) = (watch(0).await, Vec::new());
    texts(&world, &mut other, &mut all, letters.len())
        .await
        .expect("no error");
    assert_eq!(all, letters);
    let ended = texts(&world, &mut slow, &mut seen, letters.len()).await;
    let error = RpcError::from_status(&ended.expect_err("it was ended"));
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(error.reason_name(), RpcError::READS_TOO_SLOWLY);
    let after = error.metadata("after_seq").expect("a cursor");
    let mut again = watch(after.parse().expect("a number")).await;
    texts(&world, &mut again, &mut seen, letters.len())
        .await
        .expect("no error");
    assert_eq!(seen, letters);
}
