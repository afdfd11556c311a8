//! The executor: carries out one attempt at one step, and keeps nothing.
//!
//! The owner of a session opens a stream for each attempt, sends what is to be done and what was
//! done before, and makes durable what the executor reports. The executor asks the model, has the
//! tools called, and continues only when what it did is acknowledged. It never sees a storage, so
//! that there is one writer for each session.
//!
//! | module | does |
//! |---|---|
//! | `grpc` | the service: one task for each stream |
//! | `slots` | how many attempts run, and what owners see of that |
//! | `shortages` | which capabilities the pool lacks |
//! | `memory` | the memory that conversations take |
//! | `attempt` | one attempt, from its start to its end |
//! | `model_step` | the loop: ask, report, call, wait |
//! | `summary` | a summary in place of a step |
//! | `asker` | one question to the model |
//! | `estimate` | how many tokens a request has |
//! | `owner` | reports and acknowledgements, and which of them to wait for |
//! | `queue` | messages to the owner that wait, within their room |
//! | `turn` | the calls of one reply, until each has its answer |
//! | `targets` | where a call goes |
//! | `tools` | one call of the tools service |
//! | `code_generation` | a call that the attempt's model answers |
//! | `replica` | what the model is sent |
//! | `catalogue` | the tools on offer, by name |
//! | `spans` | what is traced and timed |
//! | `deltas` | the text of a reply while it comes |

mod asker;
mod attempt;
mod catalogue;
mod code_generation;
mod config;
mod deltas;
mod error;
mod estimate;
mod grpc;
mod memory;
mod model_step;
mod owner;
mod queue;
mod replica;
mod shortages;
mod slots;
mod spans;
mod summary;
mod targets;
mod tools;
mod turn;

pub use config::Config;
pub use grpc::{Executor, Reports, Running};

use attempt::Shared;
use cairn_model::ModelRegistry;
use cairn_proto::executor::executor_service_server::ExecutorServiceServer;
use cairn_rpc::Link;
use catalogue::Catalogues;
use std::sync::Arc;

/// The largest start of an attempt: it holds the whole conversation so far.
const MAX_START_BYTES: usize = 64 * 1024 * 1024;

/// What the executor needs of others.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The models that steps may ask for. With none, steps for a model fail with `missing provider`, and tool steps work.
    pub models: Arc<ModelRegistry>,
    /// An internal link to the tools service. Where there is none, calls end with `missing tool_registry`.
    pub tools: Link,
}

/// Builds the service for an internal listener; attempts are spawned on the runtime that calls it.
pub fn build(config: Config, deps: Deps) -> (ExecutorServiceServer<Executor>, Running) {
    let (executor, running) = Executor::new(Shared {
        config,
        models: deps.models,
        tools: deps.tools,
        catalogues: Catalogues::default(),
    });
    let service = ExecutorServiceServer::new(executor).max_decoding_message_size(MAX_START_BYTES);
    (service, running)
}
