//! The planner: its parser alone, and the service over a local link.

#![allow(
    clippy::expect_used,
    reason = "clippy knows tests by their attribute, and not the helpers around them"
)]

mod parser;
mod properties;
mod repair;
mod service;
