//! Changes of session memory over the generated client.

use super::super::wire::{about, session};
use cairn_memory::port::{MemoryWrite, SessionKey};
use cairn_proto::memory as pb;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::Link;
use tonic::Status;

/// Answers the number of the event that says so.
pub(super) async fn write(
    mut client: SessionMemoryServiceClient<Link>,
    key: &SessionKey,
    change: MemoryWrite,
) -> Result<u64, Status> {
    let session = session(key);
    match change {
        MemoryWrite::Set { key: name, value } => {
            let key_value = pb::SetMemoryRequest {
                session,
                key: name,
                value,
            };
            client
                .set_memory(about(key, key_value))
                .await
                .map(|a| a.into_inner().seq)
        }
        MemoryWrite::Remove { key: name } => {
            let name = pb::RemoveMemoryRequest { session, key: name };
            client
                .remove_memory(about(key, name))
                .await
                .map(|a| a.into_inner().seq)
        }
        MemoryWrite::Clear => {
            let all = pb::ClearMemoryRequest { session };
            client
                .clear_memory(about(key, all))
                .await
                .map(|a| a.into_inner().seq)
        }
    }
}
