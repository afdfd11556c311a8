//! The engine from outside: what it decides, what it refuses, and what its views show.
#![allow(clippy::unwrap_used, clippy::expect_used)]


mod world;

mod budget;
mod commands;
mod context;
mod cost;
mod doubt;
mod endings;
mod illegal;
mod keys;
mod plans;
mod play;
mod properties;
mod state_tools;
mod transitions;
