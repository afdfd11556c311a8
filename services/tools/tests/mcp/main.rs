//! Servers of the Model Context Protocol, as programs and over HTTP: this test binary is the server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute, and not the helpers around them; figures are printed"
)]

mod allowance;
mod calls;
mod confirmations;
mod documents;
mod fixture;
mod frames;
mod hostile;
mod http;
mod lifecycle;
mod memory;
mod packages;
mod pins;
mod server;
