//! The planner: its parsers alone, and the service over a local link.

#![allow(
    clippy::expect_used,
    reason = "clippy knows tests by their attribute, and not the helpers around them"
)]

mod parser;
mod program;
mod properties;
mod repair;
mod service;
