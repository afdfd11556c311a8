//! Changes of session memory over the generated client.

use super::super::wire::{about, refused, session};
use cairn_memory::port::{MemoryEntry, MemoryList, MemoryWrite, SessionKey, StoreResult};
use cairn_proto::memory as pb;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::time::unix_ms;
use cairn_rpc::{Link, Principal, with_principal};
use tonic::{Request, Status};

/// Answers the number of the event that says so.
pub(super) async fn write(
    mut client: SessionMemoryServiceClient<Link>,
    key: &SessionKey,
    change: MemoryWrite,
    by: &Principal,
) -> Result<u64, Status> {
    let session = session(key);
    match change {
        MemoryWrite::Set {
            key: name,
            value,
            metadata,
            ..
        } => {
            let key_value = pb::SetMemoryRequest {
                session,
                key: name,
                value,
                metadata,
            };
            client
                .set_memory(with_principal(Request::new(key_value), by))
                .await
                .map(|a| a.into_inner().seq)
        }
        MemoryWrite::Remove { key: name } => {
            let name = pb::RemoveMemoryRequest { session, key: name };
            client
                .remove_memory(with_principal(Request::new(name), by))
                .await
                .map(|a| a.into_inner().seq)
        }
        MemoryWrite::Clear => {
            let all = pb::ClearMemoryRequest { session };
            client
                .clear_memory(with_principal(Request::new(all), by))
                .await
                .map(|a| a.into_inner().seq)
        }
    }
}

/// One key of a session's memory.
pub(super) async fn get(
    mut client: SessionMemoryServiceClient<Link>,
    key: &SessionKey,
    name: &str,
) -> StoreResult<Option<MemoryEntry>> {
    let message = pb::GetMemoryRequest {
        session: session(key),
        key: name.to_owned(),
    };
    let answer = client.get_memory(about(key, message)).await;
    let answer = answer.map_err(refused)?.into_inner();
    let found = answer.entry.map(|found| entry(key, found));
    assert_eq!(
        found.as_ref().map(|found| &found.value),
        answer.value.as_ref()
    );
    Ok(found)
}

/// An entry, whose names follow from its session and its key.
fn entry(session: &SessionKey, entry: pb::MemoryEntry) -> MemoryEntry {
    assert_eq!(entry.namespace, format!("_session_{}", session.session()));
    assert_eq!(entry.id, format!("{}:{}", entry.namespace, entry.key));
    MemoryEntry {
        key: entry.key,
        value: entry.value,
        metadata: entry.metadata,
        created_unix_ms: entry.create_time.map(unix_ms),
        updated_unix_ms: entry.update_time.map(unix_ms),
    }
}

/// All of a session's memory.
pub(super) async fn list(
    mut client: SessionMemoryServiceClient<Link>,
    key: &SessionKey,
) -> StoreResult<MemoryList> {
    let message = pb::ListMemoryRequest {
        session: session(key),
    };
    let answer = client.list_memory(about(key, message)).await;
    let answer = answer.map_err(refused)?.into_inner();
    Ok(MemoryList {
        entries: (answer.entries.into_iter())
            .map(|found| entry(key, found))
            .collect(),
        last_seq: answer.seq,
    })
}
