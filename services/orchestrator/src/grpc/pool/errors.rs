//! The errors of the pool, made of those of the store's documents.

use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;
use tonic::Status;

const MISMATCH: &str = "VERSION_MISMATCH";
/// When a change may be tried again that other changes overtook.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Nothing is registered under the id.
pub(super) fn missing(id: &str) -> RpcError {
    RpcError::not_found("registered resource", id).reason("RESOURCE_NOT_FOUND")
}

/// The error for a registration that the store refused.
pub(super) fn of_change(status: &Status, id: &str) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        "DOCUMENT_VERSION" => mismatched(id, error.metadata("version").unwrap_or("0")),
        "REQUEST_MISMATCH" => other_request(),
        "LIMIT" => full(error),
        _ => error,
    }
}

/// The same for a removal: what is not registered has no version to be another.
pub(super) fn of_removal(status: &Status, id: &str) -> RpcError {
    let error = of_change(status, id);
    match error.reason_name() == MISMATCH && error.metadata("version") == Some("0") {
        true => missing(id),
        false => error,
    }
}

/// The error for a grant that the store refused.
pub(super) fn of_grant(error: RpcError) -> RpcError {
    match error.reason_name() {
        "REQUEST_MISMATCH" => other_request(),
        "LIMIT" => full(error),
        _ => error,
    }
}

/// Others changed the same grants each time before this change was stored.
pub(super) fn overtaken(subject: &str) -> RpcError {
    let message = format!("the grants of {subject} change too fast; nothing was changed");
    RpcError::overloaded(message, RETRY_AFTER)
}

/// More tools than one agent or executor may have grants and revocations of.
pub(super) fn too_many_tools(subject: &str, most: usize) -> RpcError {
    let message = format!("{subject} would have more than {most} grants and revocations");
    let full = RpcError::exhausted(message).reason("LIMIT");
    full.meta("limit", "tools")
        .meta("allowed", most.to_string())
}

fn other_request() -> RpcError {
    let message = "another change of the pool had this request_id";
    RpcError::new(ErrorKind::AlreadyExists, message).reason("REQUEST_MISMATCH")
}

fn mismatched(id: &str, version: &str) -> RpcError {
    let message = match version {
        "0" => format!("resource \"{id}\" is not registered, and a version of it was expected"),
        version => format!(
            "resource \"{id}\" has version {version}, and another was expected; read the pool again"
        ),
    };
    let error = RpcError::precondition(message).reason(MISMATCH);
    error.meta("version", version)
}

fn full(error: RpcError) -> RpcError {
    let limit = error.metadata("limit").unwrap_or_default();
    let allowed = error.metadata("allowed").unwrap_or_default();
    let message = match limit {
        "documents" => format!("{allowed} are stored, which is the most"),
        "collection_bytes" => format!("all of them would have more than {allowed} bytes"),
        "document_bytes" => format!("it has more than {allowed} bytes"),
        // Such as no room on the disk.
        _ => return error,
    };
    let full = RpcError::exhausted(message).reason("LIMIT");
    full.meta("limit", limit).meta("allowed", allowed)
}
