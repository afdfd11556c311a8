//! Two `cairn serve` over one Redis have one conversation: its turns are submitted to both, in turn. Each
//! request of the model has all turns before it, and both replicas list the same messages.
//!
//! # Figures
//!
//! `deploy/prove replicas`, November 2026, a debug build on a quiet virtual machine with 2 cores: 500
//! turns, one history at both; a turn took p50 37 ms and p99 80 ms.

use crate::support::{connect, link, place, served, talk};
use cairn_proto::event::Role;
use cairn_testkit::TestStore;
use clap::Args;
use place::Place;
use served::SESSION;
use std::time::Duration;
use tokio::runtime::Builder;

/// How long the conversation is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Turns of the conversation
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u16).range(2..=5000))]
    pub(crate) turns: u16,
}

/// It needs a server of Redis.
mod redis {
    use super::{Options, prove};

    #[test]
    fn two_replicas_have_one_conversation() {
        prove(&Options { turns: 40 });
    }
}

/// Has the conversation, and panics if the replicas do not agree about it.
pub(crate) fn prove(options: &Options) {
    let turns = usize::from(options.turns);
    let (model, sent) = talk::model();
    let place = Place::over(TestStore::redis());
    served::add_model(&place.site, &model);
    place.site.append("cairn.toml", talk::WINDOW);
    let servers = [0, 1].map(|_| place.serve(&[]));
    let addresses = servers.each_ref().map(|(_, address)| address.clone());
    let runtime = Builder::new_current_thread().enable_all().build();
    let times = runtime.expect("a runtime").block_on(async {
        let times = converse(&addresses, turns).await;
        for address in &addresses {
            check(address, turns).await;
        }
        times
    });
    let sent = sent.lock().expect("no panic");
    assert!(sent.findings.is_empty(), "{}", sent.findings.join("\n"));
    assert_eq!(sent.bytes.len(), turns, "one request for each turn");
    print(times);
}

async fn converse(addresses: &[String; 2], turns: usize) -> Vec<Duration> {
    let mut clients = addresses.each_ref().map(|address| connect(address));
    talk::create(&mut clients[0], SESSION).await;
    let mut times = Vec::new();
    for turn in 0..turns {
        let ended = talk::talk(&mut clients[turn % 2], SESSION, turn).await;
        let ended = ended.unwrap_or_else(|status| panic!("turn {turn}: {status:?}"));
        assert_eq!(ended.response, talk::reply(turn));
        assert_eq!(ended.turn_index as usize, turn);
        times.push(ended.whole);
    }
    times
}

/// Panics unless a replica lists two messages of each turn, in order.
async fn check(address: &str, turns: usize) {
    let listed = talk::messages(&link(address), SESSION).await;
    let expected = (0..turns).flat_map(|turn| {
        [
            (Role::User, talk::question(turn)),
            (Role::Assistant, talk::reply(turn)),
        ]
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(listed.len(), expected.len(), "{address}");
    for (number, (listed, expected)) in listed.iter().zip(&expected).enumerate() {
        assert_eq!(listed, expected, "{address}: message {number}");
    }
}

fn print(mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "{} turns, in turn at two replicas: one history at both; a turn took p50 {:.1} ms, p99 {:.1} ms",
        times.len(),
        at(50),
        at(99)
    );
}
