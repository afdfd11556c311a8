//! The resources of the pool at a moment.

use super::{Missing, Need, ResourceTools};
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
    /// The tools that it may use; counts for executors only.
    pub tools: Arc<ResourceTools>,
}

impl ResourceView {
    fn is_executor(&self) -> bool {
        self.kind == EXECUTOR
    }

    /// It is registered, and takes attempts beside an executor for the capabilities that it has.
    fn is_by_itself(&self) -> bool {
        !matches!(self.kind.as_str(), EXECUTOR | MCP_SERVER)
    }

    fn has_free_slot(&self) -> bool {
        self.state == ResourceState::Available && self.free > 0
    }

    fn has(&self, capability: &str, level: u32) -> bool {
        let has = self.capabilities.get(capability);
        has.is_some_and(|&has| has >= level)
    }

    /// It is an executor that may use the tool, if one is needed.
    fn may_execute(&self, need: &Need) -> bool {
        let tool = need.tool.as_deref();
        self.is_executor() && tool.is_none_or(|tool| self.tools.allows(tool))
    }

    /// The needed capabilities that it does not have, by name.
    fn lacks<'a>(&self, need: &'a Need) -> impl Iterator<Item = &'a str> {
        let needed = need.capabilities.iter();
        let lacking = needed.filter(move |&(name, &level)| !self.has(name, level));
        lacking.map(|(name, _)| name.as_str())
    }
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

    /// The names of all capabilities that a resource gives to attempts, free or not, in the same order. MCP servers
    /// take no attempts.
    pub fn names(&self) -> Vec<String> {
        let rows = self.capabilities().into_iter();
        let names = rows.map(|row| row.name);
        let is_given = |name: &String| self.giving(name, 0).next().is_some();
        names.filter(is_given).collect()
    }

    /// The resources that have a capability and take attempts.
    fn giving<'a>(&'a self, name: &'a str, level: u32) -> impl Iterator<Item = &'a ResourceView> {
        let resources = self.resources.iter();
        resources.filter(move |it| it.kind != MCP_SERVER && it.has(name, level))
    }

    /// The resources that have a capability at this level or a higher one.
    pub fn row(&self, name: &str, level: u32) -> CapabilityRow {
        let having = self.resources.iter().filter(|it| it.has(name, level));
        row_of(name, having)
    }

    /// The resources that would carry out an attempt with this need now: an executor with a free slot, and one
    /// resource with a free slot for each capability that it lacks. None if there is no such executor.
    ///
    /// The executor is the one with most free slots, and so is each further resource; of several the last by id.
    /// One resource may give several capabilities.
    pub fn candidate(&self, need: &Need) -> Option<Vec<String>> {
        let givers = self.givers(need);
        let executors = self.resources.iter().filter(|it| {
            let is_free = it.has_free_slot() && it.may_execute(need);
            is_free && it.lacks(need).all(|name| givers.contains_key(name))
        });
        let executor = executors.max_by_key(|it| it.free)?;
        let mut ids = vec![executor.id.to_string()];
        for giver in executor.lacks(need).filter_map(|name| givers.get(name)) {
            if !ids.iter().any(|id| *id == *giver.id) {
                ids.push(giver.id.to_string());
            }
        }
        Some(ids)
    }

    /// For each needed capability, the registered resource that gives it now to an executor that lacks it.
    fn givers<'a>(&'a self, need: &'a Need) -> BTreeMap<&'a str, &'a ResourceView> {
        let giver = |name: &str, level: u32| {
            let resources = self.resources.iter();
            let free = resources.filter(|it| it.is_by_itself() && it.has_free_slot());
            let giving = free.filter(|it| it.has(name, level));
            giving.max_by_key(|it| it.free)
        };
        let needed = need.capabilities.iter();
        let given = needed.filter_map(|(name, &level)| Some((name.as_str(), giver(name, level)?)));
        given.collect()
    }

    /// What is not available of a need, sorted by name: the capabilities that no resource has free, and the tool if
    /// no executor may use it. Empty if an attempt would be carried out now.
    ///
    /// If there is each of them, but not for one attempt, it is all of them. Then only resources count that can serve
    /// the whole need together, and none of these is available. MCP servers do not count, because they take no
    /// attempts.
    pub fn missing(&self, need: &Need) -> Vec<Missing> {
        let needed = need.capabilities.iter();
        let all: Vec<_> = needed
            .map(|(capability, &level)| self.missing_capability(capability, level))
            .collect();
        let tool = need.tool.iter().map(|tool| self.missing_tool(tool));
        let tool: Vec<_> = tool.collect();
        let serving = self.serving(need);
        let exists = |it: &Missing| it.total > 0;
        if serving.is_empty() && tool.iter().chain(&all).all(exists) {
            let together = |it| together(it, &serving);
            return tool.into_iter().chain(all).map(together).collect();
        }
        let tool = tool.into_iter().filter(|it| it.total == 0);
        let taken = all.iter().filter(|it| it.available == 0).cloned();
        let missing: Vec<_> = tool.chain(taken).collect();
        match missing.is_empty() && self.candidate(need).is_none() {
            true => all.into_iter().map(|it| together(it, &serving)).collect(),
            false => missing,
        }
    }

    /// The resources that can serve the whole need, free or not: executors, and the registered resources that give
    /// them what they lack.
    fn serving<'a>(&'a self, need: &'a Need) -> Vec<&'a ResourceView> {
        let givers = |name: &'a str| {
            let level = need.capabilities.get(name).copied();
            let giving = self.giving(name, level.unwrap_or_default());
            giving.filter(|it| it.is_by_itself())
        };
        let mut serving = BTreeMap::new();
        for executor in self.resources.iter().filter(|it| it.may_execute(need)) {
            if executor
                .lacks(need)
                .all(|name| givers(name).next().is_some())
            {
                let given = executor.lacks(need).flat_map(givers);
                serving.extend(given.chain([executor]).map(|it| (&it.id, it)));
            }
        }
        serving.into_values().collect()
    }

    fn missing_capability(&self, capability: &str, level: u32) -> Missing {
        let row = row_of(capability, self.giving(capability, level));
        Missing {
            capability: row.name,
            level,
            available: row.available,
            total: row.total,
            tools: self.tools_of(capability),
        }
    }

    fn missing_tool(&self, tool: &str) -> Missing {
        let resources = self.resources.iter();
        let having = resources.filter(|it| it.is_executor() && it.tools.allows(tool));
        let row = row_of("", having);
        Missing {
            capability: row.name,
            level: 0,
            available: row.available,
            total: row.total,
            tools: vec![tool.to_owned()],
        }
    }

    /// The tools that give a capability to an executor.
    pub fn tools_of(&self, capability: &str) -> Vec<String> {
        let row = self.table.iter().find(|row| row.name == capability);
        row.map(|row| row.tools.clone()).unwrap_or_default()
    }
}

/// What is missing, counted among resources that can serve the whole need. None of these is available.
fn together(missing: Missing, serving: &[&ResourceView]) -> Missing {
    let having = serving.iter();
    let having = having.filter(|it| it.has(&missing.capability, missing.level));
    Missing {
        available: 0,
        total: count(having.count()),
        ..missing
    }
}

fn row_of<'a>(name: &str, having: impl Iterator<Item = &'a ResourceView>) -> CapabilityRow {
    let having: Vec<_> = having.collect();
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

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
