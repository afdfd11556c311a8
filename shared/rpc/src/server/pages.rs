//! Pages over HTTP beside the gRPC services.

use super::{ConnectionInfo, Exposure, Health};
use crate::error::{ErrorKind, RpcError};
use crate::guard;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;

/// `GET /healthz`: the status that the health service reports for the whole server. Like that service,
/// it asks for no principal.
pub(super) fn health(health: Health) -> Router {
    let page = async move || match health.is_serving().await {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not serving\n"),
    };
    counted(Router::new().route("/healthz", get(page)))
}

/// The pages, for callers that the exposure admits.
pub(super) fn guarded(pages: Router, exposure: Exposure) -> Router {
    counted(pages.route_layer(from_fn_with_state(exposure, admit)))
}

/// A page counts as an open call of its connection, so an idle connection ends and a busy one stays.
fn counted(pages: Router) -> Router {
    pages.route_layer(from_fn(async |mut request: Request, next: Next| {
        let _open = ConnectionInfo::enter(request.extensions_mut());
        next.run(request).await
    }))
}

async fn admit(State(exposure): State<Exposure>, request: Request, next: Next) -> Response {
    let request = request.map(tonic::body::Body::new);
    match guard::admit(&exposure, request).await {
        Ok(request) => next.run(request.map(Body::new)).await,
        Err(error) => refused(&error),
    }
}

fn refused(error: &RpcError) -> Response {
    let status = match error.kind() {
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", error.message())).into_response()
}
