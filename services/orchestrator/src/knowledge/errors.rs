//! Errors of the store's documents in the words of pages.

use crate::store::NEWER_VERSION;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

/// Reason: a list cannot continue, and is to be read from its beginning.
pub(crate) const RELIST: &str = "RELIST";

/// Reason: the page does not have the version that was expected.
pub(crate) const MISMATCH: &str = "VERSION_MISMATCH";

/// No page has the id.
pub(crate) fn missing(id: &str) -> RpcError {
    RpcError::not_found("page", id).reason("PAGE_NOT_FOUND")
}

/// Another version stored the page.
pub(crate) fn unreadable(id: &str) -> RpcError {
    let message =
        format!("page \"{id}\" was stored by another version, and this one cannot read it");
    RpcError::precondition(message).reason(NEWER_VERSION)
}

/// The index of a namespace needs more memory than all indexes have.
pub(super) fn does_not_fit(most: usize) -> RpcError {
    let message = format!(
        "the index of the pages does not fit into the {most} bytes that this server has for indexes; delete pages, or \
         have the operator raise knowledge.index_bytes"
    );
    limit("index_bytes", &most.to_string(), message)
}

/// The error for a change that the store refused.
pub(crate) fn of_change(status: &Status, id: &str) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        "DOCUMENT_VERSION" => mismatched(id, error.metadata("version").unwrap_or("0")),
        "REQUEST_MISMATCH" => {
            let message = "another change of a page had this request_id";
            RpcError::new(ErrorKind::AlreadyExists, message).reason("REQUEST_MISMATCH")
        }
        "LIMIT" => full(error),
        _ => error,
    }
}

/// The same for a deletion: a page that does not exist has no version to be another.
pub(crate) fn of_deletion(status: &Status, id: &str) -> RpcError {
    let error = of_change(status, id);
    match error.reason_name() == MISMATCH && error.metadata("version") == Some("0") {
        true => missing(id),
        false => error,
    }
}

/// The error for a list that the store refused.
pub(crate) fn of_list(status: &Status) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        RELIST => {
            let message = "the list cannot continue after this answer; begin with the first one";
            RpcError::new(ErrorKind::OutOfRange, message).reason(RELIST)
        }
        _ => error,
    }
}

fn mismatched(id: &str, version: &str) -> RpcError {
    let message = match version {
        "0" => format!("page \"{id}\" does not exist, and a version of it was expected"),
        version => {
            format!("page \"{id}\" has version {version}, and another was expected; read it again")
        }
    };
    let error = RpcError::precondition(message).reason(MISMATCH);
    error.meta("version", version)
}

fn full(error: RpcError) -> RpcError {
    let name = error.metadata("limit").unwrap_or_default();
    let allowed = error.metadata("allowed").unwrap_or_default();
    let message = match name {
        "documents" => {
            format!("the namespace has {allowed} pages, which is the most; delete one first")
        }
        "collection_bytes" => format!(
            "the pages of the namespace would have more than {allowed} bytes; delete one first"
        ),
        "document_bytes" => format!("the page has more than {allowed} bytes"),
        // Such as no room on the disk.
        _ => return error,
    };
    limit(name, allowed, message)
}

fn limit(name: &str, allowed: &str, message: String) -> RpcError {
    let error = RpcError::exhausted(message).reason("LIMIT");
    error.meta("limit", name).meta("allowed", allowed)
}
