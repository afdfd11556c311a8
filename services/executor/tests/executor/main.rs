//! The executor over a local link. The test plays everybody around it: the owner of the session,
//! the model, and the tools service.
//!
//! The clock is paused: it moves on only when nothing else can, so that "nothing more happens" is
//! a timeout that costs no time.

#![allow(
    clippy::expect_used,
    reason = "clippy knows tests by their attribute, and not the helpers around them"
)]

mod bench;
mod code_generation;
mod compaction;
mod conversation;
mod deltas;
mod estimates;
mod held;
mod hooks;
mod long_results;
mod memory;
mod owner;
mod pool;
mod refusals;
mod results;
mod resume;
mod stopping;
mod summary;
mod switching;
mod tool_step;
mod turns;
