//! Documents.

use bytes::Bytes;
use cairn_memory::port::*;
use std::collections::BTreeMap;

/// Thirty days in milliseconds.
const A_MONTH: i64 = 30 * 24 * 60 * 60 * 1000;

/// What a store should hold of one collection.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) counter: u64,
    pub(crate) floor: u64,
    documents: BTreeMap<String, Document>,
    /// Writes that happened, and their versions.
    happened: Vec<(DocumentWrite, u64)>,
}

impl Shelf {
    pub(crate) fn write(
        &mut self,
        write: &DocumentWrite,
        now: i64,
    ) -> StoreResult<DocumentWritten> {
        let answer = |duplicate, version| DocumentWritten {
            duplicate,
            version,
            now_unix_ms: now,
        };
        let mut happened = self.happened.iter();
        if let Some((first, version)) =
            happened.find(|(first, _)| first.operation_id == write.operation_id)
        {
            return match first == write {
                true => Ok(answer(true, *version)),
                false => Err(StoreError::RequestMismatch),
            };
        }
        let found = self.version(&write.id);
        let is_expected = match write.expected {
            Expected::Any => true,
            Expected::Absent => found == 0,
            Expected::Version(version) => found == version,
        };
        if !is_expected {
            return Err(StoreError::DocumentVersion { found });
        }
        if write.value.is_none() && found == 0 {
            return Ok(answer(false, 0));
        }
        self.counter += 1;
        let document = Document {
            id: write.id.clone(),
            version: self.counter,
            changed_unix_ms: now,
            value: write.value.clone(),
        };
        self.documents.insert(write.id.clone(), document);
        self.happened.push((write.clone(), self.counter));
        Ok(answer(false, self.counter))
    }

    /// The version of a document that is there, 0 otherwise.
    pub(crate) fn version(&self, id: &str) -> u64 {
        self.get(id).map_or(0, |document| document.version)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Document> {
        let found = self.documents.get(id);
        found.filter(|document| document.value.is_some())
    }

    /// Removes old tombstones, and answers how many.
    pub(crate) fn purge(&mut self, now: i64) -> usize {
        let before = self.documents.len();
        self.documents.retain(|_, document| {
            let is_old = document.value.is_none() && document.changed_unix_ms <= now - A_MONTH;
            if is_old {
                self.floor = self.floor.max(document.version);
            }
            !is_old
        });
        before - self.documents.len()
    }

    /// Documents and tombstones, in the order of their versions.
    pub(crate) fn list(&self) -> Vec<Document> {
        let mut all: Vec<_> = self.documents.values().cloned().collect();
        all.sort_by_key(|document| document.version);
        all
    }

    /// The documents that are there.
    pub(crate) fn values(&self) -> BTreeMap<String, Bytes> {
        let all = self.documents.values();
        let living = all.filter_map(|it| Some((it.id.clone(), it.value.clone()?)));
        living.collect()
    }
}
