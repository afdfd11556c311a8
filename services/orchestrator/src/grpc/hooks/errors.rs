//! Errors of the store's documents in the words of hooks.

use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

const MISMATCH: &str = "VERSION_MISMATCH";
const OF_SETTINGS: &str = "HOOK_OF_SETTINGS";

/// No hook has the name.
pub(super) fn missing(name: &str) -> RpcError {
    RpcError::not_found("hook", name).reason("HOOK_NOT_FOUND")
}

/// The operator does not let clients store hooks with this address.
pub(super) fn not_allowed(url: &str, allowed: &str) -> RpcError {
    let message = match allowed {
        "" => format!(
            "no hook can be stored with the address {url}: the operator has to allow addresses in the settings, with \
             serve.hook_addresses"
        ),
        allowed => format!(
            "no hook can be stored with the address {url}; the settings (serve.hook_addresses) allow: {allowed}"
        ),
    };
    let error = RpcError::new(ErrorKind::PermissionDenied, message);
    error.reason("ADDRESS_NOT_ALLOWED").meta("allowed", allowed)
}

/// A hook of the settings has the name that a client chose.
pub(super) fn of_settings_exists(name: &str) -> RpcError {
    let message = format!("the settings have a hook \"{name}\"; choose another name");
    RpcError::new(ErrorKind::AlreadyExists, message).reason(OF_SETTINGS)
}

/// Only the operator can remove a hook of the settings.
pub(super) fn of_settings(name: &str) -> RpcError {
    let message = format!(
        "hook \"{name}\" is one of the settings; remove it there, in [[hooks]], and restart"
    );
    RpcError::precondition(message).reason(OF_SETTINGS)
}

/// The namespace has as many hooks as it may.
pub(super) fn full(most: usize) -> RpcError {
    let message = format!("the namespace has {most} hooks, which is the most; delete one first");
    let error = RpcError::exhausted(message).reason("LIMIT");
    error
        .meta("limit", "hooks")
        .meta("allowed", most.to_string())
}

/// The error for a change that the store refused.
pub(super) fn of_change(status: &Status, name: &str) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        "DOCUMENT_VERSION" => mismatched(name, error.metadata("version").unwrap_or("0")),
        "REQUEST_MISMATCH" => {
            let message = "another request about hooks had this request_id";
            RpcError::new(ErrorKind::AlreadyExists, message).reason("REQUEST_MISMATCH")
        }
        _ => error,
    }
}

/// The same for a deletion: a hook that does not exist has no version to be another.
pub(super) fn of_deletion(status: &Status, name: &str) -> RpcError {
    let error = of_change(status, name);
    match error.reason_name() == MISMATCH && error.metadata("version") == Some("0") {
        true => missing(name),
        false => error,
    }
}

fn mismatched(name: &str, version: &str) -> RpcError {
    let message = match version {
        "0" => format!("hook \"{name}\" does not exist, and a version of it was expected"),
        version => format!(
            "hook \"{name}\" has version {version}, and another was expected; read it again"
        ),
    };
    let error = RpcError::precondition(message).reason(MISMATCH);
    error.meta("version", version)
}
