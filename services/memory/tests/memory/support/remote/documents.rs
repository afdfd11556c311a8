//! Documents over a link.

use super::RemoteStore;
use crate::support::wire::{in_namespace, refused};
use async_trait::async_trait;
use cairn_memory::port::*;
use cairn_proto::memory as pb;
use futures::StreamExt as _;

fn kind(collection: &Collection) -> i32 {
    let kind = match collection.kind() {
        DocumentKind::Agent => pb::DocumentKind::Agent,
        DocumentKind::Hook => pb::DocumentKind::Hook,
        DocumentKind::Page => pb::DocumentKind::Page,
        DocumentKind::Resource => pb::DocumentKind::Resource,
        DocumentKind::ToolServer => pb::DocumentKind::ToolServer,
        DocumentKind::Allowance => pb::DocumentKind::Allowance,
        DocumentKind::Grant => pb::DocumentKind::Grant,
    };
    kind.into()
}

fn expected(expected: Expected) -> Option<u64> {
    match expected {
        Expected::Any => None,
        Expected::Absent => Some(0),
        Expected::Version(version) => Some(version),
    }
}

fn document(document: pb::Document) -> Document {
    assert!(!document.deleted || document.value.is_empty());
    Document {
        id: document.id,
        version: document.version,
        changed_unix_ms: document.changed_unix_ms,
        value: (!document.deleted).then_some(document.value),
    }
}

fn documents(documents: Vec<pb::Document>) -> Vec<Document> {
    documents.into_iter().map(document).collect()
}

fn position(position: Option<pb::DocumentPosition>) -> Position {
    let position = position.unwrap();
    Position {
        incarnation: position.incarnation,
        counter: position.counter,
        since: position.since,
    }
}

fn position_message(position: Position) -> pb::DocumentPosition {
    pb::DocumentPosition {
        incarnation: position.incarnation,
        counter: position.counter,
        since: position.since,
    }
}

impl RemoteStore {
    async fn page(
        &self,
        collection: &Collection,
        after: Option<Position>,
        page_size: u32,
    ) -> StoreResult<pb::ListDocumentsResponse> {
        let message = pb::ListDocumentsRequest {
            kind: kind(collection),
            after: after.map(position_message),
            page_size,
        };
        let request = in_namespace(collection.namespace(), message);
        let answer = self.documents.clone().list_documents(request).await;
        Ok(answer.map_err(refused)?.into_inner())
    }
}

#[async_trait]
impl Documents for RemoteStore {
    async fn write_document(&self, write: DocumentWrite) -> StoreResult<DocumentWritten> {
        let (kind, expected_version) = (kind(&write.collection), expected(write.expected));
        let namespace = write.collection.namespace();
        let mut client = self.documents.clone();
        let (duplicate, version, now_unix_ms) = match write.value {
            Some(value) => {
                let message = pb::PutDocumentRequest {
                    kind,
                    id: write.id,
                    value,
                    expected_version,
                    operation_id: write.operation_id,
                };
                let answer = client.put_document(in_namespace(namespace, message)).await;
                let answer = answer.map_err(refused)?.into_inner();
                (answer.duplicate, answer.version, answer.store_time_unix_ms)
            }
            None => {
                let message = pb::DeleteDocumentRequest {
                    kind,
                    id: write.id,
                    expected_version,
                    operation_id: write.operation_id,
                };
                let answer = client
                    .delete_document(in_namespace(namespace, message))
                    .await;
                let answer = answer.map_err(refused)?.into_inner();
                (answer.duplicate, answer.version, answer.store_time_unix_ms)
            }
        };
        Ok(DocumentWritten {
            duplicate,
            version,
            now_unix_ms,
        })
    }

    async fn get_document(
        &self,
        collection: &Collection,
        id: &str,
    ) -> StoreResult<Option<Document>> {
        let message = pb::GetDocumentRequest {
            kind: kind(collection),
            id: id.to_owned(),
        };
        let request = in_namespace(collection.namespace(), message);
        let answer = self.documents.clone().get_document(request).await;
        Ok(answer.map_err(refused)?.into_inner().document.map(document))
    }

    /// The service takes no version beyond the last, and says where the floor is to nobody.
    async fn list_documents(
        &self,
        collection: &Collection,
        after: u64,
        max: usize,
    ) -> StoreResult<DocumentPage> {
        let first = position(self.page(collection, None, 1).await?.position);
        let begin = Position {
            counter: after.min(first.since),
            since: u64::MAX,
            ..first
        };
        let page_size = u32::try_from(max.clamp(1, 1000)).unwrap();
        let page = self.page(collection, Some(begin), page_size).await?;
        let read = position(page.position);
        let head = self.behind.document_head(collection).await?;
        let mut documents = documents(page.documents);
        documents.retain(|document| document.version > after);
        Ok(DocumentPage {
            head: Head {
                incarnation: read.incarnation,
                counter: match page.is_last {
                    true => read.counter,
                    false => head.counter,
                },
                floor: head.floor,
            },
            documents,
            is_last: page.is_last,
        })
    }

    async fn watch_documents(
        &self,
        collection: &Collection,
        after: Option<Position>,
    ) -> StoreResult<DocumentStream> {
        let message = pb::WatchDocumentsRequest {
            kind: kind(collection),
            after: after.map(position_message),
        };
        let request = in_namespace(collection.namespace(), message);
        let answer = self.documents.clone().watch_documents(request).await;
        let messages = answer.map_err(refused)?.into_inner();
        let changes = messages.map(|message| match message {
            Ok(message) => Ok(DocumentChanges {
                documents: documents(message.documents),
                position: position(message.position),
            }),
            Err(status) => Err(refused(status)),
        });
        Ok(changes.boxed())
    }

    async fn purge_documents(&self, max: usize) -> StoreResult<usize> {
        self.behind.purge_documents(max).await
    }
}
