//! Pools for the tests of this module.

use super::{
    CapabilityTools, EXECUTOR, PoolView, ResourceState, ResourceTools, ResourceView, is_capability,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The table of the settings: each capability with a tool of the same name.
const TABLE: [&str; 3] = ["web_search", "file_ops", "shell_exec"];

/// A pool of these resources.
pub(super) fn pool(resources: impl IntoIterator<Item = ResourceView>) -> PoolView {
    let mut resources: Vec<_> = resources.into_iter().collect();
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    let row = |name: &str| CapabilityTools {
        name: name.to_owned(),
        tools: vec![name.to_owned()],
        level: 1,
    };
    PoolView {
        resources,
        table: TABLE.iter().map(|&name| row(name)).collect(),
    }
}

/// An executor with so many of ten slots free: busy without any. Its capabilities are `NAME` or `NAME=LEVEL`.
pub(super) fn executor(id: &str, free: u32, capabilities: &[&str]) -> ResourceView {
    let capabilities = capabilities.iter().map(|text| {
        let (name, level) = text.split_once('=').unwrap_or((text, "1"));
        assert!(is_capability(name), "{name}");
        (name.to_owned(), level.parse().expect("a level"))
    });
    ResourceView {
        id: Arc::from(id),
        kind: EXECUTOR.to_owned(),
        state: match free {
            0 => ResourceState::Busy,
            _ => ResourceState::Available,
        },
        slots: 10,
        free,
        capabilities: Arc::new(capabilities.collect()),
        labels: BTreeMap::new(),
        tools: Arc::default(),
    }
}

/// A registered resource by itself, or an MCP server.
pub(super) fn other(kind: &str, id: &str, free: u32, capabilities: &[&str]) -> ResourceView {
    ResourceView {
        kind: kind.to_owned(),
        ..executor(id, free, capabilities)
    }
}

pub(super) fn in_state(state: ResourceState, resource: ResourceView) -> ResourceView {
    ResourceView { state, ..resource }
}

/// The executor may use tools of this pattern alone.
pub(super) fn with_tools(pattern: &str, executor: ResourceView) -> ResourceView {
    let tools = ResourceTools::new(vec![pattern.to_owned()], BTreeSet::new(), BTreeSet::new());
    ResourceView {
        tools: Arc::new(tools),
        ..executor
    }
}
