//! What an agent may use of the tools that there are.

use super::AgentDefinition;
use crate::rules::{Answer, NamePattern};

/// The pattern of every name.
const EVERY: &str = "*";

/// The lists of an agent, ready to judge calls.
#[derive(Debug, Clone)]
pub struct Rights {
    only: Option<Vec<NamePattern>>,
    denied: Vec<NamePattern>,
    ask: Vec<NamePattern>,
}

impl Rights {
    /// The rights of this agent. A pattern that is none offers nothing, and denies or asks about every tool.
    pub fn of(agent: &AgentDefinition) -> Self {
        let offered = |patterns: &Vec<String>| -> Vec<NamePattern> {
            let patterns = patterns.iter();
            patterns
                .filter_map(|it| NamePattern::new(it).ok())
                .collect()
        };
        Self {
            only: agent.tools.as_ref().map(offered),
            denied: strict(&agent.denied),
            ask: strict(&agent.asked),
        }
    }

    /// What the definition says of a call of this tool; rules may be stricter. What it denies is not offered
    /// either.
    pub fn answer(&self, tool: &str) -> Answer {
        let is_offered = self.only.as_deref().is_none_or(|only| is_among(only, tool));
        if !is_offered || self.denies(tool) {
            Answer::Deny
        } else if is_among(&self.ask, tool) {
            Answer::Ask
        } else {
            Answer::Allow
        }
    }

    /// Each call of the tool asks a person, also of one that the definition does not offer.
    pub fn asks(&self, tool: &str) -> bool {
        is_among(&self.ask, tool)
    }

    /// The definition denies the tool by name, whatever tools it offers.
    pub fn denies(&self, tool: &str) -> bool {
        is_among(&self.denied, tool)
    }
}

fn is_among(patterns: &[NamePattern], tool: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(tool))
}

fn strict(patterns: &[String]) -> Vec<NamePattern> {
    let patterns = patterns.iter();
    let compiled =
        |pattern: &String| NamePattern::new(pattern).or_else(|_| NamePattern::new(EVERY));
    patterns.filter_map(|it| compiled(it).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_denied_is_not_offered_and_what_asks_is() {
        let agent = AgentDefinition {
            tools: Some(list(&["read_file", "g__*"])),
            denied: list(&["g__delete"]),
            asked: list(&["g__*"]),
            ..AgentDefinition::named("a")
        };
        let rights = Rights::of(&agent);
        for (tool, answer) in [
            ("read_file", Answer::Allow),
            ("g__list", Answer::Ask),
            ("g__delete", Answer::Deny),
            ("write_file", Answer::Deny),
        ] {
            assert_eq!(rights.answer(tool), answer, "{tool}");
        }
        let all = Rights::of(&AgentDefinition::named("a"));
        assert_eq!(all.answer("anything"), Answer::Allow);
    }

    #[test]
    fn a_pattern_that_is_none_gives_no_right() {
        let faulty = list(&["[", "a{"]);
        let offered = AgentDefinition {
            tools: Some(faulty.clone()),
            ..AgentDefinition::default()
        };
        assert_eq!(Rights::of(&offered).answer("look"), Answer::Deny);
        let denied = AgentDefinition {
            denied: faulty.clone(),
            ..AgentDefinition::default()
        };
        assert_eq!(Rights::of(&denied).answer("look"), Answer::Deny);
        let asked = AgentDefinition {
            asked: faulty,
            ..AgentDefinition::default()
        };
        assert_eq!(Rights::of(&asked).answer("look"), Answer::Ask);
    }
}
