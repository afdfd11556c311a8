//! Tests that start processes and measure or kill them. One of them runs at a time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

#[path = "../proofs/mod.rs"]
mod proofs;
#[path = "../support/mod.rs"]
mod support;

mod bad_store;
mod canaries;
mod commands;
mod crashed;
mod deltas;
mod elsewhere;
mod five;
mod interrupted;
mod kill;
mod kill_asking;
mod kill_revise;
mod overlap;
mod overload;
mod programs;
mod recount;
mod retention;
mod rolling;
mod savings;
mod shared_store;
mod takeover;
mod telemetry;
mod traces;
mod watch_memory;
