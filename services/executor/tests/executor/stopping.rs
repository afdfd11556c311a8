//! How an attempt ends before its time.

use crate::bench::Bench;
use crate::owner::{Owner, model_step};
use cairn_executor::Config;
use cairn_proto::executor::{ExecutorState, WatchStatusRequest};
use cairn_rpc::{ErrorKind, RpcError};
use futures::poll;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn without_its_owner_the_model_is_given_up() {
    let mut bench = Bench::new().await;
    let owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    drop(owner);
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn without_its_owner_calls_are_given_up() {
    let mut bench = Bench::new().await;
    let owner = bench.start(model_step()).await;
    bench
        .asked()
        .await
        .reply("", &[("look", "{}"), ("look", "{}")]);
    let called = bench.called().await;
    assert!(!called.is_dropped());
    drop(owner);
    called.dropped().await;
    bench.called().await.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn one_half_of_the_stream_is_enough_to_stop() {
    let mut bench = Bench::new().await;
    let Owner {
        to_executor,
        mut reports,
    } = bench.start(model_step()).await;
    let asked = bench.asked().await;
    drop(to_executor);
    asked.dropped().await;
    assert_eq!(reports.message().await.expect("no error"), None);

    let Owner {
        to_executor,
        reports,
    } = bench.start(model_step()).await;
    let asked = bench.asked().await;
    drop(reports);
    asked.dropped().await;
    assert!(to_executor.is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_end_gives_up_whatever_is_under_way() {
    let mut bench = Bench::new().await;
    let owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    owner.end(0).await;
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_its_stream_alone() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    // A question that is dropped makes the model panic.
    drop(bench.asked().await);
    assert_eq!(owner.error().await.kind(), ErrorKind::Internal);
    let owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    owner.end(0).await;
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_free_slot_an_attempt_is_refused() {
    let config = Config {
        max_attempts: 2,
        ..Config::default()
    };
    let mut bench = Bench::with(config).await;
    let first = bench.start(model_step()).await;
    let second = bench.start(model_step()).await;
    let (asked, also_asked) = (bench.asked().await, bench.asked().await);
    let refused = Owner::open(&bench.client, model_step())
        .await
        .err()
        .expect("no slot");
    let error = RpcError::from_status(&refused);
    assert_eq!(
        (error.kind(), error.reason_name()),
        (ErrorKind::ResourceExhausted, "NO_FREE_SLOT")
    );
    // An end frees the slot, and so does a broken stream.
    first.end(0).await;
    asked.dropped().await;
    let third = bench.start(model_step()).await;
    let asked = bench.asked().await;
    drop(second);
    also_asked.dropped().await;
    bench.start(model_step()).await;
    drop(third);
    asked.dropped().await;
}

/// Owners know how many slots are free: at once and after each change, the latest only, until the
/// process stops.
#[tokio::test(start_paused = true)]
async fn the_status_tells_of_free_slots_until_it_drains() {
    let config = Config {
        max_attempts: 2,
        ..Config::default()
    };
    let mut bench = Bench::with(config).await;
    let mut reports = bench.client.watch_status(WatchStatusRequest {}).await;
    let reports = reports.as_mut().expect("a stream").get_mut();
    let mut next = async || {
        let report = reports.message().await.expect("no error");
        report.map(|it| (it.slots, it.free_slots, it.state()))
    };
    let accepting = |free| Some((2, free, ExecutorState::Accepting));
    assert_eq!(next().await, accepting(2));
    let first = bench.start(model_step()).await;
    let (began, second) = (Instant::now(), bench.start(model_step()).await);
    let (asked, also_asked) = (bench.asked().await, bench.asked().await);
    assert_eq!(next().await, accepting(0), "the latest only");
    drop(first);
    asked.dropped().await;
    assert_eq!(next().await, accepting(1));
    assert!(
        began.elapsed() >= Duration::from_millis(20),
        "not too often"
    );
    let drained = bench.running.drain();
    let mut drained = pin!(drained);
    assert!(poll!(&mut drained).is_pending());
    assert_eq!(next().await, Some((2, 0, ExecutorState::Draining)));
    assert_eq!(next().await, None, "a stopping process ends the stream");
    drop(second);
    also_asked.dropped().await;
    drained.await;
}
