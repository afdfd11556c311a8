//! `deploy/prove NAME`: the long form of a proof. The suite runs short forms of most.

#![allow(
    dead_code,
    unused_imports,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a proof that cannot set up its world is over; tests of its parts are not built here"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the rolling restart has the clients of the crash loop, and a world of its own"
)]

mod all;
#[path = "../../tests/proofs/mod.rs"]
mod proofs;
#[path = "../../tests/support/mod.rs"]
mod support;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Proves one promise of Cairn with real processes, for as long as you like.
///
/// Exit code 0: the promise held. Ctrl-C ends the proof and all of its processes.
#[derive(Debug, Parser)]
#[command(name = "deploy/prove", bin_name = "deploy/prove", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    selection: Selection,
}

#[derive(Debug, Subcommand)]
enum Selection {
    #[command(flatten)]
    Proof(proofs::Proof),
    /// Runs every proof in turn, no run for more than 4 minutes, and prints a table of sizes and results
    All,
}

fn main() -> ExitCode {
    match Arguments::parse().selection {
        Selection::All => all::run(),
        Selection::Proof(proof) => {
            proof.run();
            ExitCode::SUCCESS
        }
    }
}
