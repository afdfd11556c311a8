//! Servers of the Model Context Protocol as sources of tools.
//!
//! Each server of the settings is one [`McpSource`]: a task that starts the program or connects to the
//! address, lists the tools, and does it again when the server changes or goes away. A tool is named
//! `SERVER__TOOL`. Servers are not trusted: what they send is bounded, what they say of effects can only
//! tighten, and a tool that is not as it was when it was first listed waits for a person.
//!
//! | module | gives |
//! |---|---|
//! | [`config`] | [`ServerConfig`]: one server of the settings; [`Server`]: and whether it may start |
//! | [`setting`] | [`Setting`]: a value or a reference to a secret |
//! | [`json`] | [`parse_servers`]: servers of a `.mcp.json` |
//! | `connect`, `process`, `probe`, `backlog`, `error` | a connection, over a program or HTTP, by either lifecycle |
//! | `lines`, `web`, `events`, `frame` | what comes over it: the readable part of each message |
//! | `handler` | what a server may ask of its client, which is little |
//! | `list`, `tool` | from the server's list to tools |
//! | `pins` | whether tools are as they were allowed |
//! | `call`, `result`, `mask` | one call, and what it gave, without secrets of the settings |
//! | `source` | [`McpSource`]: all of it together |

mod backlog;
mod call;
pub mod config;
mod connect;
mod error;
mod events;
mod frame;
mod handler;
pub mod json;
mod lines;
mod list;
mod mask;
mod pins;
mod probe;
mod process;
mod result;
pub mod setting;
mod source;
mod tool;
mod web;

pub use config::{Origin, Protocol, Server, ServerConfig};
pub use json::{JsonError, JsonServer, Unused, parse_servers};
pub use setting::Setting;
pub use source::{McpDeps, McpSource};

pub(crate) use mask::Mask;

use std::ops::RangeInclusive;

/// Most tools of one server.
pub const MOST_TOOLS: usize = 1_000;
/// Most pages of one list.
const MOST_PAGES: usize = 100;
/// Most bytes of all descriptions and schemas of one server.
const MOST_LIST_BYTES: usize = 1 << 20;
/// Most bytes of a schema, as JSON text.
pub const MOST_SCHEMA_BYTES: usize = 64 * 1024;
/// Bytes of a description that are used; the rest is cut.
pub const MOST_DESCRIPTION_BYTES: usize = 8 * 1024;
/// Most bytes of one message of a server, unless its settings say otherwise. One with more ends its call, and
/// the connection lives.
pub const MESSAGE_BYTES: usize = 16 << 20;
/// The least and the most that settings may allow a message.
const MESSAGE_BYTES_RANGE: RangeInclusive<usize> = 1 << 20..=MOST_MESSAGES_BYTES;
/// Most bytes of all messages that one server sends at one time. One beyond that ends its call.
const MOST_MESSAGES_BYTES: usize = 64 << 20;
/// Most values of one message: in memory each may need a hundred times its text.
const MOST_VALUES: usize = 1 << 19;
/// Most bytes of a message that is skipped. One with more ends the connection.
const MOST_SKIPPED_BYTES: usize = 64 << 20;
/// Most bytes of an answer with an HTTP error.
const MOST_ERROR_BYTES: usize = 16 * 1024;
/// Between the server's name and the tool's.
pub const SEPARATOR: &str = "__";
