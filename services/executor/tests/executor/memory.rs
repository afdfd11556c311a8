//! Attempts with long conversations take the executor's memory in turn.

use crate::bench::{Bench, within};
use crate::owner::{Owner, model_step};
use cairn_executor::Config;
use cairn_rpc::{ErrorKind, RpcError};
use futures::poll;
use std::pin::pin;

const MIB: usize = 1024 * 1024;

/// An executor with memory for two attempts whose starts have 1 MiB.
async fn bench() -> Bench {
    let config = Config {
        bytes: 8 * MIB,
        ..Config::default()
    };
    Bench::with(config).await
}

#[tokio::test(start_paused = true)]
async fn a_long_conversation_waits_for_memory_and_a_short_one_does_not() {
    let mut bench = bench().await;
    let client = bench.client.clone();
    let open = || Owner::open_large(&client, model_step(), MIB);
    let first = open().await.expect("memory");
    let first_asked = bench.asked().await;
    let _second = open().await.expect("memory");
    let _second_asked = bench.asked().await;
    let mut third = pin!(open());
    assert!(poll!(&mut third).is_pending());
    let _short = bench.start(model_step()).await;
    let _short_asked = bench.asked().await;
    assert!(poll!(&mut third).is_pending());
    first.end(0).await;
    first_asked.dropped().await;
    let _third = within(third).await.expect("memory");
    bench.asked().await.reply("Hm.", &[]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_never_fits_is_refused_in_words() {
    let bench = bench().await;
    let refused = Owner::open_large(&bench.client, model_step(), 3 * MIB).await;
    let error = RpcError::from_status(&refused.err().expect("a refusal"));
    let found = (error.kind(), error.reason_name());
    assert_eq!(found, (ErrorKind::OutOfRange, "NO_MEMORY"));
    for part in ["12 MiB", "executor.bytes is 8 MiB", "window"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_waits_for_memory_goes_elsewhere_when_the_executor_stops() {
    let mut bench = bench().await;
    let client = bench.client.clone();
    let open = || Owner::open_large(&client, model_step(), 2 * MIB);
    let first = open().await.expect("memory");
    let asked = bench.asked().await;
    let mut second = pin!(open());
    assert!(poll!(&mut second).is_pending());
    let mut drained = pin!(bench.running.drain());
    assert!(poll!(&mut drained).is_pending());
    let refused = within(second).await.err().expect("a refusal");
    assert_eq!(
        RpcError::from_status(&refused).reason_name(),
        "NO_FREE_SLOT"
    );
    drop(first);
    asked.dropped().await;
    within(drained).await;
}
