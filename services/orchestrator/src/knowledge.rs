//! The pages of knowledge of each namespace, and how they are found.
//!
//! Pages are documents of memory. The index of a namespace is built at its first use. It takes in what has changed
//! before each search, so a page that another server stored is found at once. An index keeps no texts: those of the
//! hits are read from the store.

mod checks;
pub(crate) mod errors;
mod follow;
mod indexes;
mod presence;

pub(crate) use checks::{check_query, sorted};

use self::indexes::Indexes;
use self::presence::Presence;
use crate::config::KnowledgeConfig;
use crate::store::{Store, for_namespace};
use cairn_knowledge::{Hit, Query, excerpt};
use cairn_proto::memory as pb;
use cairn_rpc::{Namespace, RpcError};
use futures::future::try_join_all;
use prost::Message as _;
use std::sync::Arc;
use tonic::{Response, Status};

/// Hits that are read from the store at a time. They have at most 2 MiB together.
const READ_AT_ONCE: usize = 8;

/// Bytes of texts that are indexed before other tasks have their turn.
pub(crate) const INDEXED_AT_ONCE: usize = 256 * 1024;

/// Pages of all namespaces, as this process finds them.
#[derive(Debug)]
pub(crate) struct Knowledge {
    config: KnowledgeConfig,
    indexes: Arc<Indexes>,
    presence: Presence,
}

/// What a search looks for.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Text in any language.
    pub(crate) query: String,
    /// A hit has all of these tags.
    pub(crate) tags: Vec<String>,
    /// Most hits.
    pub(crate) max: usize,
    /// The least score of a hit; none for that of the settings.
    pub(crate) min_score: Option<f64>,
    /// Most bytes of the excerpt of a hit.
    pub(crate) excerpt_bytes: usize,
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) tags: Vec<String>,
    /// Above 0 and at most 1.
    pub(crate) score: f64,
    /// The lines of its text that fit best.
    pub(crate) excerpt: String,
    pub(crate) version: u64,
    pub(crate) changed_unix_ms: i64,
}

/// A page that is to be stored.
#[derive(Debug, Clone)]
pub(crate) struct NewPage {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// In any order.
    pub(crate) tags: Vec<String>,
    /// Names the change for retries: 1 to 64 printable ASCII characters without spaces.
    pub(crate) operation_id: String,
    /// The version that the page must have; 0 if it must not exist, none for any.
    pub(crate) expected_version: Option<u64>,
}

impl Knowledge {
    /// Knows no page yet.
    pub(crate) fn new(config: &KnowledgeConfig) -> Self {
        Self {
            config: config.clone(),
            indexes: Arc::new(Indexes::new(config.index_bytes)),
            presence: Presence::default(),
        }
    }

    /// Finds pages by words, the best first, among those that were stored when the call began. A page that changed
    /// since is shown as it is now.
    ///
    /// # Errors
    /// The store cannot be reached, or the index does not fit into the memory for indexes (`LIMIT`).
    pub(crate) async fn search(
        &self,
        store: &Store,
        namespace: &Namespace,
        asked: &Search,
    ) -> Result<Vec<Found>, RpcError> {
        let query = Query {
            text: &asked.query,
            tags: &asked.tags,
            max: asked.max,
            min_score: asked.min_score.unwrap_or(self.config.min_score),
            scorer: self.config.scorer,
        };
        let hits = Box::pin(self.hits(store, namespace, &query)).await?;
        let mut found = Vec::with_capacity(hits.len());
        for part in hits.chunks(READ_AT_ONCE) {
            let read = part.iter().map(|hit| read(store, namespace, asked, hit));
            found.extend(try_join_all(read).await?.into_iter().flatten());
        }
        Ok(found)
    }

    async fn hits(
        &self,
        store: &Store,
        namespace: &Namespace,
        query: &Query<'_>,
    ) -> Result<Vec<Hit>, RpcError> {
        self.indexes.check(namespace)?;
        loop {
            let pages = self.indexes.of(namespace);
            pages.follow(&self.indexes, store, namespace).await?;
            // Another call may have begun to build the index anew since.
            if let Some(hits) = pages.search(query) {
                return Ok(hits);
            }
        }
    }

    /// Creates a page, or replaces it, and returns its version. A retry returns the first one.
    ///
    /// # Errors
    /// A field is wrong, the store refuses the change, or it cannot be reached.
    pub(crate) async fn put(
        &self,
        store: &Store,
        namespace: &Namespace,
        page: NewPage,
    ) -> Result<u64, RpcError> {
        checks::check(&page)?;
        let content = pb::PageDocument {
            title: page.title,
            text: page.text,
            tags: sorted(page.tags),
        };
        let put = pb::PutDocumentRequest {
            kind: pb::DocumentKind::Page.into(),
            id: page.id.clone(),
            value: content.encode_to_vec().into(),
            expected_version: page.expected_version,
            operation_id: page.operation_id,
        };
        let mut documents = store.documents();
        let put = documents.put_document(for_namespace(namespace, put)).await;
        let put = put.map_err(|status| errors::of_change(&status, &page.id))?;
        self.presence.found_one(namespace);
        Ok(put.into_inner().version)
    }

    /// Whether the namespace has pages, as it was at most five seconds ago.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) async fn has_pages(
        &self,
        store: &Store,
        namespace: &Namespace,
    ) -> Result<bool, RpcError> {
        Box::pin(self.presence.of(store, namespace)).await
    }
}

/// A hit as its page is now. None if it was deleted since, or if this version cannot read it.
async fn read(
    store: &Store,
    namespace: &Namespace,
    asked: &Search,
    hit: &Hit,
) -> Result<Option<Found>, RpcError> {
    let Some(document) = document(store, namespace, &hit.id).await? else {
        return Ok(None);
    };
    let Ok(page) = content(&document) else {
        return Ok(None);
    };
    Ok(Some(Found {
        score: hit.score,
        excerpt: excerpt(&page.text, &asked.query, asked.excerpt_bytes),
        id: document.id,
        title: page.title,
        tags: page.tags,
        version: document.version,
        changed_unix_ms: document.changed_unix_ms,
    }))
}

/// The document of a page. None if the page does not exist.
///
/// # Errors
/// The store cannot be reached.
pub(crate) async fn document(
    store: &Store,
    namespace: &Namespace,
    id: &str,
) -> Result<Option<pb::Document>, RpcError> {
    let get = pb::GetDocumentRequest {
        kind: pb::DocumentKind::Page.into(),
        id: id.to_owned(),
    };
    let mut documents = store.documents();
    let got = documents
        .get_document(for_namespace(namespace, get))
        .await?;
    Ok(got.into_inner().document)
}

/// What a document says of its page.
///
/// # Errors
/// Another version stored it in a form that this one cannot read.
pub(crate) fn content(document: &pb::Document) -> Result<pb::PageDocument, RpcError> {
    pb::PageDocument::decode(document.value.clone()).map_err(|_| errors::unreadable(&document.id))
}

/// A part of the list of pages, in the order of their versions and with the deleted ones.
///
/// # Errors
/// The store refuses, or cannot be reached.
pub(crate) async fn list_documents(
    store: &Store,
    namespace: &Namespace,
    after: Option<pb::DocumentPosition>,
    page_size: u32,
) -> Result<pb::ListDocumentsResponse, Status> {
    let list = pb::ListDocumentsRequest {
        kind: pb::DocumentKind::Page.into(),
        after,
        page_size,
    };
    let mut documents = store.documents();
    let listed = documents
        .list_documents(for_namespace(namespace, list))
        .await;
    listed.map(Response::into_inner)
}

/// The same, and none if the list cannot continue after the position.
async fn list(
    store: &Store,
    namespace: &Namespace,
    after: Option<pb::DocumentPosition>,
    page_size: u32,
) -> Result<Option<pb::ListDocumentsResponse>, RpcError> {
    let has_position = after.is_some();
    match list_documents(store, namespace, after, page_size).await {
        Ok(listed) => Ok(Some(listed)),
        Err(status) => {
            let error = RpcError::from_status(&status);
            match has_position && error.reason_name() == errors::RELIST {
                true => Ok(None),
                false => Err(error),
            }
        }
    }
}
