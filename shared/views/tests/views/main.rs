//! The views from outside: what they show of the engine's sessions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

/// The sessions that the engine's own tests play.
#[allow(dead_code, unused_imports, reason = "the engine's tests use the rest")]
#[path = "../../../engine/tests/engine"]
mod engine {
    pub(crate) mod play;
    pub(crate) mod world;
}

use engine::{play, world};

mod agent_state;
mod compactions;
mod cost;
mod decisions;
mod dump;
mod figures;
mod file_results;
mod history;
mod hooked;
mod plan_diff;
mod properties;
mod report;
mod revisions;
mod safe;
mod title;
mod tree;
