//! The files that models have seen, each as it was then.

use super::Session;
use crate::event::{AttemptRef, FileState};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// Most files of a conversation that are known. With one more, the one that was noted first is forgotten: its
/// model reads it again.
const MOST_FILES: usize = 512;

/// The files that the model of a conversation has read or written, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFiles(Vec<FileState>);

impl SeenFiles {
    /// The digest that the file had; none for a file that was not seen.
    pub fn digest(&self, path: &str) -> Option<&str> {
        let seen = self.0.iter().find(|seen| seen.path == path);
        seen.map(|seen| seen.digest.as_str())
    }

    fn note(&mut self, file: FileState) {
        self.0.retain(|seen| seen.path != file.path);
        self.0.push(file);
        let oldest = self.0.len().saturating_sub(MOST_FILES);
        self.0.drain(..oldest);
    }

    /// Takes in what was seen later.
    pub(super) fn take_in(&mut self, newer: Self) {
        for file in newer.0 {
            self.note(file);
        }
    }
}

impl Session {
    /// The digest of a file as the model of an attempt last read or wrote it in its conversation; none if it did
    /// not.
    pub fn seen_file(&self, attempt: AttemptRef, path: &str) -> Option<&str> {
        let Some(turn) = self.turn(attempt) else {
            return self.attempt(attempt)?.files.digest(path);
        };
        let before = || self.contexts.get(&turn.context)?.files.digest(path);
        turn.files.digest(path).or_else(before)
    }

    /// The context of a turn takes in what it has seen when the turn ends and is kept.
    pub(super) fn note_file(&mut self, attempt: AttemptRef, file: &FileState) -> Applied {
        if let Some(turn) = &mut self.run_mut(attempt.run)?.turn {
            turn.files.note(file.clone());
            return Ok(());
        }
        self.attempt_mut(attempt)?.files.note(file.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, digest: &str) -> FileState {
        FileState {
            path: path.to_owned(),
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn the_newest_state_of_a_file_counts() {
        let mut seen = SeenFiles::default();
        assert_eq!(seen.digest("a"), None);
        seen.note(file("a", "1"));
        seen.note(file("b", "1"));
        let mut newer = SeenFiles::default();
        newer.note(file("a", "2"));
        seen.take_in(newer);
        assert_eq!((seen.digest("a"), seen.digest("b")), (Some("2"), Some("1")));
        assert_eq!(seen.0.len(), 2);
    }

    #[test]
    fn the_file_that_was_noted_first_is_forgotten_first() {
        let mut seen = SeenFiles::default();
        for number in 0..MOST_FILES {
            seen.note(file(&number.to_string(), "1"));
        }
        seen.note(file("0", "2"));
        seen.note(file("one more", "1"));
        assert_eq!((seen.digest("0"), seen.digest("1")), (Some("2"), None));
        assert_eq!(seen.digest("2"), Some("1"));
    }
}
