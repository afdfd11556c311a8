//! What contexts, turns and settings say of requests that are too long.

use super::{begin, says};
use crate::support::{World, reply};
use crate::turns::{rest, session, submit, turn};
use cairn_engine::decide::Compaction;
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::event::WhenFull;
use cairn_proto::executor::Reply;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};

async fn update(
    world: &World,
    request: pb::UpdateContextRequest,
) -> Result<pb::UpdateContextResponse, RpcError> {
    let mut contexts = world.contexts.clone();
    let answer = world.until(contexts.update_context(request)).await;
    let answer = answer.map_err(|status| RpcError::from_status(&status));
    Ok(answer?.into_inner())
}

fn request(world: &World, session: &str) -> pb::UpdateContextRequest {
    pb::UpdateContextRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        ..pb::UpdateContextRequest::default()
    }
}

fn when_full(when_full: i32) -> Option<wire::WhenFullChange> {
    Some(wire::WhenFullChange { when_full })
}

fn window(messages: Option<u32>) -> Option<wire::WindowChange> {
    Some(wire::WindowChange {
        window: messages.map(|messages| wire::Window { messages }),
    })
}

/// The context `main` as it is listed.
async fn listed(world: &World, session: &str) -> pb::ContextSummary {
    let request = pb::ListContextsRequest {
        session: session.to_owned(),
    };
    let listed = world.contexts.clone().list_contexts(request).await;
    let contexts = listed.expect("a list").into_inner().contexts;
    contexts.into_iter().next().expect("main")
}

#[tokio::test(start_paused = true)]
async fn a_context_is_updated_in_one_change() {
    let world = World::new().await;
    let session = session(&world).await;
    let before = listed(&world, &session).await;
    assert_eq!(
        (before.when_full(), before.window),
        (WhenFull::Unspecified, None)
    );
    let both = pb::UpdateContextRequest {
        window: window(Some(7)),
        when_full: when_full(WhenFull::Refuse.into()),
        expected_version: Some(0),
        ..request(&world, &session)
    };
    let answer = update(&world, both.clone()).await.expect("an answer");
    assert_eq!(answer.version, 1);
    let again = update(&world, both).await.expect("the same answer");
    assert_eq!(again, answer);
    let listed_now = listed(&world, &session).await;
    let expected = (WhenFull::Refuse, Some(wire::Window { messages: 7 }));
    assert_eq!((listed_now.when_full(), listed_now.window), expected);

    // One that is not named stays.
    let no_window = pb::UpdateContextRequest {
        window: window(None),
        ..request(&world, &session)
    };
    update(&world, no_window).await.expect("an answer");
    let listed_now = listed(&world, &session).await;
    assert_eq!(
        (listed_now.when_full(), listed_now.window),
        (WhenFull::Refuse, None)
    );
    let default = pb::UpdateContextRequest {
        when_full: when_full(0),
        ..request(&world, &session)
    };
    update(&world, default).await.expect("an answer");
    assert_eq!(
        listed(&world, &session).await.when_full(),
        WhenFull::Unspecified
    );
    for wrong in [
        pb::UpdateContextRequest {
            when_full: when_full(9),
            ..request(&world, &session)
        },
        pb::UpdateContextRequest {
            window: window(Some(0)),
            ..request(&world, &session)
        },
    ] {
        let error = update(&world, wrong).await.expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(listed(&world, &session).await.version, 3);
}

/// What a turn says comes before what its context says.
#[tokio::test(start_paused = true)]
async fn only_turns_that_may_be_compacted_report_requests_as_full() {
    let config = Config {
        compaction: Compaction {
            at_permille: 550,
            ..Compaction::default()
        },
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = session(&world).await;
    for (of_context, of_turn, expected) in [
        (WhenFull::Unspecified, WhenFull::Unspecified, 550),
        (WhenFull::Refuse, WhenFull::Unspecified, 0),
        (WhenFull::Refuse, WhenFull::Compact, 550),
        (WhenFull::Compact, WhenFull::Refuse, 0),
    ] {
        let changed = pb::UpdateContextRequest {
            when_full: when_full(of_context.into()),
            ..request(&world, &session)
        };
        update(&world, changed).await.expect("an answer");
        let mut asked = turn(&world, &session);
        if let Some(turn) = &mut asked.turn {
            turn.options = Some(wire::TurnOptions {
                when_full: of_turn.into(),
                ..wire::TurnOptions::default()
            });
        }
        let mut stream = submit(&world, asked).await.expect("a turn");
        let mut attempt = world.attempt().await;
        assert_eq!(attempt.start.compact_at_permille, expected, "{of_turn:?}");
        says(&mut attempt, "Good day.");
        let ended = rest(&world, &mut stream).await;
        ended.expect("an end");
    }
}

/// What is learned from a reply is sent with the next start.
#[tokio::test(start_paused = true)]
async fn a_start_has_what_was_learned_of_its_model() {
    let world = World::new().await;
    let session = session(&world).await;
    let (mut stream, mut attempt) = begin(&world, &session).await;
    let usage = wire::Usage {
        input_tokens: 300,
        model_calls: 1,
        ..wire::Usage::default()
    };
    attempt.reply(Reply {
        usage: Some(usage),
        estimated_tokens: 200,
        window_tokens: 2_000,
        ..reply(0, "Good day.", &[])
    });
    let ended = rest(&world, &mut stream).await;
    ended.expect("an end");
    let (_stream, attempt) = begin(&world, &session).await;
    assert_eq!(attempt.start.estimate_permille, 1_500);
    assert_eq!(attempt.start.result_bytes, 2_000);
    assert!(attempt.conversation().measured.is_some());
}
