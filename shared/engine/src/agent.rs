//! Agents: what a session keeps of one that a run or a context uses.
//!
//! Files and documents define agents, and change at any time. A session keeps a definition as it was when it
//! was used, under its [digest](AgentDefinition::digest), so that a run that has begun goes on as it began.

mod digest;
mod rights;

pub use rights::Rights;

use crate::command::WhenFull;
use crate::rules::DEFAULT_AGENT;
use serde::{Deserialize, Serialize};

/// An agent as it is used. Equal definitions have equal digests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDefinition {
    /// Its name, such as `reviewer` or `workspace:reviewer`; [`DEFAULT_AGENT`] for none.
    pub name: String,
    /// Its layer of the system prompt; may be empty.
    pub prompt: String,
    /// The first of its models that there is; empty for the configured one.
    pub model: String,
    /// Patterns of the tools that it is offered; none for all.
    pub tools: Option<Vec<String>>,
    /// Patterns of tools that it is not offered, also if `tools` has them; sorted.
    pub denied: Vec<String>,
    /// Patterns of tools of which each call asks a person; sorted.
    pub asked: Vec<String>,
    /// Limits of its runs.
    pub limits: AgentLimits,
    /// Sampling temperature in thousandths; none for the provider's default.
    pub temperature_milli: Option<u32>,
    /// When its conversations become shorter.
    pub compaction: AgentCompaction,
    /// How many of the newest messages before a turn its requests have, in a context without a window; none for all.
    pub window: Option<u32>,
    /// The skills that it may read. Its prompt lists those with a description.
    pub skills: Vec<SkillOffer>,
    /// The instructions of its folder, which the first message of a conversation has; empty for none.
    pub instructions: String,
    /// The capabilities that its attempts need, as plans name them; sorted.
    pub capabilities: Vec<String>,
    /// Names of hooks that its runs ask, also if these are not for all agents; sorted.
    pub hooks: Vec<String>,
}

/// Limits of the runs of an agent; none for those of the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Most tool turns in one turn or attempt.
    pub max_tool_turns: Option<u32>,
    /// Most tool turns of a run.
    pub max_turns: Option<u32>,
    /// Most tokens, in and out.
    pub tokens: Option<u64>,
    /// Most money, in 10⁻⁹ US dollars.
    pub cost_nano_usd: Option<u64>,
    /// Longest active time, in milliseconds.
    pub time_ms: Option<u64>,
    /// Most tool calls.
    pub calls: Option<u32>,
}

/// When and how far the conversations of an agent become shorter; none for what the settings say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCompaction {
    /// Thousandths of the window that a request may take before older messages give way.
    pub at_permille: Option<u32>,
    /// How many of the newest tool turns stay.
    pub keep_turns: Option<u32>,
    /// What happens at a full window.
    pub when_full: Option<WhenFull>,
}

/// A skill that an agent may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillOffer {
    /// Its name, by which it is read.
    pub name: String,
    /// The work that it is for; empty for a skill that its prompt does not list.
    pub description: String,
    /// The digest of its folder. A skill that has changed since is not read.
    pub digest: String,
}

impl AgentDefinition {
    /// An agent that has a name and nothing else.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// It is the default agent without skills and instructions: what a session keeps none for.
    pub fn is_plain(&self) -> bool {
        *self == Self::named(DEFAULT_AGENT)
    }
}

/// The agent of a name as commands give it: an empty one is the default agent.
pub(crate) fn asked_name(name: &str) -> &str {
    match name {
        DEFAULT_AGENT => "",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_agent_that_says_nothing_is_plain() {
        assert!(AgentDefinition::named(DEFAULT_AGENT).is_plain());
        assert!(!AgentDefinition::named("reviewer").is_plain());
        let instructed = AgentDefinition {
            instructions: "Be brief.".to_owned(),
            ..AgentDefinition::named(DEFAULT_AGENT)
        };
        assert!(!instructed.is_plain());
    }

    #[test]
    fn an_empty_name_asks_for_the_default_agent() {
        assert_eq!((asked_name(""), asked_name(DEFAULT_AGENT)), ("", ""));
        assert_eq!(asked_name("reviewer"), "reviewer");
    }
}
