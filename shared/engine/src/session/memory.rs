//! Session memory.

use super::{Apply, Envelope, Session};
use crate::event::{EventKind, MemoryCleared, MemoryRemoved, MemorySet};
use crate::transitions::Applied;

impl Apply for MemorySet {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.insert(self.key.clone(), self.value.clone());
        Ok(())
    }
}

impl Apply for MemoryRemoved {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.remove(&self.key);
        Ok(())
    }
}

impl Apply for MemoryCleared {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.clear();
        Ok(())
    }
}

impl EventKind {
    /// It changes session memory.
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            Self::MemorySet(_) | Self::MemoryRemoved(_) | Self::MemoryCleared(_)
        )
    }
}
