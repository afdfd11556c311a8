//! A run that a person cancels: the tools service is asked once to interrupt each of its calls.

use crate::support::{World, reply};
use crate::turns::{rest, session, submit, turn};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use pb::turn_event::Event;

/// Waits until so many calls were interrupted, and returns their keys.
async fn interrupted(world: &World, calls: usize) -> Vec<String> {
    let asked = async {
        loop {
            let mut asked = world.tools.interrupted();
            if asked.len() >= calls {
                asked.sort();
                return asked;
            }
            tokio::task::yield_now().await;
        }
    };
    world.until(asked).await
}

/// A person cancels the turn, or submits another one in its place.
async fn cancel(world: &World, session: &str, is_replaced: bool) {
    if is_replaced {
        let mut other = turn(world, session);
        if let Some(turn) = &mut other.turn {
            turn.when_busy = wire::WhenBusy::Interrupt.into();
        }
        submit(world, other).await.expect("another turn");
        return;
    }
    let cancel = pb::CancelRunRequest {
        session: session.to_owned(),
        run: 1,
        request_id: world.request_id(),
        reason: "stop".to_owned(),
    };
    let mut client = world.client.clone();
    let cancelled = world.until(client.cancel_run(cancel)).await;
    cancelled.expect("it is cancelled");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_cancelled_turn_are_interrupted_once() {
    for is_replaced in [false, true] {
        let world = World::new().await;
        let session = session(&world).await;
        let mut request = turn(&world, &session);
        if let Some(turn) = &mut request.turn {
            turn.options = Some(wire::TurnOptions {
                keep: wire::Keep::Complete.into(),
                ..wire::TurnOptions::default()
            });
        }
        let mut stream = submit(&world, request).await.expect("a turn");
        let mut attempt = world.attempt().await;
        let calls = [("effectful", "{}"), ("idempotent", "{}"), ("pure", "{}")];
        attempt.reply(reply(0, "I do it.", &calls));
        let mut keys = Vec::new();
        while keys.len() < calls.len() {
            let ack = attempt.ack().await;
            keys.extend(ack.permitted_calls.into_iter().map(|call| call.call_key));
        }
        // One has ended, and nothing is interrupted while the turn works.
        attempt.report_result(0, 2, "seen");
        attempt.settled().await;
        assert!(world.tools.interrupted().is_empty());
        cancel(&world, &session, is_replaced).await;
        keys.truncate(2);
        keys.sort();
        assert_eq!(interrupted(&world, 2).await, keys);
        let (events, _) = rest(&world, &mut stream).await.expect("an end");
        let results = events.iter().filter_map(|event| match event {
            Event::ToolResult(result) => result.result.as_ref(),
            _ => None,
        });
        let results: Vec<_> = results.map(|it| (it.is_error, it.text.as_str())).collect();
        assert_eq!(results.len(), 3, "each call has one: {results:?}");
        assert_eq!(results[0], (false, "seen"));
        assert!(results[1..].iter().all(|(is_error, _)| *is_error));
        let Some(Event::Error(error)) = events.last() else {
            panic!("{events:?}");
        };
        assert!(error.is_kept);
        assert_eq!(world.tools.interrupted().len(), 2);
    }
}
