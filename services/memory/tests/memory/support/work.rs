//! A session and its owner, for tests of what the conformance suite leaves to the backend.

use bytes::Bytes;
use cairn_memory::port::*;

pub(crate) fn key(session: &str) -> SessionKey {
    SessionKey::new("space", session)
}

pub(crate) fn creation(session: &str, owner: Option<&str>) -> Create {
    Create {
        key: key(session),
        request: RequestId {
            id: "creation".to_owned(),
            digest: Bytes::from("digest"),
        },
        operation_id: "create".to_owned(),
        events: vec![Bytes::from("created")],
        last_command_seq: 0,
        header: Header::default(),
        lease: owner.map(|owner| LeaseRequest {
            owner: owner.to_owned(),
            lease_ms: 10_000,
        }),
        time_to_live_ms: None,
    }
}

/// Transition `version` of a session whose transitions have one event each.
pub(crate) fn transition(session: &str, owner: &str, version: u64) -> Commit {
    Commit {
        key: key(session),
        owner: owner.to_owned(),
        epoch: 1,
        version,
        operation_id: format!("operation-{version}"),
        seen_seq: 1 + version,
        events: vec![Bytes::from(format!("event {version}"))],
        memory_writes: Vec::new(),
        header: Header::default(),
        lease: LeaseChange::Renew,
        lease_ms: 10_000,
        checkpoint: None,
        from_reserve: false,
        no_progress: false,
    }
}

pub(crate) fn claim(owner: &str) -> ClaimRequest {
    ClaimRequest {
        owner: owner.to_owned(),
        max_sessions: 10,
        only: None,
        level: Level::FIRST,
        lease_ms: 10_000,
        wait: std::time::Duration::ZERO,
    }
}
