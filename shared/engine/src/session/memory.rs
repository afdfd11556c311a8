//! Session memory.

use super::{Apply, Envelope, Session};
use crate::event::{EventKind, MemoryCleared, MemoryRemoved, MemorySet};
use crate::prompt::memory::snapshot;
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// What a session remembers: values by key.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory {
    entries: BTreeMap<String, String>,
    /// Made when it is first needed after a change: an owner compares it at each report, and a fold
    /// never needs it.
    #[serde(skip)]
    snapshot: OnceLock<String>,
}

impl Memory {
    /// The text that models are shown, as [`snapshot`] renders it.
    pub fn snapshot(&self) -> &str {
        self.snapshot.get_or_init(|| snapshot(&self.entries))
    }

    fn change(&mut self) -> &mut BTreeMap<String, String> {
        self.snapshot.take();
        &mut self.entries
    }
}

/// To read the entries.
impl Deref for Memory {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.fmt(f)
    }
}

/// The snapshot follows from the entries.
impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Apply for MemorySet {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let memory = session.memory.change();
        memory.insert(self.key.clone(), self.value.clone());
        Ok(())
    }
}

impl Apply for MemoryRemoved {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.change().remove(&self.key);
        Ok(())
    }
}

impl Apply for MemoryCleared {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.change().clear();
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
