//! What is wrong with a configuration, and where it says so.

use cairn_rpc::text::escape;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody said anything else.
    #[default]
    Default,
    /// A line of a file.
    File {
        /// The file, as it was named.
        name: Arc<str>,
        /// The line, from 1; 0 if it is the file as a whole.
        line: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line: 0 } => f.write_str(name),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The setting: `memory.lease`; empty if it is the source as a whole.
    pub path: String,
    /// Where it was said.
    pub source: Origin,
    /// What is wrong; reads on from the path: `is "abc"`.
    pub problem: String,
    /// What would be right; may be empty.
    pub allowed: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("{}:", self.source);
        for part in [&self.path, &self.problem] {
            if !part.is_empty() {
                line.push(' ');
                line.push_str(part);
            }
        }
        if !self.allowed.is_empty() {
            line.push_str(&format!(" (allowed: {})", self.allowed));
        }
        f.write_str(&escape(&line))
    }
}

/// Everything that is wrong with a configuration: never empty.
///
/// Displayed with one fault a line. Values of secrets are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigErrors(pub Vec<ConfigFault>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a fault")?,
            n => write!(f, "the configuration has {n} faults")?,
        }
        for fault in &self.0 {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}
