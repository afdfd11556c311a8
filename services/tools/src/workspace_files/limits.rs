//! How much of the files of a workspace counts.

use super::folder::Unfit;
use cairn_agents::document::MAX_FILE;
use cairn_agents::instructions::MAX_INSTRUCTIONS_FILE;
use cairn_agents::skill::MAX_SKILL;

/// Most files, those of skills included.
const FILES: usize = 1000;
/// Most bytes of all of them.
const BYTES: u64 = 16 << 20;
/// Most bytes of the files whose contents are sent: they and their paths are one message.
const CONTENT: u64 = 3 << 20;
/// Most entries of all folders that are looked at.
const ENTRIES: usize = 20_000;
/// Most folders below one another in a skill.
pub(super) const DEPTH: usize = 16;
/// Most bytes of a path.
pub(super) const PATH: usize = 256;
/// Most lines about what does not count.
pub(super) const PROBLEMS: usize = 100;
/// Most bytes of a file of a skill that are handed out.
pub(super) const SKILL_TEXT: usize = 256 * 1024;

/// Most bytes of the file of an agent.
pub(super) const AGENT: u64 = MAX_FILE as u64;
/// Most bytes of a `SKILL.md`.
pub(super) const SKILL: u64 = MAX_SKILL as u64;
/// Most bytes of instructions.
pub(super) const INSTRUCTIONS: u64 = MAX_INSTRUCTIONS_FILE as u64;

/// What is left of the limits during one scan.
#[derive(Debug)]
pub(super) struct Room {
    files: usize,
    bytes: u64,
    content: u64,
    entries: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            files: FILES,
            bytes: BYTES,
            content: CONTENT,
            entries: ENTRIES,
        }
    }
}

impl Room {
    /// Takes room for so many files of so many bytes, of which `content` are sent.
    ///
    /// # Errors
    /// They do not fit, and no room is taken.
    pub(super) fn take(&mut self, files: usize, bytes: u64, content: u64) -> Result<(), Unfit> {
        let left = (
            self.files.checked_sub(files),
            self.bytes.checked_sub(bytes),
            self.content.checked_sub(content),
        );
        match left {
            (Some(files), Some(bytes), Some(content)) => {
                (self.files, self.bytes, self.content) = (files, bytes, content);
                Ok(())
            }
            (None, ..) => Err(Unfit::new(
                "is one file too many",
                format!("{FILES} files in all, those of skills included"),
            )),
            (_, None, _) => Err(Unfit::new(
                format!(
                    "has {bytes} bytes, and the files before it leave {}",
                    self.bytes
                ),
                format!("{BYTES} bytes in all, those of skills included"),
            )),
            (.., None) => Err(Unfit::new(
                format!(
                    "has {content} bytes, and the files before it leave {}",
                    self.content
                ),
                format!("{CONTENT} bytes of all agents, SKILL.md files and instructions"),
            )),
        }
    }

    /// Takes room for one more entry of a folder.
    ///
    /// # Errors
    /// There were too many.
    pub(super) fn enter(&mut self) -> Result<(), Unfit> {
        match self.entries.checked_sub(1) {
            Some(entries) => {
                self.entries = entries;
                Ok(())
            }
            None => Err(Unfit::new(
                "has too many entries",
                format!("{ENTRIES} entries of all folders of agents and skills"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_takes_no_room() {
        let mut room = Room::default();
        room.take(1, CONTENT, CONTENT).unwrap();
        let full = room.take(1, 1, 1).unwrap_err().to_line("a.md");
        assert_eq!(
            full,
            "a.md: has 1 bytes, and the files before it leave 0 (allowed: 3145728 bytes of all agents, \
             SKILL.md files and instructions)"
        );
        assert!(room.take(1, BYTES - CONTENT + 1, 0).is_err());
        room.take(FILES - 1, BYTES - CONTENT, 0).unwrap();
        let full = room.take(1, 0, 0).unwrap_err().to_line("b.md");
        assert_eq!(
            full,
            "b.md: is one file too many (allowed: 1000 files in all, those of skills included)"
        );
        for _ in 0..ENTRIES {
            room.enter().unwrap();
        }
        assert!(room.enter().is_err());
    }
}
