//! `cairn.memory.v1.SessionMemoryService`.

use super::convert::{memory_entries, memory_entry, memory_key, metadata, session_key};
use super::watch_memory;
use crate::error::{about, about_cursor};
use crate::port::{MemoryWrite, SessionKey, Store};
use cairn_engine::prompt::memory::snapshot;
use cairn_proto::memory::{self as pb, session_memory_service_server::SessionMemoryService};
use cairn_rpc::{MAX_MESSAGE_BYTES, Principal, RpcError, principal};
use futures::stream::BoxStream;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// What a message takes beside its text.
const FRAME_BYTES: usize = 64;

/// Session memory over a store.
pub(super) struct SessionMemory {
    store: Arc<dyn Store>,
}

impl SessionMemory {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn write(
        &self,
        key: &SessionKey,
        change: MemoryWrite,
        by: &Principal,
    ) -> Result<u64, RpcError> {
        let written = self.store.write_memory(key, change, by).await;
        written.map_err(about(key))
    }
}

#[tonic::async_trait]
impl SessionMemoryService for SessionMemory {
    async fn set_memory(
        &self,
        request: Request<pb::SetMemoryRequest>,
    ) -> Result<Response<pb::SetMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let by = principal(&request)?.clone();
        let request = request.into_inner();
        let change = MemoryWrite::Set {
            key: memory_key("key", request.key)?,
            value: request.value,
            metadata: metadata("metadata", request.metadata)?,
            at_unix_ms: None,
        };
        let seq = self.write(&key, change, &by).await?;
        Ok(Response::new(pb::SetMemoryResponse { seq }))
    }

    async fn get_memory(
        &self,
        request: Request<pb::GetMemoryRequest>,
    ) -> Result<Response<pb::GetMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let name = memory_key("key", request.into_inner().key)?;
        let found = self.store.get_memory(&key, &name).await;
        let entry = found.map_err(about(&key))?;
        let entry = entry.map(|entry| memory_entry(key.session(), entry));
        Ok(Response::new(pb::GetMemoryResponse {
            value: entry.as_ref().map(|entry| entry.value.clone()),
            entry,
        }))
    }

    async fn remove_memory(
        &self,
        request: Request<pb::RemoveMemoryRequest>,
    ) -> Result<Response<pb::RemoveMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let by = principal(&request)?.clone();
        let name = memory_key("key", request.into_inner().key)?;
        let change = MemoryWrite::Remove { key: name };
        let seq = self.write(&key, change, &by).await?;
        Ok(Response::new(pb::RemoveMemoryResponse { seq }))
    }

    async fn clear_memory(
        &self,
        request: Request<pb::ClearMemoryRequest>,
    ) -> Result<Response<pb::ClearMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let by = principal(&request)?;
        let seq = self.write(&key, MemoryWrite::Clear, by).await?;
        Ok(Response::new(pb::ClearMemoryResponse { seq }))
    }

    async fn list_memory(
        &self,
        request: Request<pb::ListMemoryRequest>,
    ) -> Result<Response<pb::ListMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let list = self.store.list_memory(&key).await.map_err(about(&key))?;
        Ok(Response::new(pb::ListMemoryResponse {
            entries: memory_entries(key.session(), list.entries),
            seq: list.last_seq,
        }))
    }

    async fn snapshot_memory(
        &self,
        request: Request<pb::SnapshotMemoryRequest>,
    ) -> Result<Response<pb::SnapshotMemoryResponse>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let list = self.store.list_memory(&key).await.map_err(about(&key))?;
        let text = snapshot(list.entries.iter().map(|entry| (&entry.key, &entry.value)));
        if text.len() > MAX_MESSAGE_BYTES - FRAME_BYTES {
            // Escaping makes text longer, so what can be stored need not fit here.
            let message = format!("the snapshot has {} bytes, more than a message", text.len());
            return Err(RpcError::exhausted(message)
                .reason(crate::error::LIMIT)
                .into());
        }
        Ok(Response::new(pb::SnapshotMemoryResponse { text }))
    }

    type WatchMemoryStream = BoxStream<'static, Result<pb::WatchMemoryResponse, Status>>;

    async fn watch_memory(
        &self,
        request: Request<pb::WatchMemoryRequest>,
    ) -> Result<Response<Self::WatchMemoryStream>, Status> {
        let key = session_key(&request, &request.get_ref().session)?;
        let after_seq = request.get_ref().after_seq;
        let watch = watch_memory::watch(&self.store, &key, after_seq).await;
        Ok(Response::new(watch.map_err(about_cursor(&key))?))
    }
}
