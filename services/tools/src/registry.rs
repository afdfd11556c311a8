//! The tools by name.

use crate::error::{RegisterError, ToolError};
use crate::schema::Schema;
use crate::tool::{Tool, ToolSpec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names of an unknown tool's error message, so that a large catalogue does not fill the context.
const NAMES_IN_ERROR: usize = 30;

/// A tool with its compiled schema.
pub struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Schema,
}

impl Entry {
    /// What is known of the tool.
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("spec", self.spec()).finish()
    }
}

/// The tools by name, in the order of their names.
#[derive(Debug, Default)]
pub struct ToolRegistry {
    entries: BTreeMap<String, Entry>,
}

impl ToolRegistry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in `tool` and compiles its schema, once.
    ///
    /// # Errors
    /// A name that providers would refuse, a name that is taken, or an unusable schema; the
    /// registry is then unchanged.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let spec = tool.spec();
        if !is_name(&spec.name) {
            return Err(RegisterError::Name(spec.name.clone()));
        }
        if self.entries.contains_key(&spec.name) {
            return Err(RegisterError::Duplicate(spec.name.clone()));
        }
        let schema =
            Schema::compile(&spec.parameters).map_err(|problem| RegisterError::Schema {
                tool: spec.name.clone(),
                problem,
            })?;
        let name = spec.name.clone();
        self.entries.insert(name, Entry { tool, schema });
        Ok(())
    }

    /// The tool named `name`.
    ///
    /// # Errors
    /// [`ToolError::NotFound`] with the nearest name and the names there are.
    pub fn get(&self, name: &str) -> Result<&Entry, ToolError> {
        self.find(name)
            .ok_or_else(|| unknown(name, self.entries.keys().map(String::as_str)))
    }

    /// The tools in the order of their names, the same every time.
    pub fn list(&self) -> impl Iterator<Item = &ToolSpec> {
        self.entries.values().map(Entry::spec)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
}

/// Whether `name` is one that model providers accept.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The error for a name that is none of `known`.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let known: Vec<&str> = known.collect();
    let shown = crate::text::brief(name, 80);
    let mut message = format!("there is no tool '{}'", shown.escape_debug());
    if let Some(near) = nearest(name, &known) {
        message.push_str(&format!("; did you mean '{near}'?"));
    }
    if known.is_empty() {
        message.push_str("; there are no tools at all");
    } else {
        message.push_str("; tools: ");
        message.push_str(&known[..known.len().min(NAMES_IN_ERROR)].join(", "));
        if known.len() > NAMES_IN_ERROR {
            message.push_str(&format!(" and {} more", known.len() - NAMES_IN_ERROR));
        }
    }
    ToolError::NotFound(message)
}

/// The one of `known` that `name` was most likely meant to be, if any is near at all.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // A name far longer than any allowed one is near nothing, and costly to compare.
    if name.len() > 128 {
        return None;
    }
    let folded = name.to_lowercase();
    known
        .iter()
        .map(|other| (strsim::jaro_winkler(&folded, &other.to_lowercase()), *other))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}
