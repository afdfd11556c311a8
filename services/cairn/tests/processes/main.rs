//! Tests that start processes and measure or kill them. At most three of these and of `waiting` run at a
//! time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the rolling restart has the clients of the crash loop, and a world of its own"
)]

#[path = "../proofs/mod.rs"]
mod proofs;
#[path = "../support/mod.rs"]
mod support;

mod bad_store;
mod canaries;
mod chat;
mod compaction;
mod deltas;
mod elsewhere;
mod five;
mod kill;
mod overlap;
mod overload;
mod pool;
mod results;
mod savings;
mod shared_store;
mod takeover;
mod telemetry;
mod traces;
mod watch_memory;
