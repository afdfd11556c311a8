//! How state is shown to models: session memory ([`memory`]), the to-do list ([`progress`]) and the history of
//! messages that are gone ([`history`]), whose lines [`describe`] calls, results and goals.
//!
//! The fold uses none of them: what a model was sent stands in events.

pub mod describe;
pub mod history;
pub mod memory;
pub mod progress;
