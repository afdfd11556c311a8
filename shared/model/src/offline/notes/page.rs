//! The room that a step's notes have.

use super::Note;
use serde::Serialize;

/// Bytes of notes that one step writes; below the scratchpad's 16 KiB.
pub(in crate::offline) const MAX_BYTES: usize = 15_000;

/// Notes that fit into one step's share of the scratchpad.
#[derive(Debug)]
pub(in crate::offline) struct Page {
    lines: Vec<String>,
    left: usize,
}

impl Page {
    /// An empty page for `bytes` bytes.
    pub(in crate::offline) fn of(bytes: usize) -> Self {
        Self {
            lines: Vec::new(),
            left: bytes,
        }
    }

    /// Bytes that `note` takes.
    pub(in crate::offline) fn cost(note: &impl Serialize) -> usize {
        serde_json::to_string(note).map_or(MAX_BYTES, |line| line.len() + 1)
    }

    /// Adds a note; false, and nothing added, if it does not fit.
    pub(in crate::offline) fn add(&mut self, note: &Note) -> bool {
        let Ok(line) = serde_json::to_string(note) else {
            return false;
        };
        if line.len() + 1 > self.left {
            return false;
        }
        self.left -= line.len() + 1;
        self.lines.push(line);
        true
    }

    /// The text for the scratchpad.
    pub(in crate::offline) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line, "\n"]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    #[test]
    fn a_page_is_bounded() {
        let note = Note::File(File {
            path: "docs/记忆.md".into(),
            bytes: 1,
            lines: None,
            kind: "text".into(),
        });
        let mut page = Page::of(MAX_BYTES);
        let fit = (0..10_000).take_while(|_| page.add(&note)).count();
        assert!(fit > 10 && page.text().len() <= MAX_BYTES);
        assert!(Page::cost(&note) > page.left);
    }
}
