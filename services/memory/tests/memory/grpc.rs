//! The services over a local link: principals keep namespaces apart, and what the contracts say of
//! answers holds.

use crate::support::clients::{Clients, clients, creation, from, transition};
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{Exposure, ServerBuilder};
use tonic::Code;

#[tokio::test]
async fn a_call_without_a_namespace_is_refused() {
    let Clients {
        mut journal,
        mut memory,
        ..
    } = clients().await;
    let refused = journal.create_session(creation()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let get = pb::GetMemoryRequest {
        session: "s-1".to_owned(),
        key: "k".to_owned(),
    };
    let refused = memory.get_memory(get).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    journal.get_time(pb::GetTimeRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_session_of_another_namespace_is_not_found() {
    let Clients {
        mut journal,
        mut memory,
        ..
    } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    let read = pb::ReadEventsRequest {
        session: "s-1".to_owned(),
        ..Default::default()
    };
    let refused = journal.read_events(from("b", read)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "session \"s-1\" does not exist");
    let refused = journal.commit(from("b", transition())).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let list = pb::ListMemoryRequest {
        session: "s-1".to_owned(),
    };
    let refused = memory.list_memory(from("b", list)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn clients_from_outside_reach_session_memory_alone() {
    let Clients {
        mut journal,
        service,
        ..
    } = clients().await;
    journal
        .create_session(from("default", creation()))
        .await
        .unwrap();
    let exposure = Exposure::Public(None);
    let public = service
        .register_public(ServerBuilder::new(exposure))
        .build()
        .await
        .unwrap();
    let mut memory = SessionMemoryServiceClient::new(public.link());
    let set = |session: &str| pb::SetMemoryRequest {
        session: session.to_owned(),
        key: "note".to_owned(),
        value: "a < b\nand more".to_owned(),
        // No model sees it.
        metadata: [("source".to_owned(), "mail".to_owned())].into(),
    };
    assert_eq!(
        memory
            .set_memory(set("s-1"))
            .await
            .unwrap()
            .into_inner()
            .seq,
        2
    );
    // A namespace that a client names is thrown away.
    memory
        .set_memory(from("elsewhere", set("s-1")))
        .await
        .unwrap();
    let snapshot = pb::SnapshotMemoryRequest {
        session: "s-1".to_owned(),
    };
    let text = memory
        .snapshot_memory(snapshot)
        .await
        .unwrap()
        .into_inner()
        .text;
    assert_eq!(
        text,
        "<session-context>\nnote: a &lt; b\\nand more\n</session-context>"
    );
    let mut journal = JournalServiceClient::new(public.link());
    let refused = journal.get_time(pb::GetTimeRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_snapshot_that_fits_no_message_is_refused() {
    let Clients {
        mut journal,
        mut memory,
        ..
    } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    for number in 0..17 {
        let set = pb::SetMemoryRequest {
            session: "s-1".to_owned(),
            key: format!("k{number}"),
            value: "&".repeat(60_000),
            ..Default::default()
        };
        memory.set_memory(from("a", set)).await.unwrap();
    }
    let snapshot = pb::SnapshotMemoryRequest {
        session: "s-1".to_owned(),
    };
    let refused = memory
        .snapshot_memory(from("a", snapshot))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let list = pb::ListMemoryRequest {
        session: "s-1".to_owned(),
    };
    let entries = memory
        .list_memory(from("a", list))
        .await
        .unwrap()
        .into_inner()
        .entries;
    assert_eq!(entries.len(), 17);
}

#[tokio::test]
async fn the_largest_checkpoint_and_blob_fit() {
    let Clients {
        mut journal,
        server,
        ..
    } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    let mut large = transition();
    large.checkpoint = Some(pb::Checkpoint {
        through_seq: 1,
        state: vec![1; 64 << 20].into(),
    });
    journal.commit(from("a", large)).await.unwrap();
    let mut reader = JournalServiceClient::new(server.link())
        .max_decoding_message_size(cairn_memory::grpc::MAX_JOURNAL_MESSAGE_BYTES);
    let get = pb::GetCheckpointRequest {
        session: "s-1".to_owned(),
        at_or_before_seq: 0,
    };
    let found = reader
        .get_checkpoint(from("a", get))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.checkpoint.unwrap().state.len(), 64 << 20);
    let blob = pb::PutBlobRequest {
        part: false,
        session: "s-1".to_owned(),
        data: vec![2; 3 << 20].into(),
    };
    let digest = journal
        .put_blob(from("a", blob))
        .await
        .unwrap()
        .into_inner()
        .digest;
    let get = pb::GetBlobRequest {
        session: "s-1".to_owned(),
        digest,
    };
    let data = journal
        .get_blob(from("a", get))
        .await
        .unwrap()
        .into_inner()
        .data;
    assert_eq!(data.len(), 3 << 20);
}
