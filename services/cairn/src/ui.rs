//! What people see.
//!
//! Everything that a model, a tool or a file said is escaped before it is shown.

pub mod approvals;
pub mod compaction;
pub mod describe;
pub mod diff;
pub mod event_json;
pub mod event_line;
pub mod file;
pub mod flow;
pub mod hooks;
pub mod live;
pub mod modes;
pub mod out;
pub mod plan_diff;
pub mod plan_document;
pub mod plans;
pub mod pool;
pub mod progress;
pub mod questions;
pub mod revisions;
pub mod scopes;
pub mod screen;
pub mod style;
pub mod table;
#[cfg(test)]
mod testing;
pub mod text;
pub mod time;
pub mod tools;
pub mod tree;
pub mod writing;
