//! `cairn.api.v1.PoolService`: registrations and grants are documents of the namespace "default". States and free slots
//! are live, as the dispatcher of this process sees them.

mod checks;
mod context;
mod errors;
mod grants;
mod present;
mod watch;

use super::{Answer, Orchestrator};
use crate::dispatch::is_operator;
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_engine::key::{digest, hex};
use cairn_proto::api as pb;
use cairn_proto::api::pool_service_server::PoolService;
use cairn_proto::memory as memory_pb;
use cairn_rpc::{ErrorKind, Namespace, RpcError, check_request_id, principal};
use prost::Message as _;
use tonic::{Request, Response};

#[tonic::async_trait]
impl PoolService for Orchestrator {
    async fn put_resource(
        &self,
        request: Request<pb::PutResourceRequest>,
    ) -> Answer<pb::PutResourceResponse> {
        put(&self.requests, request).await
    }

    async fn remove_resource(
        &self,
        request: Request<pb::RemoveResourceRequest>,
    ) -> Answer<pb::RemoveResourceResponse> {
        remove(&self.requests, request).await
    }

    async fn grant_tool(
        &self,
        request: Request<pb::GrantToolRequest>,
    ) -> Answer<pb::GrantToolResponse> {
        grants::grant(&self.requests, request).await
    }

    async fn revoke_tool(
        &self,
        request: Request<pb::RevokeToolRequest>,
    ) -> Answer<pb::RevokeToolResponse> {
        grants::revoke(&self.requests, request).await
    }

    async fn get_pool(&self, request: Request<pb::GetPoolRequest>) -> Answer<pb::GetPoolResponse> {
        let is_operator = is_operator(principal(&request)?.namespace());
        let dispatch = &self.requests.deps().dispatch;
        // Of a process that has just begun, not everything is known at once.
        dispatch.known().await;
        let pool = dispatch.pool();
        Ok(Response::new(pb::GetPoolResponse {
            pool: Some(present::pool(&pool, is_operator)),
        }))
    }

    type WatchPoolStream = watch::Pools;

    async fn watch_pool(
        &self,
        request: Request<pb::WatchPoolRequest>,
    ) -> Answer<Self::WatchPoolStream> {
        let is_operator = is_operator(principal(&request)?.namespace());
        Ok(watch::watch(&self.requests, is_operator))
    }

    async fn get_agent_context(
        &self,
        request: Request<pb::GetAgentContextRequest>,
    ) -> Answer<pb::GetAgentContextResponse> {
        context::get(&self.requests, request).await
    }
}

/// # Errors
/// PermissionDenied unless the caller may change the pool.
fn check_operator<T>(request: &Request<T>) -> Result<(), RpcError> {
    let namespace = principal(request)?.namespace();
    if is_operator(namespace) {
        return Ok(());
    }
    let message = format!(
        "the namespace \"{namespace}\" cannot change the pool; only callers in the namespace \"default\" can"
    );
    let error = RpcError::new(ErrorKind::PermissionDenied, message);
    Err(error.reason("NOT_OPERATOR"))
}

/// A request about the pool's documents.
fn of_pool<T>(message: T) -> Request<T> {
    for_namespace(&Namespace::default(), message)
}

/// The operation id of a request. Clients may choose longer ids than the store takes.
fn operation_id(request_id: &str) -> String {
    hex(&digest(&[b"cairn.pool", request_id.as_bytes()]))
}

async fn put(
    requests: &Requests,
    request: Request<pb::PutResourceRequest>,
) -> Answer<pb::PutResourceResponse> {
    check_operator(&request)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let resource = checks::resource(&asked)?;
    let put = memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Resource.into(),
        id: resource.id.clone(),
        value: resource.encode_to_vec().into(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let put = documents.put_document(of_pool(put)).await;
    let put = put.map_err(|status| errors::of_change(&status, &resource.id))?;
    Ok(Response::new(pb::PutResourceResponse {
        version: put.into_inner().version,
    }))
}

async fn remove(
    requests: &Requests,
    request: Request<pb::RemoveResourceRequest>,
) -> Answer<pb::RemoveResourceResponse> {
    check_operator(&request)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    checks::resource_id("id", &asked.id)?;
    let delete = memory_pb::DeleteDocumentRequest {
        kind: memory_pb::DocumentKind::Resource.into(),
        id: asked.id.clone(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let deleted = documents.delete_document(of_pool(delete)).await;
    let deleted = deleted.map_err(|status| errors::of_removal(&status, &asked.id))?;
    match deleted.into_inner().version {
        0 => Err(errors::missing(&asked.id).into()),
        _ => Ok(Response::new(pb::RemoveResourceResponse {})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_rpc::Principal;

    #[test]
    fn only_the_operator_changes_the_pool() {
        let of = |namespace: &str| {
            let namespace = namespace.parse().expect("a namespace");
            let mut request = Request::new(());
            let principal = Principal::service("test", namespace);
            request.extensions_mut().insert(principal);
            request
        };
        assert!(check_operator(&of("default")).is_ok());
        let error = check_operator(&of("other")).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(error.reason_name(), "NOT_OPERATOR");
        assert!(error.message().contains("\"other\""), "{error}");
    }
}
