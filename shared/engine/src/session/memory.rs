//! Session memory.

use super::{Apply, Envelope, Session};
use crate::conversation::{MemoryMark, Reminded};
use crate::event::{
    AttemptRef, Event, EventKind, MemoryCleared, MemoryRemoved, MemorySet, MemoryWriter,
};
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
    /// Of each entry.
    details: BTreeMap<String, MemoryDetails>,
    /// By the owner. They do not depend on changes of clients, which may be folded late.
    by_owner: Changes,
    by_clients: Changes,
}

/// An entry of session memory without its key and its value. Models do not see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryDetails {
    /// Notes of a client for programs.
    pub metadata: BTreeMap<String, String>,
    /// Time of the first set since the key was absent: milliseconds since 1970 by the store's clock.
    pub created: u64,
    /// Time of the last set. It is never before `created`, also where clocks differ.
    pub updated: u64,
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

    /// The details of an entry; none if the key is absent.
    pub fn details(&self, key: &str) -> Option<&MemoryDetails> {
        self.details.get(key)
    }

    /// The number and the bytes of all entries but that of the key. The store counts the same bytes.
    pub(crate) fn size_without(&self, key: &str) -> (usize, usize) {
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        others.fold((0, 0), |(count, bytes), (other, value)| {
            let details = self.details.get(other);
            let metadata: usize = details.map_or(0, MemoryDetails::metadata_bytes);
            (count + 1, bytes + other.len() + value.len() + metadata)
        })
    }

    /// Changes the entries, and counts nothing.
    pub(crate) fn set(&mut self, set: &MemorySet, at: u64) {
        let before = self.details.get(&set.key);
        let created = before.map_or(at, |details| details.created);
        let details = MemoryDetails {
            metadata: set.metadata.clone(),
            created,
            updated: at.max(created),
        };
        self.entries.insert(set.key.clone(), set.value.clone());
        self.details.insert(set.key.clone(), details);
    }

    fn remove(&mut self, key: &str) {
        self.entries.remove(key);
        self.details.remove(key);
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.details.clear();
    }

    /// Removes the keys that the owner's events created, before changes of others are folded which the store
    /// has numbered before these events. Such a change may have created a key earlier, or removed it.
    ///
    /// A key that an older event created in the same millisecond counts as one of them. Its time of creation
    /// then differs by no more than the clocks do.
    pub(super) fn take_back(&mut self, own: &[Event]) {
        for event in own {
            let EventKind::MemorySet(set) = &event.kind else {
                continue;
            };
            let created = self.details(&set.key).map(|details| details.created);
            if created == Some(event.at) {
                self.remove(&set.key);
            }
        }
    }

    /// Changes the entries once more, and counts nothing.
    pub(super) fn repeat(&mut self, event: &Event) {
        match &event.kind {
            EventKind::MemorySet(set) => self.set(set, event.at),
            EventKind::MemoryRemoved(removed) => self.remove(&removed.key),
            EventKind::MemoryCleared(_) => self.clear(),
            _ => {}
        }
    }
}

impl MemoryDetails {
    fn metadata_bytes(&self) -> usize {
        let metadata = self.metadata.iter();
        metadata.map(|(name, text)| name.len() + text.len()).sum()
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
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.memory.set(self, envelope.at);
        session.note_memory(&self.key, self.writer)
    }
}

impl Apply for MemoryRemoved {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.remove(&self.key);
        session.note_memory(&self.key, self.writer)
    }
}

impl Apply for MemoryCleared {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.memory.clear();
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
