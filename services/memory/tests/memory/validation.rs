//! What is wrong with a request is named by field.

use crate::support::clients::{Clients, clients, creation, field, from, transition};
use cairn_memory::{Config, Deps, StoreConfig, build};
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_wrong_creation_is_refused_by_field() {
    let clients = clients().await;
    type Fault = fn(&mut pb::CreateSessionRequest);
    let faults: [(&str, Fault); 14] = [
        ("session", |r| r.session = String::new()),
        ("session", |r| r.session = "a/b".to_owned()),
        ("request_id", |r| r.request_id = " ".to_owned()),
        ("request_digest", |r| r.request_digest = vec![0; 65].into()),
        ("request_digest", |r| r.request_digest = Default::default()),
        ("events", |r| r.events.clear()),
        ("events[0]", |r| r.events = vec![Default::default()]),
        ("last_command_seq", |r| r.last_command_seq = 2),
        ("header.status", |r| {
            r.header = Some(pb::Header {
                status: 9,
                ..Default::default()
            })
        }),
        ("header.title", |r| {
            r.header = Some(pb::Header {
                title: "ä".repeat(401),
                ..Default::default()
            })
        }),
        ("header.handled_through", |r| {
            r.header = Some(pb::Header {
                handled_through: 2,
                ..Default::default()
            })
        }),
        ("owner", |r| r.owner = "x".repeat(129)),
        ("lease_ms", |r| r.lease_ms = 99),
        ("operation_id", |r| r.operation_id = String::new()),
    ];
    for (want, fault) in faults {
        let mut request = creation();
        fault(&mut request);
        let refused = clients
            .journal
            .clone()
            .create_session(from("a", request))
            .await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    let mut longest = creation();
    longest.header = Some(pb::Header {
        title: "ä".repeat(400),
        ..Default::default()
    });
    clients
        .journal
        .clone()
        .create_session(from("a", longest))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_wrong_transition_is_refused_by_field() {
    let clients = clients().await;
    clients
        .journal
        .clone()
        .create_session(from("a", creation()))
        .await
        .unwrap();
    type Fault = fn(&mut pb::CommitRequest);
    let faults: [(&str, Fault); 13] = [
        ("session", |r| r.session = "ä".to_owned()),
        ("owner", |r| r.owner = String::new()),
        ("operation_id", |r| r.operation_id = String::new()),
        ("operation_id", |r| r.operation_id = "x".repeat(65)),
        ("events[1]", |r| r.events.push(Default::default())),
        ("memory_writes[0].change", |r| {
            r.memory_writes = vec![pb::MemoryWrite::default()]
        }),
        ("header.handled_through", |r| {
            r.header = Some(pb::Header {
                handled_through: 2,
                ..Default::default()
            })
        }),
        ("header.title", |r| {
            r.header = Some(pb::Header {
                title: "x".repeat(801),
                ..Default::default()
            })
        }),
        ("lease_change", |r| r.lease_change = 7),
        ("lease_ms", |r| r.lease_ms = 600_001),
        ("due_unix_ms", |r| (r.lease_change, r.due_unix_ms) = (2, -1)),
        ("checkpoint.through_seq", |r| {
            r.checkpoint = Some(pb::Checkpoint::default())
        }),
        ("checkpoint.through_seq", |r| {
            r.checkpoint = Some(pb::Checkpoint {
                through_seq: 2,
                state: "x".into(),
            });
        }),
    ];
    for (want, fault) in faults {
        let mut request = transition();
        fault(&mut request);
        let refused = clients.journal.clone().commit(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    clients
        .journal
        .clone()
        .commit(from("a", transition()))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_wrong_key_in_a_transition_is_refused_by_field() {
    let mut journal = clients().await.journal;
    let set = |key: String| pb::MemoryWrite {
        change: Some(pb::memory_write::Change::Set(pb::memory_write::Set {
            key,
            ..Default::default()
        })),
    };
    for key in [String::new(), "a\nb".to_owned(), "x".repeat(129)] {
        let mut request = transition();
        request.memory_writes = vec![set(key)];
        let refused = journal.commit(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), "memory_writes[0].set.key");
    }
}

#[tokio::test]
async fn metadata_beyond_its_limits_is_refused() {
    let Clients {
        mut journal,
        mut memory,
        ..
    } = clients().await;
    journal.create_session(from("a", creation())).await.unwrap();
    let set = |metadata: BTreeMap<String, String>| pb::SetMemoryRequest {
        session: "s-1".to_owned(),
        key: "k".to_owned(),
        value: "v".to_owned(),
        metadata,
    };
    let many = |count: usize| -> BTreeMap<String, String> {
        let names = (0..count).map(|name| format!("{name:064}"));
        names.map(|name| (name, "x".repeat(1024))).collect()
    };
    let one = |name: &str, text: &str| BTreeMap::from([(name.to_owned(), text.to_owned())]);
    for (metadata, problem) in [
        (many(17), "has 17 entries"),
        (one("", "text"), "has a name of 0 bytes"),
        (one(&"ä".repeat(33), "text"), "has a name of 66 bytes"),
        (
            one("note", &"x".repeat(1025)),
            "has 1025 bytes under the name \"note\"",
        ),
    ] {
        let refused = memory.set_memory(from("a", set(metadata.clone()))).await;
        let error = RpcError::from(refused.unwrap_err());
        assert_eq!(error.violations()[0].problem, problem);
        assert_eq!(error.violations()[0].field, "metadata");
        let mut request = transition();
        request.memory_writes = vec![pb::MemoryWrite {
            change: Some(pb::memory_write::Change::Set(pb::memory_write::Set {
                key: "k".to_owned(),
                metadata,
                ..Default::default()
            })),
        }];
        let refused = journal.commit(from("a", request)).await.unwrap_err();
        assert_eq!(field(refused), "memory_writes[0].set.metadata");
    }
    for metadata in [many(16), one("n", "")] {
        memory.set_memory(from("a", set(metadata))).await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_copy_is_refused_by_field() {
    let mut journal = clients().await.journal;
    journal.create_session(from("a", creation())).await.unwrap();
    let sound = sound_copy();
    type Fault = fn(&mut pb::CopyEventsRequest);
    let faults: [(&str, Fault); 9] = [
        ("session", |r| r.session = String::new()),
        ("source", |r| r.source = "a/b".to_owned()),
        ("source", |r| r.source.clone_from(&r.session)),
        ("request_id", |r| r.request_id = " ".to_owned()),
        ("request_digest", |r| r.request_digest = Default::default()),
        ("completion.events[0]", |r| {
            completion(r).events = vec![Default::default()];
        }),
        ("completion.due_unix_ms", |r| completion(r).due_unix_ms = -1),
        ("header.title", |r| {
            completion(r).header = Some(pb::Header {
                title: "x".repeat(801),
                ..Default::default()
            });
        }),
        ("header.needs", |r| {
            completion(r).header = Some(pb::Header {
                needs: 1001,
                ..Default::default()
            });
        }),
    ];
    for (want, fault) in faults {
        let mut request = sound.clone();
        fault(&mut request);
        let refused = journal.copy_events(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
    // A session of another tenant is none.
    let foreign = journal.copy_events(from("b", sound.clone())).await;
    assert_eq!(foreign.unwrap_err().code(), tonic::Code::NotFound);
    journal.copy_events(from("a", sound)).await.unwrap();
}

#[tokio::test]
async fn a_wrong_entry_of_a_copy_is_refused_by_field() {
    let mut journal = clients().await.journal;
    journal.create_session(from("a", creation())).await.unwrap();
    type Fault = fn(&mut pb::CopyEventsRequest);
    let faults: [(&str, Fault); 4] = [
        ("completion.memory[1].key", |r| {
            let entry = |key: &str| pb::memory_write::Set {
                key: key.to_owned(),
                ..Default::default()
            };
            completion(r).memory = vec![entry("k"), entry("")];
        }),
        ("completion.memory[1].key", |r| {
            let entry = || pb::memory_write::Set {
                key: "twice".to_owned(),
                ..Default::default()
            };
            completion(r).memory = vec![entry(), entry()];
        }),
        ("completion.memory[0].metadata", |r| {
            completion(r).memory = vec![pb::memory_write::Set {
                key: "k".to_owned(),
                metadata: [(String::new(), String::new())].into(),
                ..Default::default()
            }];
        }),
        ("completion.memory[0].created_unix_ms", |r| {
            completion(r).memory = vec![pb::memory_write::Set {
                key: "k".to_owned(),
                created_unix_ms: -1,
                ..Default::default()
            }];
        }),
    ];
    for (want, fault) in faults {
        let mut request = sound_copy();
        fault(&mut request);
        let refused = journal.copy_events(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
}

fn sound_copy() -> pb::CopyEventsRequest {
    pb::CopyEventsRequest {
        session: "s-2".to_owned(),
        source: "s-1".to_owned(),
        request_id: "copy".to_owned(),
        request_digest: "digest".into(),
        ..Default::default()
    }
}

fn completion(request: &mut pb::CopyEventsRequest) -> &mut pb::CopyCompletion {
    request.completion.get_or_insert_default()
}

#[tokio::test]
async fn other_wrong_requests_are_refused_by_field() {
    let Clients {
        mut journal,
        mut memory,
        ..
    } = clients().await;
    let list = pb::ListSessionsRequest {
        page_size: 1001,
        ..Default::default()
    };
    assert_eq!(
        field(journal.list_sessions(from("a", list)).await.unwrap_err()),
        "page_size"
    );
    let list = pb::ListSessionsRequest {
        page_token: "x".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        field(journal.list_sessions(from("a", list)).await.unwrap_err()),
        "page_token"
    );
    let append = pb::AppendCommandRequest {
        session: "s".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        field(journal.append_command(from("a", append)).await.unwrap_err()),
        "event"
    );
    let blob = pb::GetBlobRequest {
        session: "s".to_owned(),
        digest: "A".repeat(64),
    };
    assert_eq!(
        field(journal.get_blob(from("a", blob)).await.unwrap_err()),
        "digest"
    );
    let set = pb::SetMemoryRequest {
        session: "s".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        field(memory.set_memory(from("a", set)).await.unwrap_err()),
        "key"
    );
}

#[tokio::test]
async fn wrong_claims_and_renewals_are_refused_by_field() {
    let mut ownership = clients().await.ownership;
    let claim = |max_sessions, lease_ms, wait_ms| pb::ClaimSessionsRequest {
        owner: "one".to_owned(),
        max_sessions,
        lease_ms,
        wait_ms,
        ..Default::default()
    };
    for (request, want) in [
        (claim(1025, 1000, 0), "max_sessions"),
        (claim(1, 0, 0), "lease_ms"),
        (claim(1, 1000, 30_001), "wait_ms"),
        (
            pb::ClaimSessionsRequest {
                level: 1001,
                ..claim(1, 1000, 0)
            },
            "level",
        ),
    ] {
        assert_eq!(
            field(ownership.claim_sessions(request).await.unwrap_err()),
            want
        );
    }
    let renew = |session| pb::RenewLeasesRequest {
        owner: "one".to_owned(),
        sessions: vec![pb::OwnedSession { session, epoch: 1 }],
        lease_ms: 1000,
    };
    let refused = ownership.renew_leases(renew(None)).await.unwrap_err();
    assert_eq!(field(refused), "sessions[0].session");
    let foreign = pb::SessionRef {
        namespace: "A b".to_owned(),
        session: "s".to_owned(),
    };
    let refused = ownership
        .renew_leases(renew(Some(foreign)))
        .await
        .unwrap_err();
    assert_eq!(field(refused), "sessions[0].session.namespace");
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let mut config = Config {
        store: StoreConfig::Memory,
        ..Config::default()
    };
    config.limits.journal_events = u64::from(u32::MAX);
    let error = build(config.clone(), Deps::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("limits.journal_events is 4294967295"),
        "{error}"
    );
    config.limits.journal_events = 10;
    config.limits.unseen_bytes = 64 << 20;
    let error = build(config, Deps::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("limits.unseen_bytes"),
        "{error}"
    );
}
