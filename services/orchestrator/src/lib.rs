//! The orchestrator: takes ownership of sessions, decides what follows, makes it durable, and has
//! the rest done by planner, executor and tools. Clients talk to it.
//!
//! | module | what |
//! |---|---|
//! | `grpc` | the public service: convert, call, convert |
//! | `admission` | whether new work is accepted |
//! | `commands` | what clients ask for: stored first, answered from the journal |
//! | `owners` | the sessions that this process owns: claimed, renewed, given back |
//! | `session` | the owner of one session: decide, make durable, perform |
//! | `reading` | what can be seen of a session, as views of its journal |
//! | `status` | what a session is doing, in one word |
//! | `store` | the memory service in the words of the engine |
//! | `observe` | metrics, and the span of each run |
//! | `catalogue` | the tools that may be called |

mod admission;
mod aside;
mod catalogue;
mod clock;
mod commands;
mod config;
mod deps;
mod fork;
mod grpc;
mod import;
mod key;
mod observe;
mod owners;
mod reading;
mod service;
mod session;
mod status;
mod store;

pub use config::{Config, TakesUp};
pub use grpc::Orchestrator;
pub use service::{Links, Running, build, build_reader};
