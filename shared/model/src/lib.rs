//! Language models: one trait, its providers, retries, prompts.

pub mod chat;
pub mod error;

pub use chat::*;
pub use error::ModelError;
