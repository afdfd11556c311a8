//! The orchestrator: owns sessions, decides what follows, makes it durable, and has the rest done by
//! planner, executors and tools. Clients talk to it.
//!
//! A request goes down this list; no module uses one above it.
//!
//! | module | does |
//! |---|---|
//! | `service` | builds it all from settings and links |
//! | `grpc` | the public service: convert, call, present |
//! | `requests` | what clients ask for: admitted, stored, answered from the journal |
//! | `sessions` | the sessions that this process owns: claimed, renewed, given back |
//! | `owner` | the owner of one session: decide, make durable, perform |
//! | `agents` | the agents that commands name, as they are now |
//! | `deps` | what owners, claims and requests use alike |
//! | `dispatch` | which resources carry out a step, and the tools on offer |
//! | `workspace` | the files of the workspace that define agents and skills |
//! | `hooks` | the hooks of the settings and of clients, and what a recorded hook means now |
//! | `knowledge` | the pages of each namespace, and how they are found |
//! | `store` | the memory service in the words of the engine |
//! | `readers` | how many bytes streams hold for clients |
//! | `state_bytes` | how many bytes of state the owned sessions have |
//! | `observe` | metrics, and the span of each run |
//! | `config`, `key` | settings, and names of sessions |

mod agents;
mod config;
mod deps;
mod dispatch;
mod grpc;
mod hooks;
mod key;
mod knowledge;
mod observe;
mod owner;
mod readers;
mod requests;
mod service;
mod sessions;
mod state_bytes;
mod store;
mod workspace;

pub use cairn_knowledge::Scorer;
pub use config::{Config, KnowledgeConfig, Mode};
pub use grpc::Orchestrator;
pub use service::{Links, Public, Running, build, build_reader};
