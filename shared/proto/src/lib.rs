//! The contracts as Rust: generated from `proto/` at build time, with conversions at the edge.
//!
//! The `.proto` files are the reference; what they say is not repeated here.

pub mod codec;
pub mod convert;
pub mod json;
pub mod time;
mod tool_result;

pub use tool_result::{no_result, tool_result};

/// Generated code, one module a package.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    missing_debug_implementations,
    clippy::pedantic,
    clippy::too_many_lines,
    clippy::large_futures,
    clippy::large_enum_variant
)]
mod generated {
    pub mod api {
        pub mod v1 {
            tonic::include_proto!("cairn.api.v1");
        }
    }
    pub mod event {
        pub mod v1 {
            tonic::include_proto!("cairn.event.v1");
        }
    }
    pub mod executor {
        pub mod v1 {
            tonic::include_proto!("cairn.executor.v1");
        }
    }
    pub mod hook {
        pub mod v1 {
            tonic::include_proto!("cairn.hook.v1");
        }
    }
    pub mod memory {
        pub mod v1 {
            tonic::include_proto!("cairn.memory.v1");
        }
    }
    pub mod orchestrator {
        pub mod v1 {
            tonic::include_proto!("cairn.orchestrator.v1");
        }
    }
    pub mod planner {
        pub mod v1 {
            tonic::include_proto!("cairn.planner.v1");
        }
    }
    pub mod tools {
        pub mod v1 {
            tonic::include_proto!("cairn.tools.v1");
        }
    }
}

/// `cairn.api.v1`: agents, hooks, knowledge and the pool.
pub use generated::api::v1 as api;
/// `cairn.event.v1`: what is stored and watched.
pub use generated::event::v1 as event;
/// `cairn.executor.v1`: one attempt at one step.
pub use generated::executor::v1 as executor;
/// `cairn.hook.v1`: the questions that hooks answer as services.
pub use generated::hook::v1 as hook;
/// `cairn.memory.v1`: journals, ownership, session memory, documents.
pub use generated::memory::v1 as memory;
/// `cairn.orchestrator.v1`: the public face.
pub use generated::orchestrator::v1 as orchestrator;
/// `cairn.planner.v1`: from a goal to a plan.
pub use generated::planner::v1 as planner;
/// `cairn.tools.v1`: the catalogue and the calls.
pub use generated::tools::v1 as tools;

/// Metadata of the answer to RunStep; see ExecutorService.WatchStatus.
pub const SLOTS_VERSION: &str = "cairn-slots-version";

/// Metadata of a call of RunStep: the bytes of its start, if that has [`LARGE_START`] or more. The start is
/// sent once the call is answered.
pub const START_BYTES: &str = "cairn-start-bytes";

/// Metadata of a call of InvokeTool: the tool turn of the call and its position in it, such as `3.1`. For traces
/// alone.
pub const CALL_PLACE: &str = "cairn-call-place";

/// An executor has room for a smaller start at any time.
pub const LARGE_START: usize = 64 * 1024;

/// All contracts as an encoded `FileDescriptorSet`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
