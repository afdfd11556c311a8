//! What an orchestrator keeps of sessions that it has read or owned.

use crate::support::{World, chain, model_step};
use cairn_orchestrator::Config;
use cairn_proto::orchestrator as pb;

/// Runs a session to its end, looks at it, and changes its title: each change is a command, for which
/// the session is claimed. Returns how often a checkpoint was asked for after the run.
async fn checkpoints_read(cache_bytes: usize) -> usize {
    let mut world = World::with_config(Config {
        cache_bytes,
        ..Config::default()
    })
    .await;
    let mut step = model_step("one");
    // A small state is not kept.
    step.description = "x".repeat(8 * 1024);
    let session = world.start(chain(vec![step])).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    world.settle().await;
    let before = world.faults.calls("GetCheckpoint");
    for title in ["Books", "Ledgers"] {
        let request = pb::RenameSessionRequest {
            session: session.clone(),
            request_id: world.request_id(),
            title: title.to_owned(),
        };
        world.client.rename_session(request).await.expect("renamed");
        world.settle().await;
        let request = pb::GetSessionRequest {
            session: session.clone(),
        };
        let seen = world.client.get_session(request).await.expect("a session");
        let seen = seen.into_inner().session.expect("a session");
        assert_eq!(seen.title, title);
        assert_eq!(
            seen.last_seq,
            world.journal.events(&session).await.len() as u64
        );
    }
    world.faults.calls("GetCheckpoint") - before
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_read_or_owned_here_is_not_read_anew() {
    assert_eq!(checkpoints_read(1024 * 1024).await, 0);
    assert_eq!(checkpoints_read(0).await, 4, "two claims, and two looks");
}
