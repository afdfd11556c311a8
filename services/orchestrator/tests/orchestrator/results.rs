//! The whole of a long result, as clients read it.

use crate::answers::{finished, lines, with_long_result};
use crate::knowledge::{ByTenant, of};
use crate::support::{Client, Fault, World, put_newer};
use cairn_memory::port::Limits;
use cairn_orchestrator::Config;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, Exposure, RpcError};
use std::sync::Arc;

fn request(session: &str, handle: &str) -> pb::GetResultRequest {
    pb::GetResultRequest {
        session: session.to_owned(),
        handle: handle.to_owned(),
    }
}

/// All messages about a result.
pub(crate) async fn whole(
    client: &Client,
    session: &str,
    handle: &str,
) -> Result<Vec<pb::GetResultResponse>, RpcError> {
    let answer = client.clone().get_result(request(session, handle)).await?;
    let mut stream = answer.into_inner();
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        messages.push(message);
    }
    Ok(messages)
}

fn text(messages: &[pb::GetResultResponse]) -> String {
    let parts = messages.iter();
    parts
        .map(|it| std::str::from_utf8(&it.data).expect("a text"))
        .collect()
}

/// The name of the first long result of a session.
pub(crate) async fn handle(world: &World, session: &str) -> String {
    let events = world.journal.events(session).await;
    let whole = finished(&events)[0].whole.as_ref().expect("a handle");
    whole.handle.clone()
}

#[tokio::test(start_paused = true)]
async fn a_long_result_comes_back_whole_and_part_by_part() {
    let world = World::new().await;
    let given = lines(20_000);
    let (session, _attempt, _) = with_long_result(&world, &given).await;
    let name = handle(&world, &session).await;
    for asked in [name.as_str(), "result-1"] {
        let messages = whole(&world.client, &session, asked).await.expect("parts");
        assert_eq!(messages.len(), 2);
        assert_eq!(text(&messages), given);
        let first = messages[0].whole.as_ref().expect("a handle");
        assert_eq!(first.handle, name);
        assert_eq!((first.bytes, first.lines), (given.len() as u64, 20_000));
        assert_eq!((first.lost_bytes, first.is_cut), (0, false));
        assert_eq!(messages[1].whole, None);
    }
    // A part is read when it is its turn.
    let before = world.faults.calls("GetBlob");
    let mut client = world.client.clone();
    let read = client.get_result(request(&session, &name)).await;
    let mut read = read.expect("a stream").into_inner();
    for parts in 1..=2 {
        read.message().await.expect("no error").expect("a part");
        assert_eq!(world.faults.calls("GetBlob") - before, parts);
    }
    assert_eq!(read.message().await.expect("no error"), None);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_had_no_room_for_is_counted() {
    let limits = Limits {
        session_blob_bytes: 200_000,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    let given = lines(25_000);
    let (session, _attempt, _) = with_long_result(&world, &given).await;
    let messages = whole(&world.client, &session, "result-1").await;
    let messages = messages.expect("parts");
    let first = messages[0].whole.as_ref().expect("a handle");
    let kept = text(&messages);
    assert!(first.lost_bytes > 0 && given.starts_with(&kept));
    assert_eq!(kept.len() as u64 + first.lost_bytes, first.bytes);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_handle_is_refused_with_the_newest_ones() {
    let world = World::new().await;
    let (session, _attempt, _) = with_long_result(&world, &lines(20_000)).await;
    let name = handle(&world, &session).await;
    for unknown in ["result-2", "result-1-0000", "result", "\u{1b}[31m"] {
        let error = whole(&world.client, &session, unknown).await;
        let error = error.expect_err(unknown);
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(error.reason_name(), "NO_SUCH_RESULT", "{error}");
        let [wrong] = error.violations() else {
            panic!("{error:?}");
        };
        assert_eq!(
            (wrong.field.as_str(), &wrong.allowed),
            ("handle", &name),
            "{error}"
        );
    }
    for wrong in ["", " ", "a\0b"] {
        let error = whole(&world.client, &session, wrong).await;
        let error = error.expect_err(wrong);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.violations()[0].field, "handle", "{error}");
    }
    let error = whole(&world.client, "nobody", "result-1").await;
    let error = error.expect_err("no session");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(error.metadata("resource"), Some("session"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn results_of_another_namespace_are_not_there() {
    let world = World::new().await;
    let given = lines(20_000);
    let (session, _attempt, _) = with_long_result(&world, &given).await;
    let config = Config {
        owner: "o-2".to_owned(),
        ..Config::default()
    };
    let public = Exposure::Public(Some(Arc::new(ByTenant)));
    let (mut client, _running) = world.another_exposed(config, public).await;
    let theirs = of("blue", request(&session, "result-1"));
    let error = RpcError::from(client.get_result(theirs).await.expect_err("not there"));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(error.metadata("resource"), Some("session"), "{error}");
    // The same orchestrator, which does not own the session, serves its namespace.
    let own = of("default", request(&session, "result-1"));
    let mut read = client.get_result(own).await.expect("parts").into_inner();
    let mut bytes = 0;
    while let Some(message) = read.message().await.expect("no error") {
        bytes += message.data.len();
    }
    assert_eq!(bytes, given.len());
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_results_of_its_origin() {
    let world = World::new().await;
    let given = lines(20_000);
    let (session, _attempt, _) = with_long_result(&world, &given).await;
    let name = handle(&world, &session).await;
    let fork = pb::ForkSessionRequest {
        session,
        request_id: world.request_id(),
        ..pb::ForkSessionRequest::default()
    };
    let mut client = world.client.clone();
    let forked = world.until(client.fork_session(fork)).await;
    let forked = forked.expect("a fork").into_inner().session;
    let messages = whole(&client, &forked, &name).await.expect("parts");
    assert_eq!(text(&messages), given);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_newer_version_is_refused() {
    let world = World::new().await;
    put_newer(&world, "newer", 0).await;
    let error = whole(&world.client, "newer", "result-1").await;
    let error = error.expect_err("too new");
    assert_eq!(error.reason_name(), "NEWER_VERSION", "{error}");
}

#[tokio::test(start_paused = true)]
async fn damage_that_the_store_reports_ends_a_stream() {
    let world = World::new().await;
    let (session, _attempt, _) = with_long_result(&world, &lines(20_000)).await;
    world.faults.always("GetBlob", Some(Fault::Damage));
    let error = whole(&world.client, &session, "result-1").await;
    let error = error.expect_err("it is damaged");
    assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
}
