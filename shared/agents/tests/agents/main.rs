//! Files of agents and skills, as other programs and Cairn have them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod dialects;
mod hostile;
mod messages;
mod skills;

use cairn_agents::agent::{self, AgentFile};
use cairn_agents::{AgentError, Parsed};

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
