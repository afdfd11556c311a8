//! What is wrong with a listing, with what lists need of a header, and with a lease that a command is to
//! take, is named by field.

use crate::support::clients::{Clients, clients, creation, field, from};
use cairn_proto::memory as pb;

fn open(kind: u32) -> pb::PendingKind {
    pb::PendingKind {
        kind,
        since_unix_ms: 1,
        count: 1,
    }
}

#[tokio::test]
async fn a_wrong_listing_is_refused_by_field() {
    let clients = clients().await;
    type Fault = fn(&mut pb::ListSessionsRequest);
    fn filter(request: &mut pb::ListSessionsRequest) -> &mut pb::SessionFilter {
        request.filter.get_or_insert_default()
    }
    let faults: [(&str, Fault); 13] = [
        ("page_size", |r| r.page_size = 1001),
        ("page_token", |r| r.page_token = "x".to_owned()),
        ("page_token", |r| r.page_token = "x.1.a".to_owned()),
        ("order", |r| r.order = 3),
        ("filter.statuses", |r| filter(r).statuses = vec![1; 9]),
        ("filter.statuses[1]", |r| filter(r).statuses = vec![1, 5]),
        ("filter.pending", |r| filter(r).pending = vec![1; 9]),
        ("filter.pending[0]", |r| filter(r).pending = vec![0]),
        ("filter.pending[0]", |r| filter(r).pending = vec![32]),
        ("filter.agent", |r| filter(r).agent = "x".repeat(129)),
        ("filter.prefix", |r| filter(r).prefix = "x".repeat(801)),
        ("filter.changed_after_unix_ms", |r| {
            filter(r).changed_after_unix_ms = -1;
        }),
        ("filter.changed_before_unix_ms", |r| {
            filter(r).changed_before_unix_ms = -1;
        }),
    ];
    for (want, fault) in faults {
        let mut request = pb::ListSessionsRequest::default();
        fault(&mut request);
        let mut journal = clients.journal.clone();
        let refused = journal.list_sessions(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
}

#[tokio::test]
async fn a_token_goes_with_its_filter_and_order() {
    let mut journal = clients().await.journal;
    for session in ["one", "two", "three"] {
        let request = pb::CreateSessionRequest {
            session: session.to_owned(),
            ..creation()
        };
        journal.create_session(from("a", request)).await.unwrap();
    }
    let first = pb::ListSessionsRequest {
        page_size: 1,
        filter: Some(pb::SessionFilter {
            prefix: "t".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let page = journal.list_sessions(from("a", first.clone())).await;
    let page_token = page.unwrap().into_inner().next_page_token;
    let next = pb::ListSessionsRequest {
        page_token,
        ..first
    };
    type Change = fn(&mut pb::ListSessionsRequest);
    let others: [Change; 3] = [
        |r| r.ascending = true,
        |r| r.order = pb::SessionOrder::Changed.into(),
        |r| r.filter = None,
    ];
    for change in others {
        let mut other = next.clone();
        change(&mut other);
        let refused = journal.list_sessions(from("a", other)).await;
        assert_eq!(field(refused.unwrap_err()), "page_token");
    }
    // The size of a page may change.
    let rest = pb::ListSessionsRequest {
        page_size: 10,
        ..next
    };
    let rest = journal.list_sessions(from("a", rest)).await;
    let rest = rest.unwrap().into_inner().sessions;
    assert_eq!((rest.len(), rest[0].session.as_str()), (1, "two"));
}

#[tokio::test]
async fn wrong_notes_for_listings_are_refused_by_field() {
    let clients = clients().await;
    type Fault = fn(&mut pb::Header);
    let faults: [(&str, Fault); 12] = [
        ("header.waits_for", |h| h.waits_for = needs(&["x"; 9])),
        ("header.waits_for[1]", |h| h.waits_for = needs(&["x", ""])),
        ("header.waits_for[0]", |h| {
            h.waits_for = vec!["x".repeat(513)];
        }),
        ("header.waits_for[0]", |h| h.waits_for = needs(&["ä"])),
        ("header.waits_for[0]", |h| h.waits_for = needs(&["a\nb"])),
        ("header.agent", |h| h.agent = "x".repeat(129)),
        ("header.pending", |h| h.pending = vec![open(1); 9]),
        ("header.pending[0].kind", |h| h.pending = vec![open(0)]),
        ("header.pending[0].kind", |h| h.pending = vec![open(32)]),
        ("header.pending[1].kind", |h| {
            h.pending = vec![open(3), open(3)];
        }),
        ("header.pending[0].count", |h| {
            h.pending = vec![pb::PendingKind {
                count: 0,
                ..open(1)
            }];
        }),
        ("header.pending[0].since_unix_ms", |h| {
            h.pending = vec![pb::PendingKind {
                since_unix_ms: -1,
                ..open(1)
            }];
        }),
    ];
    for (want, fault) in faults {
        let mut request = creation();
        fault(request.header.get_or_insert_default());
        let mut journal = clients.journal.clone();
        let refused = journal.create_session(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
}

fn needs(needs: &[&str]) -> Vec<String> {
    needs.iter().map(|&need| need.to_owned()).collect()
}

#[tokio::test]
async fn what_a_session_waits_for_is_kept_sorted_and_each_need_once() {
    let Clients {
        mut journal,
        mut ownership,
        ..
    } = clients().await;
    let longest = "~".repeat(512);
    let mut request = creation();
    request.owner = String::new();
    request.header = Some(pb::Header {
        waits_for: needs(&[
            longest.as_str(),
            "web_search>=5",
            "gpu, tpu",
            "web_search>=5",
        ]),
        ..Default::default()
    });
    journal.create_session(from("a", request)).await.unwrap();
    let want = needs(&["gpu, tpu", "web_search>=5", longest.as_str()]);
    let read = pb::ReadEventsRequest {
        session: "s-1".to_owned(),
        ..Default::default()
    };
    let page = journal.read_events(from("a", read)).await.unwrap();
    assert_eq!(page.into_inner().header.unwrap().waits_for, want);
    // Of all tenants: the request has no namespace.
    let list = pb::ListWaitingRequest { max_sessions: 1024 };
    let listed = ownership.list_waiting(list).await.unwrap().into_inner();
    assert_eq!(listed.sessions.len(), 1);
    assert_eq!(listed.sessions[0].waits_for, want);
    for woken in [true, false] {
        let wake = pb::WakeSessionRequest {
            session: listed.sessions[0].session.clone(),
        };
        let answer = ownership.wake_session(wake).await.unwrap();
        assert_eq!(answer.into_inner().woken, woken);
    }
}

#[tokio::test]
async fn a_wrong_look_at_waiting_sessions_is_refused_by_field() {
    let mut ownership = clients().await.ownership;
    let list = pb::ListWaitingRequest { max_sessions: 1025 };
    let refused = ownership.list_waiting(list).await.unwrap_err();
    assert_eq!(field(refused), "max_sessions");
    let wake = |namespace: &str, session: &str| pb::WakeSessionRequest {
        session: Some(pb::SessionRef {
            namespace: namespace.to_owned(),
            session: session.to_owned(),
        }),
    };
    for (request, want) in [
        (pb::WakeSessionRequest { session: None }, "session"),
        (wake("A b", "s"), "session.namespace"),
        (wake("a", "x/y"), "session.session"),
    ] {
        let refused = ownership.wake_session(request).await.unwrap_err();
        assert_eq!(field(refused), want);
    }
    let unknown = ownership.wake_session(wake("a", "s")).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_wrong_lease_or_level_of_a_command_is_refused_by_field() {
    let clients = clients().await;
    type Fault = fn(&mut pb::AppendCommandRequest);
    let faults: [(&str, Fault); 6] = [
        ("needs", |r| r.needs = 1001),
        ("level", |r| r.level = 1001),
        ("owner", |r| r.owner = "x".repeat(129)),
        ("lease_ms", |r| r.lease_ms = 99),
        ("operation_id", |r| r.operation_id = String::new()),
        ("operation_id", |r| r.operation_id = "x".repeat(65)),
    ];
    for (want, fault) in faults {
        let mut request = pb::AppendCommandRequest {
            session: "s".to_owned(),
            request_id: "c".to_owned(),
            request_digest: vec![1].into(),
            event: "event".into(),
            owner: "one".to_owned(),
            lease_ms: 1000,
            operation_id: "operation".to_owned(),
            ..Default::default()
        };
        fault(&mut request);
        let mut journal = clients.journal.clone();
        let refused = journal.append_command(from("a", request)).await;
        assert_eq!(field(refused.unwrap_err()), want);
    }
}
