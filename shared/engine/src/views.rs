//! Views: what people and models are shown, as pure functions of the state or of the events.

pub mod memory;
pub mod todo;
