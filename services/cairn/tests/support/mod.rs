//! What the system tests, proofs and benchmarks share.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_debug_implementations,
    clippy::expect_used,
    reason = "each test uses a part of it"
)]

pub mod commits;
pub mod fold;
pub mod grants;
pub mod mcp;
pub mod place;
pub mod pool;
pub mod screen;
pub mod served;
pub mod shown;
pub mod talk;
pub mod tokenizer;
pub mod watcher;

mod node;

pub use node::*;

/// The program under test.
pub const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
