//! Pages over HTTP beside the gRPC services.

use super::{ConnectionInfo, Exposure, Health};
use crate::error::{ErrorKind, RpcError};
use crate::guard;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
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
    counted(Router::new().route("/healthz", get(page)), None)
}

/// The pages, for callers that the exposure admits.
pub(super) fn guarded(pages: Router, exposure: Exposure) -> Router {
    counted(pages, Some(exposure))
}

/// A page counts as an open call of its connection, so an idle connection ends and a busy one stays.
fn counted(pages: Router, exposure: Option<Exposure>) -> Router {
    pages.route_layer(from_fn_with_state(exposure, enter))
}

async fn enter(
    State(exposure): State<Option<Exposure>>,
    mut request: Request,
    next: Next,
) -> Response {
    let open = ConnectionInfo::enter(request.extensions_mut());
    if let Some(exposure) = exposure {
        let asked = request.map(tonic::body::Body::new);
        request = match guard::admit(&exposure, asked).await {
            Ok(request) => request.map(Body::new),
            Err(error) => return refused(&error),
        };
        if let Some(open) = &open {
            open.admit();
        }
    }
    let answer = next.run(request).await;
    drop(open);
    answer
}

fn refused(error: &RpcError) -> Response {
    let status = match error.kind() {
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", error.message())).into_response()
}
