//! What is wrong with a file, and where.

use crate::yaml::Value;
use cairn_engine::text::cut;
use std::fmt;
use thiserror::Error;

/// Most characters of a value that a message shows.
const SHOWN: usize = 60;
/// Most faults of a file that are told.
const MOST_FAULTS: usize = 100;

/// One thing that is wrong with a file, or that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The field as the file writes it, after the fields around it: `cairn.budgets.cost`. Empty for none.
    pub field: String,
    /// What is wrong; reads on from the field: `is "many"`.
    pub problem: String,
    /// What is allowed; may be empty.
    pub allowed: String,
}

/// Everything for which a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct AgentError {
    /// The file, as the caller named it.
    pub path: String,
    /// At least one.
    pub faults: Vec<Fault>,
}

/// What a file says, and what of it has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<T> {
    /// What it says.
    pub value: T,
    /// What a person should know of it, by lines.
    pub warnings: Vec<Fault>,
}

/// What reading has found so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) errors: Vec<Fault>,
    pub(crate) warnings: Vec<Fault>,
}

impl Fault {
    pub(crate) fn new(
        line: u64,
        field: &str,
        problem: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            line,
            field: shortened(field),
            problem: problem.into(),
            allowed: allowed.into(),
        }
    }

    /// Without the line.
    fn words(&self) -> String {
        let parts = [self.field.as_str(), self.problem.as_str()];
        let mut words = parts.join(" ").trim().to_owned();
        if !self.allowed.is_empty() {
            words.push_str(&format!(" (allowed: {})", self.allowed));
        }
        words
    }

    /// In one line, after the file: `agents/a.md:4: maxTurns is "many" (allowed: …)`.
    pub fn to_line(&self, path: &str) -> String {
        let path = path.escape_debug();
        match self.line {
            0 => format!("{path}: {}", self.words()),
            line => format!("{path}:{line}: {}", self.words()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.words()),
            line => write!(f, "line {line}: {}", self.words()),
        }
    }
}

impl AgentError {
    pub(crate) fn one(path: &str, fault: Fault) -> Self {
        Self {
            path: path.to_owned(),
            faults: vec![fault],
        }
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = self.faults.as_slice() {
            return f.write_str(&fault.to_line(&self.path));
        }
        let path = self.path.escape_debug();
        write!(f, "{path} has {} faults", self.faults.len())?;
        for fault in &self.faults {
            write!(f, "\n  {}", fault.to_line(&self.path))?;
        }
        Ok(())
    }
}

impl Found {
    pub(crate) fn error(
        &mut self,
        line: u64,
        field: &str,
        problem: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.errors.push(Fault::new(line, field, problem, allowed));
    }

    pub(crate) fn warn(&mut self, line: u64, field: &str, problem: impl Into<String>) {
        self.warnings.push(Fault::new(line, field, problem, ""));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
    }

    /// # Errors
    /// The errors that were found, by lines.
    pub(crate) fn finish<T>(self, path: &str, value: T) -> Result<Parsed<T>, AgentError> {
        let warnings = by_lines(self.warnings);
        if self.errors.is_empty() {
            return Ok(Parsed { value, warnings });
        }
        Err(AgentError {
            path: path.to_owned(),
            faults: by_lines(self.errors),
        })
    }
}

/// Faults in the order of their lines. Of very many, the last entry says how many more there are.
fn by_lines(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by_key(|fault| fault.line);
    let more = faults.len().saturating_sub(MOST_FAULTS);
    if more > 0 {
        faults.truncate(MOST_FAULTS);
        faults.push(Fault::new(0, "", format!("and {more} more"), ""));
    }
    faults
}

/// What a message says of a value: `is "many"`, `is a list`.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Nothing => "has no value".to_owned(),
        Value::Truth(truth) => format!("is {truth}"),
        Value::Whole(number) => format!("is {number}"),
        Value::Number(number) => format!("is {}", cut(number, SHOWN)),
        Value::Text(text) => format!("is {}", quoted(text)),
        Value::List(_) => "is a list".to_owned(),
        Value::Map(_) => "is a map".to_owned(),
    }
}

/// A text of a file in a message: in quotes, escaped and cut.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", cut(text, SHOWN))
}

/// A name of a file in a message: escaped and cut.
fn shortened(name: &str) -> String {
    cut(name, SHOWN).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fault_stands_after_its_file_and_several_below_it() {
        let wrong = |line| Fault::new(line, "maxTurns", "is \"many\"", "a whole number");
        let mut error = AgentError::one("a.md", wrong(4));
        let line = "a.md:4: maxTurns is \"many\" (allowed: a whole number)";
        assert_eq!(error.to_string(), line);
        let whole = Fault::new(0, "", "has 5 bytes", "");
        error.faults.insert(0, whole.clone());
        let lines = format!("a.md has 2 faults\n  a.md: has 5 bytes\n  {line}");
        assert_eq!(error.to_string(), lines);
        assert_eq!(whole.to_string(), "has 5 bytes");
        assert_eq!(wrong(4).to_string(), line.replace("a.md:4", "line 4"));
    }

    #[test]
    fn no_text_of_a_file_breaks_a_line_or_fills_a_screen() {
        let name = "a\u{1b}\n".repeat(100);
        let problem = shown(&Value::Text(name.clone()));
        let error = AgentError::one(&name[..6], Fault::new(1, &name, problem, ""));
        let line = error.to_string();
        assert!(!line.contains(['\n', '\u{1b}']), "{line}");
        assert!(line.chars().count() < 1000, "{line}");
    }
}
