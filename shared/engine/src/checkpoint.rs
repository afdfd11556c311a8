//! Checkpoints: the fold of a journal as bytes, so that a resume need not start at the beginning.

use crate::session::Session;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes with every change of [`Session`]: another version is not read, and the journal is folded
/// from its start instead.
const VERSION: u8 = 23;

impl Session {
    /// This state as bytes: the texts of layers by their numbers, and the rest.
    pub fn to_checkpoint(&self) -> Option<Vec<u8>> {
        postcard::to_extend(&(self.texts(), self), vec![VERSION]).ok()
    }

    /// Reads a state back. `None` for another version or damaged bytes: fold the journal then.
    pub fn from_checkpoint(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, state) = bytes.split_first()? else {
            return None;
        };
        let (texts, mut session): (BTreeMap<u32, String>, Self) =
            postcard::from_bytes(state).ok()?;
        let texts = texts.into_iter();
        let texts = texts.map(|(number, text)| (number, Arc::from(text)));
        session.take_texts(&texts.collect())?;
        Some(session)
    }
}
