//! The planner: its parser alone, and the service over a local link.

mod parser;
mod properties;
mod service;
