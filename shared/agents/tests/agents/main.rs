//! Files of agents and skills, as other programs and Cairn have them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod dialects;
mod hostile;
mod messages;
mod resolve;
mod skills;

use cairn_agents::agent::{self, AgentFile};
use cairn_agents::{AgentError, Parsed, Tools};
use cairn_engine::rules::{Answer, NamePattern};

/// An agent of a file with these lines of front matter.
fn read(front: &str) -> Result<Parsed<AgentFile>, AgentError> {
    agent::parse("agents/a.md", &format!("---\n{front}\n---\nPrompt\n"))
}

/// Messages in lines.
fn lines<T: ToString>(faults: &[T]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Names as a list has them.
fn list(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

/// Whether one of the patterns matches; all of them can be used.
fn has(patterns: &[String], tool: &str) -> bool {
    let patterns: Vec<NamePattern> = patterns
        .iter()
        .map(|pattern| NamePattern::new(pattern).unwrap())
        .collect();
    patterns.iter().any(|pattern| pattern.is_match(tool))
}

/// What an agent's file says of a call of this tool.
fn answer(agent: &AgentFile, tool: &str) -> Answer {
    let only = match &agent.tools {
        Tools::All => None,
        Tools::Only(only) => Some(only.as_slice()),
    };
    answer_of(only, &agent.denied, &agent.ask, tool)
}

/// What lists of tools say of a call of this tool.
fn answer_of(only: Option<&[String]>, denied: &[String], asked: &[String], tool: &str) -> Answer {
    let is_offered = only.is_none_or(|only| has(only, tool));
    let (is_denied, is_asked) = (has(denied, tool), has(asked, tool));
    match (is_offered && !is_denied, is_asked) {
        (false, _) => Answer::Deny,
        (true, true) => Answer::Ask,
        (true, false) => Answer::Allow,
    }
}
