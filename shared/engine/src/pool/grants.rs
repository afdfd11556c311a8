//! What an operator granted to agents, or took from them, while they work.

use std::collections::{BTreeMap, BTreeSet};

/// Of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Tools that it has in addition to those that its definition lists.
    pub granted: BTreeSet<String>,
    /// Tools that it does not have.
    pub revoked: BTreeSet<String>,
}

/// Of all agents, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(pub BTreeMap<String, Grant>);

impl Grants {
    /// There are none.
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
