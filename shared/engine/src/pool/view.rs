//! The resources of the pool at a moment.

use super::{Missing, Need};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Capabilities by name, with the level of each.
pub type Capabilities = BTreeMap<String, u32>;

/// A capability that tools give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityTools {
    /// Its name.
    pub name: String,
    /// The tools that it takes.
    pub tools: Vec<String>,
    /// The level at which an executor has it.
    pub level: u32,
}

/// What a resource does with new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceState {
    /// It takes work.
    Available,
    /// All its slots are taken.
    Busy,
    /// It cannot be reached.
    Error,
    /// It stops: its work ends, and it takes none.
    Draining,
}

/// A resource at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceView {
    /// Unique in the pool.
    pub id: Arc<str>,
    /// `executor`, `mcp_server`, or what the operator named it.
    pub kind: String,
    /// Whether it takes work.
    pub state: ResourceState,
    /// Attempts that it can take at a time; 0 for an MCP server.
    pub slots: u32,
    /// Slots that are free.
    pub free: u32,
    /// What it can do.
    pub capabilities: Arc<Capabilities>,
    /// Notes of the operator.
    pub labels: BTreeMap<String, String>,
}

/// The kind of an executor.
pub const EXECUTOR: &str = "executor";
/// The kind of an MCP server.
pub const MCP_SERVER: &str = "mcp_server";

/// How many resources there are, by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolSummary {
    /// All.
    pub total: u32,
    /// Those that take work.
    pub available: u32,
    /// Those whose slots are all taken, and those that stop.
    pub busy: u32,
    /// Those that cannot be reached.
    pub error: u32,
}

/// A capability of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityRow {
    /// Its name.
    pub name: String,
    /// Resources that have it and are available.
    pub available: u32,
    /// All resources that have it.
    pub total: u32,
    /// Ids of the available ones, sorted.
    pub available_ids: Vec<Arc<str>>,
}

/// All resources at a moment, sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolView {
    /// The resources, sorted by id.
    pub resources: Vec<ResourceView>,
    /// The capabilities that tools give, in the order of the settings.
    pub table: Arc<[CapabilityTools]>,
}

impl PoolView {
    /// The counts.
    pub fn summary(&self) -> PoolSummary {
        let mut summary = PoolSummary::default();
        for resource in &self.resources {
            summary.total += 1;
            *match resource.state {
                ResourceState::Available => &mut summary.available,
                ResourceState::Busy | ResourceState::Draining => &mut summary.busy,
                ResourceState::Error => &mut summary.error,
            } += 1;
        }
        summary
    }

    /// All capabilities that a resource has: those of the settings in their order, then others by name.
    pub fn capabilities(&self) -> Vec<CapabilityRow> {
        let of_table = self.table.iter().map(|row| row.name.as_str());
        let mut names: Vec<&str> = of_table.collect();
        let all = self.resources.iter().flat_map(|it| it.capabilities.keys());
        let others: BTreeSet<&str> = all
            .map(String::as_str)
            .filter(|it| !names.contains(it))
            .collect();
        names.extend(others);
        let rows = names.into_iter().map(|name| self.row(name, 0));
        rows.filter(|row| row.total > 0).collect()
    }

    /// The resources that have a capability at this level or a higher one.
    pub fn row(&self, name: &str, level: u32) -> CapabilityRow {
        let has = |it: &&ResourceView| it.capabilities.get(name).is_some_and(|&has| has >= level);
        let having: Vec<_> = self.resources.iter().filter(has).collect();
        let is_available = |it: &&&ResourceView| it.state == ResourceState::Available;
        let available = having.iter().filter(is_available).map(|it| it.id.clone());
        let available_ids: Vec<_> = available.collect();
        CapabilityRow {
            name: name.to_owned(),
            available: count(available_ids.len()),
            total: count(having.len()),
            available_ids,
        }
    }

    /// The capabilities of a need that no resource has free, with their counts.
    pub fn missing(&self, need: &Need) -> Vec<Missing> {
        let needed = need.capabilities.iter();
        let missing = needed.map(|(capability, &level)| {
            let row = self.row(capability, level);
            Missing {
                capability: capability.clone(),
                level,
                available: row.available,
                total: row.total,
                tools: self.tools_of(capability),
            }
        });
        missing.filter(|it| it.available == 0).collect()
    }

    /// The tools that give a capability to an executor.
    pub fn tools_of(&self, capability: &str) -> Vec<String> {
        let row = self.table.iter().find(|row| row.name == capability);
        row.map(|row| row.tools.clone()).unwrap_or_default()
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
