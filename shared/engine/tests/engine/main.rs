//! The engine from outside: what it decides, what it refuses, and what its views show.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod play;
mod world;

mod agent_state;
mod asking;
mod budget;
mod budgets;
mod budgets_time;
mod commands;
mod context;
mod control;
mod control_points;
mod cost;
mod cost_revisions;
mod doubt;
mod dump;
mod endings;
mod failure;
mod figures;
mod forks;
mod history;
mod illegal;
mod invariants;
mod keys;
mod leaving;
mod limits;
mod log;
mod memory;
mod plan_diff;
mod plans;
mod policies;
mod properties;
mod proposals;
mod report;
mod reviews;
mod revision_events;
mod revisions;
mod safe;
mod state_tools;
mod superseded;
mod tampering;
mod transitions;
mod tree;
mod usage;
mod wishes;
