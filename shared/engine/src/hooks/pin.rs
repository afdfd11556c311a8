//! The hooks that there are, and those that a run records.

use super::{Point, Points};
use crate::agent::AgentDefinition;
use crate::rules::{DEFAULT_AGENT, NamePattern};
use serde::{Deserialize, Serialize};

/// A hook that a run asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedHook {
    /// Its name.
    pub name: String,
    /// Covers all that defines it.
    pub digest: String,
    /// Where it is asked.
    pub points: Points,
    /// Patterns of the tools whose calls it is asked about; empty for all.
    pub tools: Vec<String>,
}

impl PinnedHook {
    /// It is asked at the point, and about calls of the tool if one is named.
    pub fn listens(&self, point: Point, tool: Option<&str>) -> bool {
        self.points.has(point) && tool.is_none_or(|tool| self.covers(tool))
    }

    fn covers(&self, tool: &str) -> bool {
        self.tools.is_empty() || is_among(tool, &self.tools)
    }
}

/// Whether a pattern covers the name. A pattern that is none covers every name, because a hook only restricts.
fn is_among(name: &str, patterns: &[String]) -> bool {
    let mut patterns = patterns.iter().map(|pattern| NamePattern::new(pattern));
    patterns.any(|pattern| pattern.map_or(true, |it| it.is_match(name)))
}

/// A hook that there is now, for [`Facts::hooks`](crate::decide::Facts::hooks).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentHook {
    /// What a run pins of it.
    pub pin: PinnedHook,
    /// Patterns of the agents whose runs ask it; none for all. An agent that names it asks it, too.
    pub agents: Option<Vec<String>>,
}

/// The hooks that there are now, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresentHooks(pub Vec<PresentHook>);

impl PresentHooks {
    /// There are none.
    pub fn none() -> &'static Self {
        static NONE: PresentHooks = PresentHooks(Vec::new());
        &NONE
    }

    /// The hooks that a run of this agent asks; none is the plain default agent.
    pub fn of_agent(&self, agent: Option<&AgentDefinition>) -> Vec<PinnedHook> {
        let name = agent.map_or(DEFAULT_AGENT, |agent| &agent.name);
        let named = agent.map_or(&[][..], |agent| agent.hooks.as_slice());
        let is_asked = |hook: &&PresentHook| {
            let patterns = hook.agents.as_deref();
            patterns.is_none_or(|patterns| is_among(name, patterns))
                || named.contains(&hook.pin.name)
        };
        let asked = self.0.iter().filter(is_asked);
        asked.map(|hook| hook.pin.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_listens_to_the_tools_that_it_names() {
        let mut hook = PinnedHook {
            name: "guard".to_owned(),
            digest: String::new(),
            points: [Point::PreToolCall].into_iter().collect(),
            tools: Vec::new(),
        };
        assert!(hook.listens(Point::PreToolCall, Some("shell_exec")));
        assert!(!hook.listens(Point::PostToolCall, Some("shell_exec")));
        hook.tools = vec!["write_*".to_owned()];
        assert!(hook.listens(Point::PreToolCall, Some("write_file")));
        assert!(!hook.listens(Point::PreToolCall, Some("shell_exec")));
        assert!(hook.listens(Point::PreToolCall, None));
    }
}
