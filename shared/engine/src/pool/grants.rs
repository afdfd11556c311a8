//! What an operator granted to agents, or took from them, while they work.

use std::collections::{BTreeMap, BTreeSet};

/// What was granted to one agent or executor, and revoked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Tools that it has in addition to those of its definition or its settings.
    pub granted: BTreeSet<String>,
    /// Tools that it does not have.
    pub revoked: BTreeSet<String>,
}

/// The grants of all agents, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(pub BTreeMap<String, Grant>);

impl Grants {
    /// No grants.
    pub fn none() -> &'static Self {
        static NONE: Grants = Grants(BTreeMap::new());
        &NONE
    }

    /// The tool was taken from the agent.
    pub fn revokes(&self, agent: &str, tool: &str) -> bool {
        let grant = self.0.get(agent);
        grant.is_some_and(|grant| grant.revoked.contains(tool))
    }

    /// The agent has the tool in addition to its list.
    pub fn grants(&self, agent: &str, tool: &str) -> bool {
        let grant = self.0.get(agent);
        grant.is_some_and(|grant| grant.granted.contains(tool))
    }
}
