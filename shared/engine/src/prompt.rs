//! How state is shown to models: session memory ([`memory`]) and the to-do list ([`progress`]).
//!
//! The fold uses neither: what a model was sent stands in events.

pub mod memory;
pub mod progress;
