//! Errors of the store's documents in the words of agents.

use crate::agents::in_unconfirmed_file;
use crate::store::NEWER_VERSION;
use cairn_agents::AgentError;
use cairn_engine::refusal::Refusal;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

const MISMATCH: &str = "VERSION_MISMATCH";

/// No agent has the name.
pub(super) fn missing(name: &str) -> RpcError {
    RpcError::not_found("agent", name).reason("AGENT_NOT_FOUND")
}

/// The agent is in a file that no person has confirmed as it is now.
pub(super) fn unconfirmed(name: &str) -> RpcError {
    not_usable(in_unconfirmed_file(name))
}

/// The file of the agent has faults.
pub(super) fn faulty(name: &str, error: &AgentError) -> RpcError {
    let faults = error.faults.iter().map(|fault| fault.to_line(&error.path));
    let faults = faults.collect::<Vec<_>>().join("; ");
    not_usable(format!(
        "agent \"{name}\" has a file with faults, which does not count: {faults}"
    ))
}

fn not_usable(message: String) -> RpcError {
    RpcError::precondition(message).reason(Refusal::AgentNotUsable.name())
}

/// Another version stored the agent, and took its source.
pub(super) fn unreadable(name: &str, problem: &str) -> RpcError {
    let message = format!(
        "agent \"{name}\" was stored by another version, and this one cannot read it: {problem}"
    );
    RpcError::precondition(message).reason(NEWER_VERSION)
}

/// The error for a change that the store refused.
pub(super) fn of_change(status: &Status, name: &str) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        "DOCUMENT_VERSION" => mismatched(name, error.metadata("version").unwrap_or("0")),
        "REQUEST_MISMATCH" => {
            let message = "another request about agents had this request_id";
            RpcError::new(ErrorKind::AlreadyExists, message).reason("REQUEST_MISMATCH")
        }
        "LIMIT" => full(error),
        _ => error,
    }
}

/// The same for a deletion: an agent that does not exist has no version to be another.
pub(super) fn of_deletion(status: &Status, name: &str) -> RpcError {
    let error = of_change(status, name);
    match error.reason_name() == MISMATCH && error.metadata("version") == Some("0") {
        true => missing(name),
        false => error,
    }
}

/// The error for a list that the store refused.
pub(super) fn of_list(status: &Status) -> RpcError {
    let error = RpcError::from_status(status);
    match error.reason_name() {
        "RELIST" => {
            let message = "the list cannot continue after this page; begin with the first page";
            RpcError::new(ErrorKind::OutOfRange, message).reason("RELIST")
        }
        _ => error,
    }
}

fn mismatched(name: &str, version: &str) -> RpcError {
    let message = match version {
        "0" => format!("agent \"{name}\" does not exist, and a version of it was expected"),
        version => format!(
            "agent \"{name}\" has version {version}, and another was expected; read it again"
        ),
    };
    let error = RpcError::precondition(message).reason(MISMATCH);
    error.meta("version", version)
}

fn full(error: RpcError) -> RpcError {
    let limit = error.metadata("limit").unwrap_or_default();
    let allowed = error.metadata("allowed").unwrap_or_default();
    let message = match limit {
        "documents" => format!("the namespace has {allowed} agents, which is the most"),
        "collection_bytes" => {
            format!("the agents of the namespace would have more than {allowed} bytes")
        }
        "document_bytes" => format!("the agent has more than {allowed} bytes"),
        // Such as no room on the disk.
        _ => return error,
    };
    let full = RpcError::exhausted(message).reason("LIMIT");
    full.meta("limit", limit).meta("allowed", allowed)
}
