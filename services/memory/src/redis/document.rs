//! Documents.
//!
//! The keys of a collection have the tag of one partition, so that a script changes them together. A document is
//! its version and the time of its change, of 16 digits each, its checksum of four bytes and its value. A
//! tombstone has the first two.
//!
//! The incarnation is the id that the server gives to its history of writes (`master_replid`). The script that
//! reads documents reads the id, too, so both are of one moment. A server gets another id when it becomes a master
//! and when it is started, which are the moments at which acknowledged writes may be missing. A server that does not
//! say its id has the store's in its place. A reader then notices lost changes only while nothing is written over
//! them.

use super::RedisStore;
use super::answer::Status;
use super::ask::VERY_LATE;
use super::claim::scored;
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::{PARTITIONS, collection_of};
use super::script::Reply;
use crate::documents::{self, PAGE_BYTES, REMEMBERED, TOMBSTONE_MS, WATCHED};
use crate::hub::{ReadDocuments, watch_documents};
use crate::port::{
    Collection, Document, DocumentPage, DocumentStream, DocumentWrite, DocumentWritten, Documents,
    Head, Position, StoreError, StoreResult, Stored,
};
use async_trait::async_trait;
use bytes::Bytes;

/// Bytes of a tombstone: its version, and when it was made.
const TOMBSTONE: usize = 32;

/// Bytes before the value of a document.
const HEADER: usize = TOMBSTONE + 4;

/// Collections of a partition that one purge looks at.
const MOST: usize = 32;

/// Most tombstones that one script removes.
const AT_ONCE: usize = 256;

impl Inner {
    async fn write_document(&self, write: DocumentWrite) -> StoreResult<DocumentWritten> {
        self.limits.check_document(&write)?;
        let names = self.names.collection(&write.collection);
        let keys = [
            names.hash(),
            names.values(),
            names.versions(),
            names.tombstones(),
            names.operations(),
            names.slots(),
            names.partition.buried(),
            names.watchers(),
        ];
        let value = write.value.as_deref().unwrap_or_default();
        let sum = documents::sum(&write.id, value).to_le_bytes();
        let call = self.scripts.document_write.call(&keys);
        let call = call
            .arg(&names.member)
            .arg(&self.process)
            .arg(&write.id)
            .arg(u8::from(write.value.is_none()))
            .arg(value)
            .arg(&sum[..])
            .arg(write.expected.text())
            .arg(&write.operation_id)
            .arg(documents::digest(&write))
            .arg(self.limits.documents)
            .arg(self.limits.collection_bytes)
            .arg(REMEMBERED);
        let written = self
            .run_commit(names.partition.number, call, |status, reply| {
                let version = reply.number()?;
                Ok(DocumentWritten {
                    duplicate: status == Status::Duplicate,
                    version,
                    now_unix_ms: self.servers.time.take(reply.int()?),
                })
            })
            .await?;
        if !written.duplicate {
            self.hub.documents_changed(&write.collection);
        }
        Ok(written)
    }

    async fn get_document(
        &self,
        collection: &Collection,
        id: &str,
    ) -> StoreResult<Option<Document>> {
        let names = self.names.collection(collection);
        let mut format = redis::cmd("HGET");
        format.arg(names.hash()).arg("f");
        let mut value = redis::cmd("HGET");
        value.arg(names.values()).arg(id);
        let questions = [format, value].map(|cmd| (names.partition.number, cmd));
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut both = || Ok((answers.optional()?, answers.optional()?));
        let (format, record) = both().map_err(|error| odd(Effect::Reads, error))?;
        if let Some(format) = format {
            let found = String::from_utf8_lossy(&format).into_owned();
            if !self.formats.know(&found) {
                return Err(StoreError::Newer { found });
            }
        }
        let document = record.map(|record| document(id.to_owned(), &record));
        let document = document.transpose()?;
        Ok(document.filter(|document| document.value.is_some()))
    }

    async fn list_documents(
        &self,
        collection: &Collection,
        after: u64,
        max: usize,
    ) -> StoreResult<DocumentPage> {
        let names = self.names.collection(collection);
        let keys = [names.hash(), names.values(), names.versions()];
        let call = self.scripts.document_list.call(&keys);
        let call = call.arg(after).arg(max).arg(PAGE_BYTES);
        let read = self.run(names.partition.number, call, Effect::Reads, |_, reply| {
            let mut incarnation = reply.text()?;
            if incarnation.is_empty() {
                self.names.store().clone_into(&mut incarnation);
            }
            let head = Head {
                incarnation,
                counter: reply.number()?,
                floor: reply.number()?,
            };
            let is_last = reply.int()? == 1;
            let mut records = Vec::with_capacity(reply.len() / 2);
            while reply.len() > 0 {
                records.push((reply.text()?, reply.bytes()?));
            }
            Ok((head, is_last, records))
        });
        let (head, is_last, records) = read.await?;
        let documents = records.into_iter();
        let documents = documents.map(|(id, record)| document(id, &record));
        Ok(DocumentPage {
            head,
            documents: documents.collect::<StoreResult<_>>()?,
            is_last,
        })
    }

    async fn purge_documents(&self, max: usize) -> StoreResult<usize> {
        let until = self.now().await?.saturating_sub(TOMBSTONE_MS);
        let questions = (0..PARTITIONS).map(|number| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(self.names.partition(number).buried())
                .arg("-inf")
                .arg(until)
                .arg(&["BYSCORE", "LIMIT", "0"])
                .arg(MOST)
                .arg("WITHSCORES");
            (number, cmd)
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let mut purged = 0;
        for answer in answers.into_iter().flatten() {
            let members = scored(answer).map_err(|error| odd(Effect::Reads, error))?;
            for (member, _) in members {
                if let Some(collection) = collection_of(&member)
                    && purged < max
                {
                    let most = max - purged;
                    purged += self.purge_collection(&collection, until, most).await?;
                }
            }
        }
        Ok(purged)
    }

    async fn purge_collection(
        &self,
        collection: &Collection,
        until: i64,
        max: usize,
    ) -> StoreResult<usize> {
        let names = self.names.collection(collection);
        let keys = [
            names.hash(),
            names.values(),
            names.versions(),
            names.tombstones(),
            names.partition.buried(),
        ];
        let call = self.scripts.document_purge.call(&keys);
        let call = call.arg(&names.member).arg(until).arg(max.min(AT_ONCE));
        let purged = self
            .run(names.partition.number, call, Effect::Writes, |_, reply| {
                reply.number()
            })
            .await?;
        Ok(usize::try_from(purged).unwrap_or(usize::MAX))
    }
}

/// A document or a tombstone, as it is stored.
fn document(id: String, record: &Bytes) -> StoreResult<Document> {
    let number = |digits: std::ops::Range<usize>| {
        let digits = std::str::from_utf8(record.get(digits)?).ok()?;
        digits.parse::<i64>().ok()
    };
    let version = number(0..16).and_then(|version| u64::try_from(version).ok());
    let sum = record.get(TOMBSTONE..HEADER);
    let sum = sum.and_then(|sum| sum.try_into().map(u32::from_le_bytes).ok());
    let (Some(version), Some(changed_unix_ms)) = (version, number(16..TOMBSTONE)) else {
        return Err(StoreError::Damaged(Stored::Document(id)));
    };
    let value = (record.len() > TOMBSTONE).then(|| record.slice(HEADER.min(record.len())..));
    let document = Document {
        id,
        version,
        changed_unix_ms,
        value,
    };
    documents::check(document, sum)
}

#[async_trait]
impl Documents for RedisStore {
    async fn write_document(&self, write: DocumentWrite) -> StoreResult<DocumentWritten> {
        self.inner.write_document(write).await
    }

    async fn get_document(
        &self,
        collection: &Collection,
        id: &str,
    ) -> StoreResult<Option<Document>> {
        self.inner.get_document(collection, id).await
    }

    async fn list_documents(
        &self,
        collection: &Collection,
        after: u64,
        max: usize,
    ) -> StoreResult<DocumentPage> {
        self.inner.list_documents(collection, after, max).await
    }

    async fn watch_documents(
        &self,
        collection: &Collection,
        after: Option<Position>,
    ) -> StoreResult<DocumentStream> {
        let (inner, watched) = (self.inner.clone(), collection.clone());
        let read: ReadDocuments = Box::new(move |after| {
            let (inner, collection) = (inner.clone(), watched.clone());
            Box::pin(async move { inner.list_documents(&collection, after, WATCHED).await })
        });
        let interest = self.inner.hints.documents(collection);
        let changes = watch_documents(&self.inner.hub, collection, after, read).await?;
        Ok(interest.kept_by(changes))
    }

    async fn purge_documents(&self, max: usize) -> StoreResult<usize> {
        self.inner.purge_documents(max).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sum: u32, value: &str) -> Bytes {
        let mut record = b"00000000000000070001800000000000".to_vec();
        record.extend(sum.to_le_bytes());
        record.extend(value.bytes());
        record.into()
    }

    #[test]
    fn documents_and_tombstones_are_read_as_they_are_stored() {
        let read = |record: Bytes| document("a".to_owned(), &record);
        let want = |value: Option<&'static str>| Document {
            id: "a".to_owned(),
            version: 7,
            changed_unix_ms: 1_800_000_000_000,
            value: value.map(|value| Bytes::from_static(value.as_bytes())),
        };
        for value in ["value", ""] {
            let stored = record(documents::sum("a", value.as_bytes()), value);
            assert_eq!(read(stored), Ok(want(Some(value))));
        }
        let whole = record(documents::sum("a", b"value"), "value");
        assert_eq!(read(whole.slice(..TOMBSTONE)), Ok(want(None)));
        let damaged = Err(StoreError::Damaged(Stored::Document("a".to_owned())));
        for length in (0..TOMBSTONE).chain(TOMBSTONE + 1..whole.len()) {
            assert_eq!(read(whole.slice(..length)), damaged, "{length}");
        }
        assert_eq!(read(record(1, "value")), damaged);
    }
}
