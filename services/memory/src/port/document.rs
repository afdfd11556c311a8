//! Documents: what a namespace has beside its sessions.

use super::StoreResult;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;

/// Where documents live. The [module](super) says what holds for all methods; in its table a retry of a write
/// has a row of its own.
///
/// Every method may answer [`StoreError::Unavailable`](super::StoreError::Unavailable), and
/// [`StoreError::Newer`](super::StoreError::Newer) for a collection that a newer version stored. Reads check
/// each document against its checksum, and answer [`StoreError::Damaged`](super::StoreError::Damaged) in place
/// of one that differs.
#[async_trait]
pub trait Documents: Send + Sync + 'static {
    /// Puts a document, or deletes it.
    ///
    /// The deletion of a document that does not exist changes nothing, and the store does not remember it.
    ///
    /// # Errors
    /// In this order: a retry is answered, or refused with `RequestMismatch` if it differs from the first
    /// request; `DocumentVersion` if the document does not have the expected version; `Limit`, only for a write
    /// by which the collection grows. Nothing but the size of the value is checked before.
    async fn write_document(&self, write: DocumentWrite) -> StoreResult<DocumentWritten>;

    /// Reads one document; `None` if it does not exist, or was deleted.
    async fn get_document(
        &self,
        collection: &Collection,
        id: &str,
    ) -> StoreResult<Option<Document>>;

    /// Reads the documents whose version is above `after`, in the order of their versions, with the head of the
    /// same moment. Tombstones are among them. A page has at most `max` documents and 1 MiB of ids and values,
    /// and at least one document if there is one and `max` is not 0.
    ///
    /// Pages that were read at different moments add up if each begins after the last version of the page
    /// before, and their heads agree; [`watch_documents`](Self::watch_documents) and the RPC check that.
    async fn list_documents(
        &self,
        collection: &Collection,
        after: u64,
        max: usize,
    ) -> StoreResult<DocumentPage>;

    /// Reads how far a collection has come.
    async fn document_head(&self, collection: &Collection) -> StoreResult<Head> {
        Ok(self.list_documents(collection, u64::MAX, 1).await?.head)
    }

    /// Reads the changes after a position, and then follows the collection: changes in the order of their
    /// versions, and of a document that changed several times at least the last one. Without a position, all
    /// documents come first. One batch without documents marks that the watcher has caught up. The stream ends
    /// with an error if the store closes.
    ///
    /// A slow watcher delays no other call, and the store keeps nothing for it.
    ///
    /// # Errors
    /// `Relist`, at once or later, if the store cannot give all changes since the position: its counter is below
    /// the floor or above the store's, or its incarnation is not the store's.
    async fn watch_documents(
        &self,
        collection: &Collection,
        after: Option<Position>,
    ) -> StoreResult<DocumentStream>;

    /// Removes tombstones that are older than thirty days by the store's clock, at most `max` of them, and
    /// raises the floors of their collections; answers how many it removed.
    async fn purge_documents(&self, max: usize) -> StoreResult<usize>;
}

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentKind {
    /// A role for the model: instructions, tools, limits.
    Agent,
    /// A listener that is asked before or after something happens.
    Hook,
    /// A page of the knowledge base.
    Page,
    /// A resource of the pool.
    Resource,
    /// A server of tools.
    ToolServer,
    /// What a person confirmed of a tool.
    Allowance,
    /// Tools that the operator granted to an agent or an executor, or revoked.
    Grant,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Agent,
        Self::Hook,
        Self::Page,
        Self::Resource,
        Self::ToolServer,
        Self::Allowance,
        Self::Grant,
    ];

    /// Its name, by which stores keep it. Never given to another: it is on disks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Hook => "hook",
            Self::Page => "page",
            Self::Resource => "resource",
            Self::ToolServer => "tool_server",
            Self::Allowance => "allowance",
            Self::Grant => "grant",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// All documents of one kind in a namespace. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    namespace: Arc<str>,
    kind: DocumentKind,
}

impl Collection {
    /// A collection of a namespace whose name was checked already.
    pub fn new(namespace: impl Into<Arc<str>>, kind: DocumentKind) -> Self {
        Self {
            namespace: namespace.into(),
            kind,
        }
    }

    /// The tenant's space.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The kind of its documents.
    pub fn kind(&self) -> DocumentKind {
        self.kind
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.kind.name())
    }
}

/// A document as it stands, or the tombstone of a deleted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its id in the collection.
    pub id: String,
    /// The collection's counter when it was last changed. No two changes of a collection share a version, so a
    /// document that is deleted and put again never has an old version again.
    pub version: u64,
    /// When it was last changed, by the store's clock.
    pub changed_unix_ms: i64,
    /// Opaque; `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// The version that a write expects of its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any, or none.
    Any,
    /// The document does not exist, or was deleted.
    Absent,
    /// This one.
    Version(u64),
}

impl Expected {
    /// As stores compare it: the version, 0 for an absent document, empty for any.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Absent => "0".to_owned(),
            Self::Version(version) => version.to_string(),
        }
    }

    /// Whether a document of this version is as expected; 0 for an absent one.
    pub(crate) fn is(self, found: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found == 0,
            Self::Version(version) => found == version,
        }
    }
}

/// See [`Documents::write_document`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    /// The collection.
    pub collection: Collection,
    /// The document: 1 to 128 printable ASCII characters without spaces.
    pub id: String,
    /// The new value; `None` deletes the document.
    pub value: Option<Bytes>,
    /// The version that the document must have before.
    pub expected: Expected,
    /// Names this write for retries; unique in the collection.
    pub operation_id: String,
}

/// A write happened, now or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentWritten {
    /// It had happened before.
    pub duplicate: bool,
    /// The version that the write gave the document or its tombstone; 0 if there was nothing to delete.
    pub version: u64,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// How far a collection has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Names the data: opaque. It becomes another one whenever the store may have lost acknowledged changes, and
    /// may do so at other times, too. Of two heads with one incarnation, the one with the higher counter has
    /// all changes of the other.
    pub incarnation: String,
    /// Number of the last change; 0 for a collection that never had a document.
    pub counter: u64,
    /// Tombstones up to this version may be gone.
    pub floor: u64,
}

/// A part of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPage {
    /// How far the collection had come.
    pub head: Head,
    /// In the order of their versions.
    pub documents: Vec<Document>,
    /// No document of a higher version existed.
    pub is_last: bool,
}

/// Where a reader of a collection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The data that the reader knows, see [`Head::incarnation`].
    pub incarnation: String,
    /// The reader knows all changes up to this one.
    pub counter: u64,
    /// The collection's counter when the reader began without any documents. Deletions up to this one concern
    /// documents that the reader never had.
    pub since: u64,
}

/// Changes of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentChanges {
    /// In the order of their versions; empty in the batch that marks that the watcher has caught up.
    pub documents: Vec<Document>,
    /// Where the watcher stands after them.
    pub position: Position,
}

/// Changes as they come.
pub type DocumentStream = BoxStream<'static, StoreResult<DocumentChanges>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        for kind in DocumentKind::ALL {
            assert_eq!(DocumentKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(DocumentKind::from_name("session"), None);
    }

    #[test]
    fn an_absent_document_has_no_version() {
        for (expected, at_0, at_3, at_4) in [
            (Expected::Any, true, true, true),
            (Expected::Absent, true, false, false),
            (Expected::Version(3), false, true, false),
        ] {
            let found = [0, 3, 4].map(|found| expected.is(found));
            assert_eq!(found, [at_0, at_3, at_4], "{expected:?}");
        }
    }
}
