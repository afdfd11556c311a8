//! When results are reported.

use crate::bench::Bench;
use crate::owner::{Owner, call_ref, model_step, outputs, permit};
use cairn_proto::event::Effect;
use std::time::Duration;
use tokio::time::{Instant, advance};

/// A bench whose model has asked for these calls, in a reply that is reported but not yet
/// acknowledged.
async fn after_reply(calls: &[(&str, &str)]) -> (Bench, Owner) {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.reply("", calls);
    assert_eq!(owner.report().await.number, 1);
    (bench, owner)
}

#[tokio::test(start_paused = true)]
async fn a_result_travels_with_a_reply_that_comes_soon() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    bench.called().await.output("seen");
    let asked = bench.asked().await;
    advance(Duration::from_millis(19)).await;
    asked.reply("Hm.", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "seen")]));
    assert!(report.reply.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_result_is_held_for_20_ms_at_most() {
    let (mut bench, mut owner) = after_reply(&[("look", "1"), ("look", "2")]).await;
    owner.ack(1);
    bench.called().await.output("first");
    let second = bench.called().await;
    let since = Instant::now();
    tokio::task::yield_now().await;
    advance(Duration::from_millis(15)).await;
    second.output("second");
    // The model thinks for long. The oldest of the held results counts.
    let asked = bench.asked().await;
    let report = owner.report().await;
    assert_eq!(
        (report.number, outputs(&report)),
        (2, vec![(0, "first"), (1, "second")])
    );
    assert!(report.reply.is_none());
    let held = since.elapsed();
    assert!(
        held >= Duration::from_millis(20) && held < Duration::from_millis(23),
        "{held:?}"
    );
    // What was reported is not reported again, nor is it waited for.
    asked.reply("", &[("look", "{}")]);
    let report = owner.report().await;
    assert_eq!((report.number, report.results.len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_result_does_not_wait_for_a_slower_call_beside_it() {
    let (mut bench, mut owner) = after_reply(&[("look", "1"), ("look", "2")]).await;
    owner.ack(1);
    bench.called().await.output("first");
    let _second = bench.called().await;
    let report = owner.report().await;
    assert_eq!(outputs(&report), [(0, "first")]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_result_is_reported_at_once_and_waited_for() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    let called = bench.called().await;
    advance(Duration::from_millis(25)).await;
    called.output("seen");
    let since = Instant::now();
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "seen")]));
    assert_eq!(report.results[0].duration_ms, 25);
    assert_eq!(since.elapsed(), Duration::ZERO);
    bench.is_quiet().await;
    owner.ack(2);
    bench.asked().await;
}

#[tokio::test(start_paused = true)]
async fn an_effectful_result_is_reported_at_once_and_waited_for() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}"), ("send", "{}")]).await;
    let send = permit(call_ref(0, 1), "send", "{}", Effect::Effectful);
    owner.ack_with(1, vec![send], Vec::new());
    bench.called().await.output("seen");
    let since = Instant::now();
    tokio::task::yield_now().await;
    bench.called().await.output("sent");
    // It takes along what is held.
    let report = owner.report().await;
    assert_eq!(report.number, 2);
    assert_eq!(outputs(&report), [(0, "seen"), (1, "sent")]);
    assert_eq!(since.elapsed(), Duration::ZERO);
    bench.is_quiet().await;
    owner.ack(2);
    bench.asked().await;
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_result_travels_with_the_next_reply() {
    let (mut bench, mut owner) = after_reply(&[("put", "{}")]).await;
    let put = permit(call_ref(0, 0), "put", "{}", Effect::Idempotent);
    owner.ack_with(1, vec![put], Vec::new());
    bench.called().await.output("written");
    bench.asked().await.reply("Hm.", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "written")]));
    assert!(report.reply.is_some());
}

#[tokio::test(start_paused = true)]
async fn much_is_not_held() {
    let (mut bench, mut owner) = after_reply(&[("look", "1"), ("look", "2"), ("look", "3")]).await;
    let large = "x".repeat(600 * 1024);
    for _ in 0..3 {
        bench.called().await.output(&large);
        tokio::task::yield_now().await;
    }
    let since = Instant::now();
    assert_eq!(owner.report().await.results.len(), 2);
    assert_eq!(since.elapsed(), Duration::ZERO);
    assert_eq!(owner.report().await.results.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn results_beside_a_lost_call_are_reported() {
    let calls = [("send", "1"), ("send", "2"), ("look", "3")];
    let (mut bench, mut owner) = after_reply(&calls).await;
    let look = bench.called().await;
    let permits = [0, 1].map(|at| permit(call_ref(0, at), "send", "{}", Effect::Effectful));
    owner.ack_with(1, permits.to_vec(), Vec::new());
    let (lost, other) = (bench.called().await, bench.called().await);
    lost.answer(Err(tonic::Status::unavailable("gone")));
    owner.hears_nothing().await;
    other.output("sent");
    assert_eq!(outputs(&owner.report().await), [(1, "sent")]);
    look.output("seen");
    owner.ack(2);
    assert_eq!(outputs(&owner.report().await), [(2, "seen")]);
    owner.ack(3);
    assert_eq!(owner.error().await.reason_name(), "CALL_LOST");
}
