//! Turns as their clients see them: refused, steered, cancelled, and streams that are continued.

use crate::support::{World, reply};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use pb::turn_event::Event;
use tonic::{Status, Streaming};

fn text(text: &str) -> wire::Message {
    wire::Message {
        role: wire::Role::User.into(),
        parts: vec![wire::part::Part::Text(text.to_owned()).into()],
    }
}

pub(crate) async fn session(world: &World) -> String {
    let create = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let created = world.client.clone().create_session(create).await;
    created.expect("a session").into_inner().session
}

pub(crate) fn turn(world: &World, session: &str) -> pb::SubmitTurnRequest {
    pb::SubmitTurnRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        turn: Some(wire::SubmitTurn {
            message: Some(text("hello")),
            ..wire::SubmitTurn::default()
        }),
        ..pb::SubmitTurnRequest::default()
    }
}

pub(crate) async fn submit(
    world: &World,
    request: pb::SubmitTurnRequest,
) -> Result<Streaming<pb::SubmitTurnResponse>, RpcError> {
    let mut client = world.client.clone();
    let submitted = world.until(client.submit_turn(request)).await;
    let stream = submitted.map_err(|status| RpcError::from_status(&status));
    Ok(stream?.into_inner())
}

/// The events of a stream to its end, with the seq of the last one.
pub(crate) async fn rest(
    world: &World,
    stream: &mut Streaming<pb::SubmitTurnResponse>,
) -> Result<(Vec<Event>, u64), Status> {
    let (mut events, mut seq) = (Vec::new(), 0);
    while let Some(response) = world.until(stream.message()).await? {
        seq = response.seq.max(seq);
        events.extend(response.events.into_iter().filter_map(|event| event.event));
    }
    Ok((events, seq))
}

async fn last_seq(world: &World, session: &str) -> u64 {
    let request = pb::GetSessionRequest {
        session: session.to_owned(),
    };
    let got = world.client.clone().get_session(request).await;
    let got = got.expect("an answer").into_inner().session;
    got.expect("a session").last_seq
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_cursor_is_beyond_the_end_is_refused_and_not_stored() {
    let world = World::new().await;
    let session = session(&world).await;
    let before = last_seq(&world, &session).await;
    let request = pb::SubmitTurnRequest {
        after_seq: before + 1000,
        ..turn(&world, &session)
    };
    let error = submit(&world, request).await.expect_err("it is refused");
    assert_eq!(
        (error.kind(), error.reason_name()),
        (ErrorKind::OutOfRange, "WENT_BACK")
    );
    assert_eq!(last_seq(&world, &session).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_continued_after_the_end_has_the_end() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut request = turn(&world, &session);
    let mut stream = submit(&world, request.clone()).await.expect("a turn");
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "good day", &[]));
    let (events, seq) = rest(&world, &mut stream).await.expect("an end");
    assert!(
        matches!(events.last(), Some(Event::Complete(_))),
        "{events:?}"
    );
    request.after_seq = seq;
    let mut stream = submit(&world, request).await.expect("the turn");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let [Event::Complete(complete)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(complete.response, "good day");
}

#[tokio::test(start_paused = true)]
async fn a_refused_turn_stays_refused_and_says_so() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let mut attempt = world.attempt().await;
    let request = turn(&world, &session);
    for is_over in [false, true] {
        if is_over {
            attempt.reply(reply(0, "good day", &[]));
            rest(&world, &mut stream).await.expect("an end");
        }
        let error = submit(&world, request.clone()).await.expect_err("refused");
        assert_eq!(error.reason_name(), "RUN_ACTIVE");
        assert!(
            error.message().ends_with("with a new request_id"),
            "{error}"
        );
    }
    submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_an_error_when_its_session_is_deleted() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let _attempt = world.attempt().await;
    let delete = pb::DeleteSessionRequest {
        session: session.clone(),
    };
    let mut client = world.client.clone();
    world
        .until(client.delete_session(delete))
        .await
        .expect("it is deleted");
    let ended = rest(&world, &mut stream).await.expect_err("an error");
    let error = RpcError::from_status(&ended);
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

fn say(world: &World, session: &str, message: wire::Message) -> pb::SendMessageRequest {
    pb::SendMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        step: 0,
        message: Some(message),
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_cancelled_turn_names_the_messages_to_it() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let _attempt = world.attempt().await;
    let mut client = world.client.clone();
    let said = say(&world, &session, text("in German"));
    world
        .until(client.send_message(said))
        .await
        .expect("it is sent");
    let cancel = pb::CancelRunRequest {
        session: session.clone(),
        run: 1,
        request_id: world.request_id(),
        reason: "stop".to_owned(),
    };
    world
        .until(client.cancel_run(cancel))
        .await
        .expect("it is cancelled");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let Some(Event::Error(error)) = events.last() else {
        panic!("{events:?}");
    };
    let message = &error.failure.as_ref().expect("a failure").message;
    assert!(
        message.contains("stop") && message.contains("\"in German\""),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_messages_are_refused_before_they_are_stored() {
    let world = World::new().await;
    let session = session(&world).await;
    let before = last_seq(&world, &session).await;
    let of_the_model = wire::Message {
        role: wire::Role::Assistant.into(),
        ..text("hello")
    };
    for (message, wanted) in [
        (of_the_model, "message.role"),
        (text(""), "message.parts[0].text is empty"),
    ] {
        let mut request = turn(&world, &session);
        if let Some(turn) = &mut request.turn {
            turn.message = Some(message.clone());
        }
        let of_turn = submit(&world, request).await.expect_err("refused");
        let said = say(&world, &session, message);
        let said = world.client.clone().send_message(said).await;
        let said = RpcError::from_status(&said.expect_err("refused"));
        for error in [of_turn, said] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
    assert_eq!(last_seq(&world, &session).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_names_an_unknown_tool_is_refused() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut request = turn(&world, &session);
    if let Some(turn) = &mut request.turn {
        let names = vec!["nope".to_owned()];
        turn.options = Some(wire::TurnOptions {
            tools: Some(wire::ToolNames { names }),
            ..wire::TurnOptions::default()
        });
    }
    let error = submit(&world, request).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.reason_name()),
        (ErrorKind::NotFound, "NO_TOOL")
    );
    assert!(error.message().contains("there are: "), "{error}");
}

/// Says so much that the start of the turn is large.
fn long_turn(world: &World, session: &str) -> pb::SubmitTurnRequest {
    pb::SubmitTurnRequest {
        turn: Some(wire::SubmitTurn {
            message: Some(text(&"x".repeat(3 * 512 * 1024))),
            ..wire::SubmitTurn::default()
        }),
        ..turn(world, session)
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_conversation_is_named_to_the_executor_before_it_is_sent() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = submit(&world, turn(&world, &session)).await.expect("short");
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.named_bytes, None);
    attempt.reply(reply(0, "hm", &[]));
    rest(&world, &mut stream).await.expect("no error");
    let _stream = submit(&world, long_turn(&world, &session))
        .await
        .expect("long");
    let attempt = world.attempt().await;
    let named = attempt.named_bytes.expect("it is large");
    assert!(
        (3 * 512 * 1024..2 * 1024 * 1024).contains(&named),
        "{named}"
    );
}

/// A process that was killed for its memory would be killed again.
#[tokio::test(start_paused = true)]
async fn a_long_conversation_that_loses_three_executors_fails_in_words() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = submit(&world, long_turn(&world, &session))
        .await
        .expect("long");
    // A call that has no answer says nothing of memory.
    let lost = RpcError::unavailable("no answer").reason("CALL_LOST");
    world.attempt().await.break_with(lost.into());
    for _ in 0..2 {
        drop(world.attempt().await);
    }
    let (events, _) = rest(&world, &mut stream).await.expect("no error");
    let Some(Event::Error(error)) = events.last() else {
        panic!("{events:?}");
    };
    let failure = error.failure.as_ref().expect("a failure");
    assert_eq!(failure.reason, "ExecutorLost");
    for part in ["3 times in a row", "1 MiB", "memory", "window"] {
        assert!(failure.message.contains(part), "{}", failure.message);
    }
}
