//! One connection, one request, one answer.

use super::Metrics;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
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
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(super) async fn answer(stream: TcpStream, metrics: Metrics) {
    let service = service_fn(|request| {
        let response = respond(&request, &metrics);
        async { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that is too slow, leaves early or speaks no HTTP gets no answer. That concerns no
    // other client.
    let _ = tokio::time::timeout(LIMIT, served).await;
}

fn respond<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let is_get = request.method() == Method::GET;
    let (status, kind, text) = match request.uri().path() {
        "/metrics" | "/healthz" if !is_get => (
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "only GET\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, PROMETHEUS_TEXT, metrics.render()),
        "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        _ => {
            let paths = "there are /metrics and /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, TEXT, paths)
        }
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}
