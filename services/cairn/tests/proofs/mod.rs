//! Proofs: programs that drive real processes for as long as one likes, by `deploy/prove NAME`.
//!
//! Each proof is a module with `Options` (its command line) and `prove`, which panics with its
//! findings. The `#[test]` functions beside it are the short forms that the suite runs.

#![allow(dead_code, reason = "the suite runs short forms only")]

pub(crate) mod crash;

/// The proofs by name.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Proof {
    /// Kills and suspends the services and Redis at any moment, while clients start runs, watch
    /// them, change plans and approve calls. Nothing that was acknowledged may be lost, and nothing
    /// may happen twice without a decision
    Crash(crash::Options),
    /// Suspends orchestrators with 120 sessions each past their leases, until the store has refused
    /// this many of their writes
    Stale(crash::redis_stale::Options),
}

impl Proof {
    /// Runs the proof.
    pub(crate) fn run(&self) {
        match self {
            Self::Crash(options) => crash::prove(options),
            Self::Stale(options) => crash::redis_stale::prove(options),
        }
    }
}
