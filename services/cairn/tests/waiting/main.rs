//! Tests of processes that mostly wait: for leases to end, for calls that are held, for a person.
//! At most three of these and of `processes` run at a time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

#[path = "../support/mod.rs"]
mod support;

mod asking;
mod commands;
mod compaction;
mod crashed;
mod decide;
mod feedback;
mod fork;
mod in_line;
mod interrupted;
mod kill_asking;
mod kill_goal;
mod kill_revise;
mod kill_serve;
mod kill_turn;
mod live_tree;
mod mcp;
mod points;
mod programs;
mod prompt_cache;
mod retention;
mod revisions;
mod scopes;
mod stop;
mod thinking;
mod turns;
mod views;
mod watch;
mod who;
