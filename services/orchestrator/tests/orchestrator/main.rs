//! The orchestrator over the real memory service, with a store that lives in memory. The test
//! plays the executors and the planner, and lays faults upon the way to the store.
//!
//! Time stands still until a test lets it pass, for the orchestrator and for the store alike.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, and not the helpers around them"
)]

mod admission;
mod agent_files;
mod agent_runs;
mod agent_tools;
mod agents;
mod agreement;
mod answers;
mod budgets;
mod checkpoints;
mod claims;
mod commands;
mod compaction;
mod contexts;
mod creation;
mod damage;
mod drain;
mod entries;
mod executors;
mod forks;
mod gone;
mod hook_service;
mod hooks;
mod imports;
mod interrupts;
mod kept;
mod knowledge;
mod knowledge_tools;
mod leases;
#[cfg(debug_assertions)]
mod levels;
mod limits;
mod losses;
mod memory;
mod needs;
mod newer;
mod pending;
mod planning;
mod pool;
mod pool_service;
mod prompts;
mod refusals;
mod renames;
mod requested;
mod results;
mod revisions;
mod runs;
mod slow_answers;
mod stopping;
mod store_faults;
mod support;
mod tree;
mod turns;
mod views;
mod watching;
mod writes;
