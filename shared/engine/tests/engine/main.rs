//! The engine from outside: what it decides, and what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod play;
mod world;

mod asking;
mod atomic;
mod budget;
mod budgets;
mod budgets_time;
mod changes;
mod checkpoints;
mod commands;
mod context;
mod control;
mod control_points;
mod conversation;
mod cost;
mod cost_revisions;
mod doubt;
mod endings;
mod escape;
mod failure;
mod forks;
mod illegal;
mod invariants;
mod keys;
mod leaving;
mod limits;
mod memory;
mod offered;
mod order;
mod plans;
mod policies;
mod progress;
mod properties;
mod proposals;
mod reviews;
mod revision_events;
mod revisions;
mod skips;
mod state_tools;
mod sub_goals;
mod superseded;
mod tampering;
mod transitions;
mod usage;
