//! The tools service: knows the tools, checks every call, and is the last gate before a side effect.
//!
//! A call goes through lookup, permission, schema and gate to the tool's code, and always comes
//! back as one result: what goes wrong on the way is told to the model, not to the transport.
//!
//! | module | gives |
//! |---|---|
//! | [`tool`] | [`Tool`]: what a tool is; [`ToolSpec`], [`Effect`], [`Call`], [`Slot`], [`Output`] |
//! | `allowances` | [`Allowances`]: what a person allowed, and where that is kept |
//! | [`source`] | [`ToolSource`]: where tools come from, and what it lists now |
//! | [`registry`] | [`ToolRegistry`]: the tools of all sources by name, as they are now |
//! | [`permission`] | [`Permissions`]: the allow-list and the rules |
//! | [`gate`] | [`Gate`]: nothing begins after `not_after` by the store's clock |
//! | `store_time` | [`MemoryTime`]: the store's time from the memory service |
//! | [`invoke`] | [`Invoker`]: one call, one result, within limits |
//! | [`config`] | [`Config`]: folders, lists, limits, programs as tools |
//! | [`error`] | [`ToolError`] for models, [`BuildError`] for operators |
//! | `files` | `list_files`, `read_file`, `search_files`, `edit_file`, `write_file` |
//! | `command` | programs as tools |
//! | `shell` | `shell_exec` |
//! | `web_search` | `web_search` |
//! | [`confine`] | what programs may do |
//! | `matchers` | what rules may name of a call, by its schema, and where its paths lead |
//! | [`mcp`] | [`mcp::McpSource`]: a server of the Model Context Protocol as a source of tools |
//! | `workspace_files` | agents, skills and instructions of the workspace, once a person confirmed them |
//! | `grpc` | `cairn.tools.v1.ToolsService` |

mod allowances;
mod command;
pub mod config;
pub mod confine;
pub mod error;
mod files;
pub mod gate;
mod grpc;
pub mod invoke;
mod matchers;
pub mod mcp;
pub mod permission;
mod progress;
pub mod registry;
mod schema;
mod service;
mod shell;
pub mod source;
mod store_time;
mod text;
pub mod tool;
mod web_search;
mod workspace_files;

pub use allowances::Allowances;
pub use config::{
    Capabilities, CapabilityConfig, CommandConfig, Config, Limits, ShellConfig, WebSearchConfig,
    Write,
};
pub use confine::{Confine, Confinement, Holds, Network, Unconfined};
pub use error::{BuildError, Fault, RegisterError, ToolError};
pub use files::write_output;
pub use gate::{BoxError, Gate, Permit, StoreClock, StoreTime};
pub use invoke::{Invoker, Outcome, Request};
pub use permission::Permissions;
pub use progress::{Progress, ProgressStep, Steps};
pub use registry::{Entry, Snapshot, ToolRegistry};
pub use service::{Deps, Programs, Tools, build, check};
pub use source::{AllowError, FixedSource, Listed, Listing, SourceState, ToolSource};
pub use store_time::MemoryTime;
pub use tool::{
    Call, Digests, Effect, FileState, Input, InputRequired, Media, Output, Preview, Rejudge, Slot,
    Tool, ToolSpec,
};
