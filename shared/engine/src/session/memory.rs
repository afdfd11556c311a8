//! Session memory.

use super::{Apply, Envelope, Session};
use crate::conversation::{MemoryMark, Reminded};
use crate::event::{AttemptRef, EventKind, MemoryCleared, MemoryRemoved, MemorySet, MemoryWriter};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;

/// Changes of each kind of writer that are known by their keys. A conversation that knows fewer gets the
/// whole of session memory.
const KNOWN_CHANGES: usize = 64;

/// What a session remembers: values by key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    entries: BTreeMap<String, String>,
    /// By the owner. They do not depend on changes of clients, which may be folded late.
    by_owner: Changes,
    by_clients: Changes,
}

/// How often session memory changed, and the keys of the last changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Changes {
    count: u64,
    last: VecDeque<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Change {
    key: String,
    /// The attempt whose model knows the value by its own call.
    known_to: Option<AttemptRef>,
}

impl Changes {
    fn note(&mut self, key: &str, known_to: Option<AttemptRef>) {
        self.count += 1;
        let key = key.to_owned();
        self.last.push_back(Change { key, known_to });
        if self.last.len() > KNOWN_CHANGES {
            self.last.pop_front();
        }
    }

    /// All keys have changed.
    fn note_all(&mut self) {
        self.count += 1;
        self.last.clear();
    }

    /// The changes after the first so many; none if some of them are not known any more.
    fn since(&self, known: u64) -> Option<impl Iterator<Item = &Change>> {
        let new = self.count.checked_sub(known)?;
        let skipped = (self.last.len() as u64).checked_sub(new)?;
        Some(self.last.iter().skip(skipped as usize))
    }
}

impl Memory {
    /// How often it has changed.
    pub fn mark(&self) -> MemoryMark {
        MemoryMark {
            owner: self.by_owner.count,
            clients: self.by_clients.count,
        }
    }

    /// The keys that have changed since then, with their values of now, without those whose values this
    /// attempt knows by its own calls. None if they are not known any more.
    pub(crate) fn changed_since(
        &self,
        mark: MemoryMark,
        attempt: AttemptRef,
    ) -> Option<BTreeMap<&str, Option<&str>>> {
        let mut keys: BTreeMap<&str, bool> = BTreeMap::new();
        for change in self.by_owner.since(mark.owner)? {
            keys.insert(change.key.as_str(), change.known_to == Some(attempt));
        }
        // Which of two values of a key is the last one, the counts do not say.
        for change in self.by_clients.since(mark.clients)? {
            keys.insert(change.key.as_str(), false);
        }
        keys.retain(|_, is_known| !*is_known);
        let keys = keys.into_keys();
        let keys = keys.map(|key| (key, self.entries.get(key).map(String::as_str)));
        Some(keys.collect())
    }

    /// Changes the entries once more, and counts nothing.
    pub(super) fn repeat(&mut self, kind: &EventKind) {
        match kind {
            EventKind::MemorySet(set) => {
                self.entries.insert(set.key.clone(), set.value.clone());
            }
            EventKind::MemoryRemoved(removed) => {
                self.entries.remove(&removed.key);
            }
            EventKind::MemoryCleared(_) => self.entries.clear(),
            _ => {}
        }
    }
}

/// To read the entries.
impl Deref for Memory {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl Session {
    fn note_memory(&mut self, key: &str, writer: Option<MemoryWriter>) -> Applied {
        let known_to = match writer {
            None => {
                self.memory.by_clients.note(key, None);
                return Ok(());
            }
            Some(MemoryWriter::Command) => None,
            Some(MemoryWriter::Attempt(attempt)) => {
                let number = self.memory.by_owner.count + 1;
                self.note_own_change(attempt, number)?.then_some(attempt)
            }
        };
        self.memory.by_owner.note(key, known_to);
        Ok(())
    }

    /// The model of an attempt changed session memory. Says whether it knows so as long as the attempt lasts.
    fn note_own_change(
        &mut self,
        name: AttemptRef,
        number: u64,
    ) -> Result<bool, IllegalTransition> {
        // The messages of a turn may be left out of later requests, and no reminder leaves out what they say.
        let lasts = self.turn(name).is_none();
        // No older value follows the message with the call.
        let is_newest = self.attempt_mut(name)?.waiting_memory().next().is_none();
        let said = self.conversation_mut(name)?;
        let since = said.memory_mark(said.memory_written());
        let mut through = since;
        // If the model knew the changes before this one, its call tells of this one as well.
        if is_newest && since.owner + 1 == number {
            through.owner = number;
        }
        said.tell(Reminded::Memory {
            since: Some(since),
            through,
        });
        Ok(lasts && is_newest)
    }
}

impl Apply for MemorySet {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let (key, value) = (self.key.clone(), self.value.clone());
        session.memory.entries.insert(key, value);
        session.note_memory(&self.key, self.writer)
    }
}

impl Apply for MemoryRemoved {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.entries.remove(&self.key);
        session.note_memory(&self.key, self.writer)
    }
}

impl Apply for MemoryCleared {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.entries.clear();
        session.memory.by_clients.note_all();
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
