//! Tests that start few processes or none. They run in parallel with everything else.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

#[path = "../support/mod.rs"]
mod support;

mod agent_files;
mod agents;
mod approvals;
mod bad_flags;
mod bad_input;
mod bad_settings;
mod changes;
mod connections;
mod grants;
mod hooks;
mod keyless;
mod knowledge;
#[cfg(debug_assertions)]
mod levels;
mod missing;
mod own_session;
mod places;
mod plan_faults;
mod pool;
mod prices;
mod prompts;
mod proxies;
mod recount;
mod reflection;
mod repository;
mod results;
mod serve;
mod servers;
mod tokens;
mod trust;
