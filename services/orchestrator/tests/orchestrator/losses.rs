//! A store that has lost what its owners know of.

use crate::support::{Fault, World, chain, for_tenant, model_step, reply};
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;

/// Somebody has accepted the loss before an owner comes to say that there is one.
#[tokio::test(start_paused = true)]
async fn an_owner_that_comes_late_does_not_quarantined_what_was_accepted() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    world.faults.next("Commit", Fault::GoBack, 1);
    let mut late = world.faults.hold("Quarantine");
    attempt.reply(reply(0, "hm", &[]));
    late.reached().await;
    let mut ownership = world.ownership.clone();
    let aside = memory_pb::QuarantineRequest {
        session: session.clone(),
        accepted_losses: Some(0),
    };
    let done = ownership.quarantine(for_tenant(aside)).await.unwrap();
    assert!(!done.into_inner().is_accepted);
    let release = memory_pb::ReleaseQuarantineRequest {
        session: session.clone(),
        accept_loss: true,
    };
    let released = ownership.release_quarantine(for_tenant(release)).await;
    released.unwrap();
    late.release();
    // Whoever has it now brings it to its end.
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.until(attempt.settled()).await;
    world.ended(&session).await;
    let listed = &world.listed(0).await[0];
    let unspecified = pb::QuarantineReason::Unspecified;
    assert_eq!(listed.quarantine_reason(), unspecified);
}

/// Nothing is left of a session, not even of its creation: no transition of it was acknowledged.
#[tokio::test(start_paused = true)]
async fn an_owner_says_that_a_creation_is_lost() {
    let world = World::new().await;
    world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    assert_eq!(world.faults.calls("Commit"), 0);
    world.faults.always("Commit", Some(Fault::Forget));
    world.faults.always("ReadEvents", Some(Fault::Forget));
    let mut said = world.faults.hold("Quarantine");
    attempt.reply(reply(0, "hm", &[]));
    world.until(said.reached()).await;
    said.release();
}
