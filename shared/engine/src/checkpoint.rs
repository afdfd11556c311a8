//! Checkpoints: the fold of a journal as bytes, so that a resume need not start at the beginning.

use crate::session::Session;

/// Changes with every change of [`Session`]: another version is not read, and the journal is folded
/// from its start instead.
const VERSION: u8 = 15;

impl Session {
    /// This state as bytes.
    pub fn to_checkpoint(&self) -> Option<Vec<u8>> {
        postcard::to_extend(self, vec![VERSION]).ok()
    }

    /// Reads a state back. `None` for another version or damaged bytes: fold the journal then.
    pub fn from_checkpoint(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first() {
            Some((&VERSION, state)) => postcard::from_bytes(state).ok(),
            _ => None,
        }
    }
}
