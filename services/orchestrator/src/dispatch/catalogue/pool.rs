//! The part of the catalogue for the pool: the capabilities that tools give, and the servers that have tools.

use crate::dispatch::pool::{PoolTools, Server};
use cairn_engine::decide::{STATE_TOOLS, ToolList};
use cairn_engine::pool::{Capabilities, CapabilityTools};
use cairn_proto::tools::{Capability, ListToolsResponse, ToolSource, ToolSourceState};
use std::sync::Arc;

/// Of a list, with the tools that may be called.
pub(super) fn pool_tools(listed: &ListToolsResponse, tools: &ToolList) -> PoolTools {
    let rows = listed.capabilities.iter().map(row);
    let table: Arc<[CapabilityTools]> = rows.collect();
    let is_there =
        |tool: &String| tools.contains_key(tool) || STATE_TOOLS.iter().any(|it| it.name == tool);
    let usable = table.iter().filter(|row| row.tools.iter().all(is_there));
    let servers = listed.sources.iter().filter(|it| !it.digest.is_empty());
    PoolTools {
        usable: usable.cloned().collect(),
        servers: servers.map(|it| server(it, &table, tools)).collect(),
        table,
    }
}

fn row(capability: &Capability) -> CapabilityTools {
    CapabilityTools {
        name: capability.name.clone(),
        tools: capability.tools.clone(),
        level: capability.level.max(1),
    }
}

/// A server has the capabilities whose tools are all its own.
fn server(source: &ToolSource, table: &[CapabilityTools], tools: &ToolList) -> Server {
    let is_own = |tool: &String| {
        let server = tools.get(tool).and_then(|facts| facts.server.as_ref());
        server.is_some_and(|server| server.name == source.name)
    };
    let rows = table.iter().filter(|row| row.tools.iter().all(is_own));
    let capabilities: Capabilities = rows.map(|row| (row.name.clone(), row.level)).collect();
    Server {
        name: source.name.clone(),
        is_ready: source.state() == ToolSourceState::Ready,
        capabilities: Arc::new(capabilities),
    }
}
