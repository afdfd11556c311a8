//! Refusals that the transport makes up before a handler sees the request, in Cairn's own words.

use crate::error::{ErrorKind, RpcError};
use crate::server::MAX_MESSAGE_BYTES;
use http::HeaderMap;
use tonic::{Code, Status};

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
