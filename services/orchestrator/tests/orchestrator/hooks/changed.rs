//! Hooks that are missing or changed while a run asks them.

use super::{one_step, question};
use crate::support::{Client, HOOK, Kind, World, definition, with_hook};
use cairn_engine::failure::Failure;
use cairn_engine::hooks::Point;
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use std::time::Duration;

async fn pending(client: &Client, session: &str) -> Vec<pb::Pending> {
    let request = pb::ListPendingRequest {
        session: session.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let answer = client.clone().list_pending(request).await;
    answer.expect("a list").into_inner().pending
}

/// A run whose hook is another one for the next owner, once that one has found out.
async fn changed(change: impl FnOnce(&mut Config)) -> (World, String, Client, impl Sized) {
    let (config, mut questions) = with_hook(&[Point::OnRunStart]);
    let world = World::with_config(config.clone()).await;
    let session = world.start(one_step()).await;
    let asked = question(&world, &mut questions).await;
    world.until(world.running.drain()).await;
    drop(asked);
    let mut next = Config {
        owner: "o-2".to_owned(),
        ..config
    };
    change(&mut next);
    let (client, running) = world.successor(next).await;
    let is_changed = |kind: &Kind| matches!(kind, Kind::HooksChanged(_));
    world.seen(&session, is_changed).await;
    (world, session, client, (running, questions))
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_a_person_if_its_hook_is_missing() {
    let (world, session, client, _running) = changed(|config| config.hooks.clear()).await;
    let open = pending(&client, &session).await;
    let [open] = &open[..] else {
        panic!("{open:?}");
    };
    assert_eq!(open.reason(), wire::WaitReason::Hook);
    assert_eq!(
        (&open.missing_hooks[..], open.changed_hooks.len()),
        (&[HOOK.to_owned()][..], 0)
    );
    assert!(open.id.starts_with("hook-1"), "{}", open.id);
    assert!(world.other_attempts().await.is_empty());
}

/// With the present hooks, of which none is there for this run, the run continues.
#[tokio::test(start_paused = true)]
async fn a_person_lets_a_run_continue_with_the_hooks_that_there_are() {
    let (world, session, client, _running) = changed(|config| {
        let mut hook = definition(&[Point::OnRunEnd]);
        hook.policy.timeout = Duration::from_secs(1);
        config.hooks = vec![hook];
    })
    .await;
    let open = pending(&client, &session).await.remove(0);
    assert_eq!(open.changed_hooks, [HOOK]);
    let decide = pb::DecideRequest {
        session: session.clone(),
        pending_id: open.id,
        request_id: world.request_id(),
        settlement: Some(wire::Settlement {
            outcome: Some(wire::settlement::Outcome::Approve(
                wire::settlement::Approve {},
            )),
        }),
    };
    let mut client = client.clone();
    world
        .until(client.decide(decide))
        .await
        .expect("it is decided");
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
}

#[test]
fn hooks_without_anything_to_ask_them_with_are_no_settings() {
    let (config, _) = with_hook(&[Point::OnRunStart]);
    assert_eq!(config.check_hooks(), Ok(()));
    let without = Config {
        hook_executor: None,
        ..config.clone()
    };
    assert_eq!(
        without.check_hooks(),
        Err(Failure::missing("hook_executor"))
    );
    assert_eq!(Config::default().check_hooks(), Ok(()));
    let mut unknown = config.clone();
    unknown.hooks[0].name = "other".to_owned();
    let failure = unknown.check_hooks().expect_err("it is not registered");
    assert!(failure.message.contains("\"other\""), "{failure}");
    let mut wrong = config;
    wrong.hook_addresses.push("example.org".to_owned());
    let failure = wrong.check_hooks().expect_err("it is no pattern");
    assert!(failure.message.contains("\"example.org\""), "{failure}");
}
