//! How state is shown to models: session memory ([`memory`]), the to-do list ([`progress`]), and calls, results and
//! goals in one line ([`describe`]).
//!
//! The fold uses none of them: what a model was sent stands in events.

pub mod describe;
pub mod memory;
pub mod progress;
