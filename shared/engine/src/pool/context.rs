//! The agent context: what a model reads of the pool, its task and the note.

use super::{CapabilityRow, PoolSummary, PoolView};
use crate::escape::{breaks_line, line, lines};

/// What a model reads of the pool, its task and the note. Its text is the last part of the system prompt before
/// session memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentContext {
    /// When it was made, in milliseconds since 1970; not in the text.
    pub time_ms: u64,
    /// The counts of resources.
    pub pool: PoolSummary,
    /// The capabilities that a resource has free: those of [`PoolView::capabilities`] with an available resource.
    pub capabilities: Vec<CapabilityRow>,
    /// The task; none without one.
    pub task: Option<TaskContext>,
    /// The note of the run or the step; none without one.
    pub note: Option<String>,
    /// Ids of the resources that carry out the task.
    pub allotted: Vec<String>,
}

/// The task of an agent context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskContext {
    /// `step-N`.
    pub id: String,
    /// The description of the step.
    pub description: String,
    /// What it needs, as the plan names it.
    pub required_capabilities: Vec<String>,
    /// The id of the task in another system; not in the text.
    pub external_id: Option<String>,
}

impl AgentContext {
    /// The context of a moment. A blank note is none.
    pub fn of(
        view: &PoolView,
        time_ms: u64,
        task: Option<TaskContext>,
        note: Option<String>,
        allotted: Vec<String>,
    ) -> Self {
        let mut capabilities = view.capabilities();
        capabilities.retain(|row| row.available > 0);
        Self {
            time_ms,
            pool: view.summary(),
            capabilities,
            task,
            note: note.filter(|note| !note.trim().is_empty()),
            allotted,
        }
    }

    /// What a model reads, without a line break at the end.
    ///
    /// Texts of people, plans and operators are escaped as [`crate::escape`] says, so that none of them can make a
    /// section, an entry or a row.
    pub fn text(&self) -> String {
        let sections = [
            Some(self.pool_section()),
            Some(self.capability_section()),
            self.task.as_ref().map(TaskContext::section),
            self.note_section(),
        ];
        let sections: Vec<String> = sections.into_iter().flatten().collect();
        sections.join("\n\n")
    }

    /// The names of the capabilities in the text, sorted. Another set of names makes a reminder; other counts do not.
    pub fn names(&self) -> Vec<String> {
        let names = self.capabilities.iter().map(|row| row.name.clone());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    fn pool_section(&self) -> String {
        let PoolSummary {
            total,
            available,
            busy,
            error,
        } = self.pool;
        format!(
            "## Current pool state\n- Total: {total}\n- Available: {available}\n- Busy: {busy}\n- Error: {error}"
        )
    }

    fn capability_section(&self) -> String {
        let mut text = "## Available capabilities\n\n".to_owned();
        if self.capabilities.is_empty() {
            text.push_str("None.");
            return text;
        }
        text.push_str("| Capability | Available | Total | Available resource ids |\n");
        text.push_str("|------|-----------|---------|------------|");
        for row in &self.capabilities {
            let ids: Vec<String> = row.available_ids.iter().map(|id| cell(id)).collect();
            let (name, ids) = (cell(&row.name), ids.join(", "));
            text.push_str(&format!(
                "\n| {name} | {} | {} | {ids} |",
                row.available, row.total
            ));
        }
        text
    }

    fn note_section(&self) -> Option<String> {
        let note = self.note.as_deref().map(str::trim);
        let note = note.filter(|note| !note.is_empty()).map(lines);
        let allotted: Vec<String> = self.allotted.iter().map(|id| line(id)).collect();
        let allotted = allotted.join(", ");
        let text = match note {
            None if allotted.is_empty() => return None,
            None => format!("Allotted resources: {allotted}"),
            Some(note) if allotted.is_empty() => note,
            Some(note) if continues(&note) => format!("{note}, allotted resources: {allotted}"),
            Some(note) => format!("{note}\nAllotted resources: {allotted}"),
        };
        Some(format!("## Orchestrator's note\n{text}"))
    }
}

impl TaskContext {
    /// The description is one line here. The first message of an attempt has it with its line breaks.
    fn section(&self) -> String {
        let (id, description) = (line(&self.id), line(self.description.trim_end()));
        let mut text = format!("## Current task\n- ID: {id}\n- Description: {description}");
        if !self.required_capabilities.is_empty() {
            let required = line(&self.required_capabilities.join(", "));
            text.push_str("\n- Required capabilities: ");
            text.push_str(&required);
        }
        text
    }
}

/// A sentence can continue after the note: it is one line that ends with a letter or a digit.
fn continues(note: &str) -> bool {
    note.ends_with(char::is_alphanumeric) && !note.contains(breaks_line)
}

/// A text in a table: a bar would begin the next cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests;
