//! How many bytes contexts and ended turns have. A session gathers them as long as it lives.

use super::Session;

/// Bytes of the contexts and the ended turns of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Messages of contexts, and texts of ended turns. The journal had them in about as many bytes.
    pub texts: usize,
    /// The same, with the records of ended turns.
    pub memory: usize,
}

impl Session {
    /// Looks at each context once, whatever it has.
    pub fn sizes(&self) -> Sizes {
        let contexts = self.contexts.values().map(|context| context.bytes);
        let contexts = contexts.fold(0, u64::saturating_add);
        let contexts = usize::try_from(contexts).unwrap_or(usize::MAX);
        Sizes {
            texts: contexts.saturating_add(self.runs.text_bytes()),
            memory: contexts.saturating_add(self.runs.record_bytes()),
        }
    }
}
