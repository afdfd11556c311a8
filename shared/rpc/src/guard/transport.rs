//! Refusals before a handler sees the request: headers that are too large, and those that the
//! transport makes up, in Cairn's own words.

use crate::error::{ErrorKind, RpcError};
use crate::server::MAX_MESSAGE_BYTES;
use http::{HeaderMap, Request, Version};
use tonic::{Code, Status};

/// The largest header list of a request, as HTTP/2 counts it: path, names and values, and 32 bytes
/// for each.
pub(crate) const MAX_HEADER_LIST_BYTES: usize = 16 * 1024;
/// What HTTP/2 adds for each entry.
const ENTRY_BYTES: usize = 32;

/// Refuses a request over HTTP/1, or with headers that are too large.
///
/// Pages are served over HTTP/1, too. A call over HTTP/1 could come from a browser: a page of any site
/// may send simple requests to this machine, and a listener may admit callers without a token.
pub(super) fn check_request<B>(request: &Request<B>, over_socket: bool) -> Result<(), RpcError> {
    if over_socket && request.version() < Version::HTTP_2 {
        let error = RpcError::precondition("a call needs HTTP/2");
        return Err(error.reason("HTTP_VERSION"));
    }
    check_headers(request)
}

/// The HTTP/2 library has a limit of its own, which has to be larger: it answers with the bare status
/// 431, which gRPC clients show as an unknown error.
fn check_headers<B>(request: &Request<B>) -> Result<(), RpcError> {
    let entries = request.headers().iter();
    let entries = entries.map(|(name, value)| name.as_str().len() + value.len() + ENTRY_BYTES);
    let path = request.uri().path().len() + ENTRY_BYTES;
    match path + entries.sum::<usize>() {
        ..=MAX_HEADER_LIST_BYTES => Ok(()),
        _ => Err(header_list_too_large()),
    }
}

/// The answer to such a request.
pub(crate) fn header_list_too_large() -> RpcError {
    RpcError::exhausted(format!(
        "the call's metadata is too large (allowed: at most {MAX_HEADER_LIST_BYTES} bytes, path \
         included, 32 bytes counted for each entry)"
    ))
    .reason("METADATA_TOO_LARGE")
}

/// The answer to a request that is no message or too large, in place of the transport's own, which
/// calls the first an internal error and gives neither a reason.
pub(super) fn in_own_words(headers: &HeaderMap) -> Option<Status> {
    let status = Status::from_header_map(headers)?;
    if !status.details().is_empty() {
        return None;
    }
    let text = status.message();
    let error = match status.code() {
        Code::OutOfRange if text.contains("message length too large") => RpcError::new(
            ErrorKind::OutOfRange,
            format!("the message is too large (allowed: at most {MAX_MESSAGE_BYTES} bytes)"),
        )
        .reason("MESSAGE_TOO_LARGE"),
        Code::Internal if is_malformed(text) => RpcError::new(
            ErrorKind::InvalidArgument,
            format!(
                "the request is no message of its type: {}",
                text.trim_end_matches('.')
            ),
        )
        .reason("MALFORMED_MESSAGE"),
        _ => return None,
    };
    Some(error.into())
}

fn is_malformed(text: &str) -> bool {
    [
        "failed to decode Protobuf message",
        "Missing request message",
        "Unexpected EOF decoding stream",
        "protocol error: received message with",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}
