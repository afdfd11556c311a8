//! The `cairn` binary as a library: all services in one process, and the command line.
//!
//! | module | what |
//! |---|---|
//! | [`node`] | the five services, joined without a socket |
//! | [`settings`] | what can be configured, and the parts of a node made from it |
//! | [`attach`] | how a command reaches the services: the process that holds the store, or itself |
//! | [`client`] | the public services as commands use them; watching across restarts |
//! | [`cli`] | the command line |
//! | [`commands`] | one file a command |
//! | [`context`] | what every command has at hand |
//! | [`error`] | what a command says when it fails; exit codes |
//! | [`serving`] | a node on its listeners, until its store is closed |
//! | [`runtime`] | the threads of the process |
//! | [`tokens`] | the bearer tokens of listeners: made, and found by the port |
//! | [`ui`] | what people see |
//! | [`workspace`] | which folder the work of a store belongs to |

pub mod attach;
pub mod cli;
pub mod client;
pub mod commands;
pub mod context;
pub mod error;
#[cfg(debug_assertions)]
mod fail;
pub mod node;
pub mod runtime;
pub mod serving;
pub mod settings;
pub mod tokens;
pub mod ui;
pub mod workspace;

pub use error::CliError;
