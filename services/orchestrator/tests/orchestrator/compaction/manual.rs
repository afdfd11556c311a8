//! Compactions that a client asks for: the newest messages stay, and a model sums up the older ones.

use super::{
    assistant, begin, called, extend, extend_context, listed, news, notices, result, task, text_of,
    user, version, watch,
};
use crate::support::{Attempt, Kind, World, count, names};
use crate::turns::session;
use cairn_engine::failure::FailureKind;
use cairn_proto::event as wire;
use cairn_proto::event::CompactionKind;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use pb::context_notice::Notice;

fn keeping(world: &World, session: &str, keep: u32) -> pb::CompactContextRequest {
    pb::CompactContextRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        compact: Some(wire::CompactContext {
            keep,
            ..wire::CompactContext::default()
        }),
    }
}

/// The same with another context, prompt and so on.
fn with(
    mut request: pb::CompactContextRequest,
    change: impl FnOnce(&mut wire::CompactContext),
) -> pb::CompactContextRequest {
    change(request.compact.as_mut().expect("it is set"));
    request
}

async fn compact(
    world: &World,
    request: pb::CompactContextRequest,
) -> Result<pb::CompactContextResponse, RpcError> {
    let mut contexts = world.contexts.clone();
    let answer = world.until(contexts.compact_context(request)).await;
    let answer = answer.map_err(|status| RpcError::from_status(&status));
    Ok(answer?.into_inner())
}

/// What stands in the context before its mark.
async fn said(world: &World, session: &str) -> Vec<String> {
    let listed = listed(world, session).await.into_iter();
    listed
        .map(|it| text_of(it.message.as_ref()).to_owned())
        .collect()
}

fn talk() -> Vec<wire::Message> {
    vec![user("a"), assistant("b"), user("c"), assistant("d")]
}

async fn create(world: &World, session: &str, context: wire::CreateContext) {
    let create = pb::CreateContextRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: Some(context),
    };
    let mut contexts = world.contexts.clone();
    let created = world.until(contexts.create_context(create)).await;
    created.expect("it is created");
}

/// A compaction begins that keeps so many messages.
async fn begin_keeping(world: &World, session: &str, keep: u32) -> Attempt {
    let request = keeping(world, session, keep);
    let answer = compact(world, request).await.expect("an answer");
    assert!(answer.run > 0);
    let attempt = world.attempt().await;
    task(&attempt);
    attempt
}

#[tokio::test(start_paused = true)]
async fn the_older_messages_give_way_to_a_summary_by_an_own_prompt() {
    let world = World::new().await;
    let session = session(&world).await;
    let seq = extend(&world, &session, talk()).await;
    let mut watched = watch(&world, &session, seq).await;
    let request = with(keeping(&world, &session, 2), |compact| {
        compact.prompt = Some("In one line.".to_owned());
        compact.keep_in_mind = "the port".to_owned();
        compact.expected_version = Some(1);
    });
    let answer = compact(&world, request.clone()).await.expect("an answer");
    assert_eq!((answer.run, answer.version), (1, 1));
    let mut attempt = world.attempt().await;
    let asked = task(&attempt);
    assert!(asked.prompt.starts_with("In one line."), "{}", asked.prompt);
    assert!(asked.prompt.contains("the port"), "{}", asked.prompt);
    let expected = wire::CompactedMessages {
        through: attempt.conversation().incremental[1].number,
        ..wire::CompactedMessages::default()
    };
    assert_eq!(asked.messages, Some(expected));
    attempt.summarise("A port, 17.");
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1, "{:?}", names(&events));
    assert_eq!(count(&events, "ReplyReceived"), 0);

    let noticed = notices(&world, &mut watched).await;
    let [Notice::Compacted(notice)] = &noticed[..] else {
        panic!("{noticed:?}");
    };
    assert_eq!(
        (notice.through_index, notice.kind()),
        (2, CompactionKind::Summary)
    );
    let texts = said(&world, &session).await;
    assert!(texts[0].contains("A port, 17."), "{texts:?}");
    assert_eq!(texts[1..], ["c", "d"]);
    assert_eq!(text_of(notice.message.as_ref()), texts[0]);
    assert_eq!(version(&world, &session).await, 2);
    let run = world.run(&session).await;
    assert!(run.is_compaction && run.answer.is_empty(), "{run:?}");
    assert_eq!(run.status(), pb::RunStatus::Completed);
    assert_eq!(run.usage.expect("the usage").input_tokens, 40);
    let again = compact(&world, request).await.expect("the same answer");
    assert_eq!(again, answer);
}

/// It is no turn, and the next turn is told of it.
#[tokio::test(start_paused = true)]
async fn a_compaction_is_no_turn_and_the_next_turn_knows_of_it() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, talk()).await;
    let mut attempt = begin_keeping(&world, &session, 0).await;
    assert!(
        task(&attempt).prompt.len() > 100,
        "the prompt that is built in"
    );
    attempt.summarise("First.");
    world.ended(&session).await;
    let request = pb::GetSessionRequest {
        session: session.clone(),
    };
    let got = world.client.clone().get_session(request).await;
    let got = got.expect("an answer").into_inner().session.expect("it");
    assert_eq!(got.turn_index, 0);
    let (_stream, attempt) = begin(&world, &session).await;
    assert!(
        news(&attempt).contains("shorter text"),
        "{}",
        news(&attempt)
    );
    let runs = pb::ListRunsRequest { session };
    let runs = world.client.clone().list_runs(runs).await;
    let runs = runs.expect("its runs").into_inner().runs;
    let kinds: Vec<_> = runs.iter().map(|run| run.is_compaction).collect();
    assert_eq!(kinds, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_summary_joins_the_ones_before_it() {
    let world = World::new().await;
    let session = session(&world).await;
    for (text, messages) in [("First.", talk()), ("Second.", vec![user("e"), user("f")])] {
        extend(&world, &session, messages).await;
        let mut attempt = begin_keeping(&world, &session, 1).await;
        attempt.summarise(text);
        world.until(attempt.dropped()).await;
        let is_over = async {
            while world.run(&session).await.status() != pb::RunStatus::Completed {
                world.settle().await;
            }
        };
        world.until(is_over).await;
    }
    let texts = said(&world, &session).await;
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].contains("First.") && texts[1].contains("Second."));
    assert_eq!(texts[2], "f");
}

#[tokio::test(start_paused = true)]
async fn to_keep_all_messages_does_nothing() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, talk()).await;
    for keep in [4, 5, u32::MAX] {
        let request = keeping(&world, &session, keep);
        let answer = compact(&world, request.clone()).await.expect("an answer");
        assert_eq!((answer.run, answer.version), (0, 1), "{keep}");
        let again = compact(&world, request).await.expect("the same answer");
        assert_eq!(again, answer);
    }
    assert_eq!(version(&world, &session).await, 1);
    assert_eq!(said(&world, &session).await, ["a", "b", "c", "d"]);
    assert!(world.other_attempts().await.is_empty());
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunStarted"), 0, "{:?}", names(&events));
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_its_result() {
    let world = World::new().await;
    let session = session(&world).await;
    let messages = vec![user("q"), called("id"), result("id", "seen"), user("z")];
    extend(&world, &session, messages).await;
    let mut attempt = begin_keeping(&world, &session, 2).await;
    attempt.summarise("A question.");
    world.ended(&session).await;
    let texts = said(&world, &session).await;
    assert_eq!(
        texts.len(),
        4,
        "the summary, and one more than was to stay: {texts:?}"
    );
    assert_eq!(texts[3], "z");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_changes_nothing_and_is_charged() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, talk()).await;
    let mut attempt = begin_keeping(&world, &session, 1).await;
    attempt.write_no_summary();
    let events = world.ended(&session).await;
    let Some(Kind::RunFailed(failed)) = events.last().map(|event| &event.kind) else {
        panic!("{:?}", names(&events));
    };
    let failure = &failed.failure;
    assert_eq!(
        (failure.kind, failure.reason.as_str()),
        (FailureKind::Llm, "SUMMARY_FAILED")
    );
    assert!(
        failure.message.contains("the model is silent"),
        "{}",
        failure.message
    );
    assert_eq!(said(&world, &session).await, ["a", "b", "c", "d"]);
    assert_eq!(version(&world, &session).await, 1);
    let usage = world.run(&session).await.usage.expect("the usage");
    assert_eq!(usage.input_tokens, 40);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_is_cancelled_changes_nothing() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, talk()).await;
    let attempt = begin_keeping(&world, &session, 1).await;
    let mut client = world.client.clone();
    let cancelled = client.cancel_run(world.cancellation(&session));
    world.until(cancelled).await.expect("it is cancelled");
    world.until(attempt.dropped()).await;
    assert_eq!(said(&world, &session).await, ["a", "b", "c", "d"]);
    let usage = world.run(&session).await.usage.expect("the usage");
    assert_eq!(
        usage.model_calls, 1,
        "the question counts as it was estimated"
    );
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, RpcError>) -> String {
    answer.expect_err("it is refused").reason_name().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_context_is_busy_while_it_is_compacted() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        ..wire::CreateContext::default()
    };
    create(&world, &session, side).await;
    extend(&world, &session, talk()).await;
    let mut attempt = begin_keeping(&world, &session, 1).await;
    let clear = pb::ClearMessagesRequest {
        session: session.clone(),
        request_id: world.request_id(),
        ..pb::ClearMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let cleared = world.until(contexts.clear_messages(clear)).await;
    let cleared = cleared.map_err(|status| RpcError::from_status(&status));
    assert_eq!(refusal(cleared), "CONTEXT_BUSY");
    // Whatever is to stay.
    for keep in [1, 99] {
        let request = keeping(&world, &session, keep);
        assert_eq!(refusal(compact(&world, request).await), "CONTEXT_BUSY");
        let of_side = |compact: &mut wire::CompactContext| compact.context = "side".to_owned();
        let request = with(keeping(&world, &session, keep), of_side);
        assert_eq!(refusal(compact(&world, request).await), "RUN_ACTIVE");
    }
    attempt.summarise("Short.");
    world.ended(&session).await;
    let stale = with(keeping(&world, &session, 0), |it| {
        it.expected_version = Some(1)
    });
    assert_eq!(refusal(compact(&world, stale).await), "VERSION_MISMATCH");
}

/// Who asks for a compaction wants it, whatever turns of the context are to do by themselves.
#[tokio::test(start_paused = true)]
async fn a_context_whose_turns_refuse_is_compacted_by_request() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        when_full: wire::WhenFull::Refuse.into(),
        ..wire::CreateContext::default()
    };
    create(&world, &session, side).await;
    extend_context(&world, &session, "side", talk()).await;
    let of_side = |compact: &mut wire::CompactContext| compact.context = "side".to_owned();
    let request = with(keeping(&world, &session, 1), of_side);
    let answer = compact(&world, request).await.expect("an answer");
    let attempt = world.attempt().await;
    assert_eq!((answer.run, attempt.start.compact_at_permille), (1, 700));
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_are_refused_before_they_are_stored() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, talk()).await;
    let before = world.journal.events(&session).await.len();
    let long = || "x".repeat(16 * 1024 + 1);
    let request = || keeping(&world, &session, 1);
    let none = pb::CompactContextRequest {
        compact: None,
        ..request()
    };
    for (wrong, field) in [
        (none, "compact"),
        (
            with(request(), |it| it.prompt = Some(long())),
            "compact.prompt",
        ),
        (
            with(request(), |it| it.prompt = Some(" ".to_owned())),
            "compact.prompt",
        ),
        (
            with(request(), |it| it.keep_in_mind = long()),
            "compact.keep_in_mind",
        ),
        (with(request(), |it| it.model = long()), "compact.model"),
        (
            with(request(), |it| it.trace_parent = "x".to_owned()),
            "compact.trace_parent",
        ),
    ] {
        let error = compact(&world, wrong).await.expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{field}: {error}");
        assert!(error.to_string().contains(field), "{field}: {error}");
    }
    let other = with(request(), |it| it.context = "other".to_owned());
    assert_eq!(refusal(compact(&world, other).await), "CONTEXT_NOT_FOUND");
    let events = world.journal.events(&session).await;
    let stored = events.len() - before;
    assert_eq!(stored, 2, "the last command, and its refusal");
}
