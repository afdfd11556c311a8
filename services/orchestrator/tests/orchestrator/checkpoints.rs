//! Checkpoints as an owner makes them.

use crate::support::{Fault, World, chain, for_tenant, model_step, reply};
use cairn_engine::command::RunLimits;
use cairn_orchestrator::Config;
use cairn_proto::convert::encode_event;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;

const TURNS: u32 = 20;
/// Such a reply is stored apart.
const REPLY_BYTES: usize = 100_000;

/// A run may have all of the turns.
async fn world() -> World {
    let limits = RunLimits {
        max_tool_turns: TURNS + 1,
        ..RunLimits::default()
    };
    World::with_config(Config {
        limits,
        ..Config::default()
    })
    .await
}

async fn newest(world: &World, session: &str) -> Option<memory_pb::Checkpoint> {
    let request = memory_pb::GetCheckpointRequest {
        session: session.to_owned(),
        at_or_before_seq: 0,
    };
    let mut journal = world.journal.0.clone();
    let found = journal.get_checkpoint(for_tenant(request)).await;
    found.expect("an answer").into_inner().checkpoint
}

/// A large state may be what the way to the store does not carry in time.
#[tokio::test(start_paused = true)]
async fn a_transition_that_is_sent_again_goes_without_its_checkpoint() {
    let world = world().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    let (mut found, mut turns) = (Vec::new(), 0);
    while turns < TURNS && found.last() != Some(&true) {
        // The first reply is so large that the next transition is to carry a checkpoint.
        if turns == 1 {
            world.faults.next("Commit", Fault::Refuse, 1);
        }
        let last = turns.checked_sub(1);
        let results = last.map(|last| attempt.result(last, 0, "found"));
        let text = "t".repeat(REPLY_BYTES);
        let next = reply(turns, &text, &[("pure", "{}")]);
        attempt.reply_with(results.into_iter().collect(), next);
        world.until(attempt.settled()).await;
        found.push(newest(&world, &session).await.is_some());
        turns += 1;
    }
    assert!(world.faults.are_used_up("Commit"));
    assert_eq!(found[..2], [false, false]);
    // A later one is kept.
    assert_eq!(found.last(), Some(&true), "{found:?}");
}

/// Without a checkpoint, the next owner would have to read each of the replies.
#[tokio::test(start_paused = true)]
async fn events_that_are_stored_apart_count_for_checkpoints() {
    let world = world().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    let (mut through, mut checkpoints) = (0, Vec::new());
    for turn in 0..TURNS {
        let last = turn.checked_sub(1);
        let results = last.map(|last| attempt.result(last, 0, "found"));
        let text = "t".repeat(REPLY_BYTES);
        let next = reply(turn, &text, &[("pure", "{}")]);
        attempt.reply_with(results.into_iter().collect(), next);
        attempt.settled().await;
        if let Some(checkpoint) = newest(&world, &session).await
            && checkpoint.through_seq > through
        {
            through = checkpoint.through_seq;
            checkpoints.push(checkpoint.state.len());
        }
    }
    let mut journal = Vec::new();
    for event in world.journal.events(&session).await {
        journal.extend(encode_event(&event, 1));
    }
    assert!(journal.len() > TURNS as usize * REPLY_BYTES);
    assert!(checkpoints.len() > 2, "{checkpoints:?}");
    let written: usize = checkpoints.iter().sum();
    assert!(
        written <= 2 * journal.len(),
        "{written} bytes: {checkpoints:?}"
    );

    let before = world.faults.calls("GetBlob");
    let request = pb::GetSessionRequest { session };
    let found = world.client.clone().get_session(request).await;
    found.expect("a session");
    let read = world.faults.calls("GetBlob") - before;
    assert!(read < TURNS as usize / 2, "{read} of {TURNS}");
}
