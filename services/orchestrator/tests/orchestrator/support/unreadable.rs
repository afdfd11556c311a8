//! Sessions that this version cannot read.

use super::journal::for_tenant;
use super::world::World;
use cairn_proto::memory as pb;

/// A session that waits for a person, with events of a kind that nobody knows yet. With the number of
/// a command, it is also queued for an owner.
pub(crate) async fn put_newer(world: &World, session: &str, last_command_seq: u64) {
    // The time, and an empty message in the field 900.
    put(
        world,
        session,
        &[0x08, 0x01, 0xa2, 0x38, 0x00],
        last_command_seq,
    )
    .await;
}

/// The same with events that no version can read.
pub(crate) async fn put_damaged(world: &World, session: &str, last_command_seq: u64) {
    put(world, session, &[0xff, 0xff], last_command_seq).await;
}

async fn put(world: &World, session: &str, event: &[u8], last_command_seq: u64) {
    let event = bytes::Bytes::copy_from_slice(event);
    let header = pb::Header {
        status: pb::SessionStatus::Waiting.into(),
        pending: vec![pb::PendingKind {
            kind: 1,
            since_unix_ms: 1,
            count: 1,
        }],
        ..pb::Header::default()
    };
    let request = pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: "make".to_owned(),
        request_digest: vec![1; 32].into(),
        events: vec![event.clone(), event],
        last_command_seq,
        header: Some(header),
        operation_id: "operation".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let made = journal.create_session(for_tenant(request)).await;
    made.expect("a session");
}
