//! `cairn.memory.v1.DocumentService`.

use super::convert;
use crate::documents;
use crate::port::{
    Collection, Document, DocumentChanges, DocumentKind, DocumentWrite, DocumentWritten, Expected,
    Position, Store,
};
use cairn_proto::memory::{self as pb, document_service_server::DocumentService};
use cairn_rpc::{RpcError, check_request_id, principal};
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Most documents of a page.
const MAX_PAGE: usize = 1000;

/// Documents over a store.
pub(super) struct Documents {
    store: Arc<dyn Store>,
}

impl Documents {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn write(&self, write: DocumentWrite) -> Result<DocumentWritten, RpcError> {
        Ok(self.store.write_document(write).await?)
    }
}

#[tonic::async_trait]
impl DocumentService for Documents {
    async fn put_document(
        &self,
        request: Request<pb::PutDocumentRequest>,
    ) -> Result<Response<pb::PutDocumentResponse>, Status> {
        let collection = collection(&request, request.get_ref().kind)?;
        let request = request.into_inner();
        let written = self.write(DocumentWrite {
            collection,
            id: id(request.id)?,
            value: Some(request.value),
            expected: expected(request.expected_version),
            operation_id: convert::operation_id(request.operation_id)?,
        });
        let written = written.await?;
        Ok(Response::new(pb::PutDocumentResponse {
            duplicate: written.duplicate,
            version: written.version,
            store_time_unix_ms: written.now_unix_ms,
        }))
    }

    async fn get_document(
        &self,
        request: Request<pb::GetDocumentRequest>,
    ) -> Result<Response<pb::GetDocumentResponse>, Status> {
        let collection = collection(&request, request.get_ref().kind)?;
        let id = id(request.into_inner().id)?;
        let found = self.store.get_document(&collection, &id).await;
        let document = found.map_err(RpcError::from)?.map(document);
        Ok(Response::new(pb::GetDocumentResponse { document }))
    }

    async fn list_documents(
        &self,
        request: Request<pb::ListDocumentsRequest>,
    ) -> Result<Response<pb::ListDocumentsResponse>, Status> {
        let collection = collection(&request, request.get_ref().kind)?;
        let pb::ListDocumentsRequest {
            after, page_size, ..
        } = request.into_inner();
        let (after, max) = (position(after)?, page_length(page_size)?);
        let counter = after.as_ref().map_or(0, |position| position.counter);
        let page = self.store.list_documents(&collection, counter, max).await;
        let page = page.map_err(RpcError::from)?;
        let position = documents::advance(after.as_ref(), &page).map_err(RpcError::from)?;
        Ok(Response::new(pb::ListDocumentsResponse {
            documents: page.documents.into_iter().map(document).collect(),
            position: Some(position_message(position)),
            is_last: page.is_last,
        }))
    }

    async fn delete_document(
        &self,
        request: Request<pb::DeleteDocumentRequest>,
    ) -> Result<Response<pb::DeleteDocumentResponse>, Status> {
        let collection = collection(&request, request.get_ref().kind)?;
        let request = request.into_inner();
        if request.expected_version == Some(0) {
            let error = RpcError::invalid("expected_version", "is 0");
            return Err(error
                .allowed("not set, or a version of the document")
                .into());
        }
        let written = self.write(DocumentWrite {
            collection,
            id: id(request.id)?,
            value: None,
            expected: expected(request.expected_version),
            operation_id: convert::operation_id(request.operation_id)?,
        });
        let written = written.await?;
        Ok(Response::new(pb::DeleteDocumentResponse {
            duplicate: written.duplicate,
            version: written.version,
            store_time_unix_ms: written.now_unix_ms,
        }))
    }

    type WatchDocumentsStream = BoxStream<'static, Result<pb::WatchDocumentsResponse, Status>>;

    async fn watch_documents(
        &self,
        request: Request<pb::WatchDocumentsRequest>,
    ) -> Result<Response<Self::WatchDocumentsStream>, Status> {
        let collection = collection(&request, request.get_ref().kind)?;
        let after = position(request.into_inner().after)?;
        let changes = self.store.watch_documents(&collection, after).await;
        let changes = changes.map_err(RpcError::from)?;
        let changes = changes.map(|changes| match changes {
            Ok(DocumentChanges {
                documents,
                position,
            }) => Ok(pb::WatchDocumentsResponse {
                documents: documents.into_iter().map(document).collect(),
                position: Some(position_message(position)),
            }),
            Err(error) => Err(RpcError::from(error).into()),
        });
        Ok(Response::new(changes.boxed()))
    }
}

/// The documents of a kind in the caller's namespace.
fn collection<T>(request: &Request<T>, kind: i32) -> Result<Collection, RpcError> {
    let namespace = principal(request)?.namespace();
    let kind = match pb::DocumentKind::try_from(kind) {
        Ok(pb::DocumentKind::Agent) => DocumentKind::Agent,
        Ok(pb::DocumentKind::Hook) => DocumentKind::Hook,
        Ok(pb::DocumentKind::Page) => DocumentKind::Page,
        Ok(pb::DocumentKind::Resource) => DocumentKind::Resource,
        Ok(pb::DocumentKind::ToolServer) => DocumentKind::ToolServer,
        Ok(pb::DocumentKind::Allowance) => DocumentKind::Allowance,
        Ok(pb::DocumentKind::Grant) => DocumentKind::Grant,
        Ok(pb::DocumentKind::Unspecified) => return Err(RpcError::missing("kind")),
        Err(_) => {
            return Err(RpcError::invalid("kind", format!("is {kind}")).allowed("1 to 7"));
        }
    };
    Ok(Collection::new(namespace.as_str(), kind))
}

fn id(id: String) -> Result<String, RpcError> {
    check_request_id("id", &id)?;
    Ok(id)
}

/// 0 for a document that does not exist.
fn expected(version: Option<u64>) -> Expected {
    match version {
        None => Expected::Any,
        Some(0) => Expected::Absent,
        Some(version) => Expected::Version(version),
    }
}

fn page_length(page_size: u32) -> Result<usize, RpcError> {
    match usize::try_from(page_size).unwrap_or(usize::MAX) {
        0 => Ok(MAX_PAGE),
        size if size <= MAX_PAGE => Ok(size),
        size => Err(RpcError::invalid("page_size", format!("is {size}")).allowed("0 to 1000")),
    }
}

fn position(position: Option<pb::DocumentPosition>) -> Result<Option<Position>, RpcError> {
    let Some(position) = position else {
        return Ok(None);
    };
    check_request_id("after.incarnation", &position.incarnation)?;
    Ok(Some(Position {
        incarnation: position.incarnation,
        counter: position.counter,
        since: position.since,
    }))
}

fn position_message(position: Position) -> pb::DocumentPosition {
    pb::DocumentPosition {
        incarnation: position.incarnation,
        counter: position.counter,
        since: position.since,
    }
}

fn document(document: Document) -> pb::Document {
    pb::Document {
        id: document.id,
        version: document.version,
        changed_unix_ms: document.changed_unix_ms,
        deleted: document.value.is_none(),
        value: document.value.unwrap_or_default(),
    }
}
