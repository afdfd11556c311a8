//! For tests only: the `cairn` program in a folder of its own, killed and started again.
//!
//! | module | gives |
//! |---|---|
//! | [`site`] | [`Site`]: a folder with files, settings, a store; commands run in it |
//! | [`ledger`] | [`Ledger`]: what a tool with side effects did, written down outside of Cairn |
//! | [`cluster`] | [`Cluster`]: the five services as five processes |
//! | [`changes`] | [`Changes`]: what happens to the files of a folder |
//! | [`journal`] | [`Journal`]: an exported journal and what must hold of any |
//! | [`model_server`] | [`ModelServer`]: a language model that answers as the test says |
//! | [`redis_server`] | [`RedisServer`], [`RedisCluster`], [`RedisSentinel`]: real servers of Redis, killed and started again |
//! | [`stores`] | [`TestStore`]: a file, one server of Redis, a cluster, or a master with a sentinel: where a test's sessions are |
//! | [`free_port`] | a port for a server that restarts at the same address |
//! | [`eventually`] | waits for what other processes do |
//! | [`collector`] | [`Collector`]: where traces are sent to, and the spans that came |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

#[cfg(target_os = "linux")]
pub mod changes;
pub mod cluster;
pub mod collector;
mod eventually;
pub mod journal;
pub mod ledger;
pub mod model_server;
mod ports;
mod programs;
#[cfg(target_os = "linux")]
pub mod redis_server;
pub mod site;
#[cfg(target_os = "linux")]
pub mod stores;

#[cfg(target_os = "linux")]
pub use changes::{Change, Changes};
pub use cluster::Cluster;
pub use collector::{Collector, SpanEvent, TraceSpan};
pub use eventually::{PATIENCE, eventually, eventually_async};
pub use journal::Journal;
pub use ledger::Ledger;
pub use model_server::ModelServer;
pub use ports::free_port;
#[cfg(target_os = "linux")]
pub use redis_server::{RedisCluster, RedisSentinel, RedisServer};
pub use site::{Output, Site, TOKEN};
#[cfg(target_os = "linux")]
pub use stores::TestStore;
