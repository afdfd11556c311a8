//! The `cairn` binary as a library: all services in one process, and the command line.

pub mod node;
