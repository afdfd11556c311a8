//! One connection, one request, one answer.

use super::Metrics;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::net::TcpStream;

/// A request and its answer take no longer than this.
const LIMIT: Duration = Duration::from_secs(5);
/// The request line and all headers take no longer than this.
const HEAD_LIMIT: Duration = Duration::from_secs(2);
/// The request line and all headers.
const MAX_HEAD_BYTES: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;

const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn answer(stream: TcpStream, pages: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages));
    // A client that is too slow, leaves early or speaks no HTTP gets no answer. That concerns no
    // other client.
    let _ = tokio::time::timeout(LIMIT, served).await;
}

/// The pages of the listener: `GET /metrics` and `GET /healthz`.
pub(super) fn pages(metrics: Metrics) -> Router {
    let shown = async move || ([(CONTENT_TYPE, PROMETHEUS_TEXT)], metrics.render());
    let unknown = async || (StatusCode::NOT_FOUND, "there are /metrics and /healthz\n");
    Router::new()
        .route("/metrics", get(shown))
        .route("/healthz", get(async || "ok\n"))
        .fallback(unknown)
        .layer(map_response(async |mut response: Response| {
            let no_store = HeaderValue::from_static("no-store");
            response.headers_mut().insert(CACHE_CONTROL, no_store);
            response
        }))
}
