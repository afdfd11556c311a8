//! Watching and asking again: nothing missed, nothing twice, nothing started twice. In a file, on Redis
//! and on a cluster.

use crate::support;
use cairn_model::ModelRegistry;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::TestStore;
use std::collections::BTreeSet;
use support::{
    Client, chain, check_completed, client, node, parts_over, start, tool_step, watch_to_end,
};
use tonic::Code;

async fn a_watcher_that_reconnects_after_every_event_sees_each_once(store: TestStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts_over(&store, folder.path(), ModelRegistry::new())).await;
    let mut client = client(&node);
    let session = start(&mut client, "r-1", chain(vec![tool_step("pure"); 50])).await;
    let mut cursor = 0;
    let mut seen = Vec::new();
    'watch: loop {
        let request = pb::WatchSessionRequest {
            session: session.clone(),
            after_seq: cursor,
            ..pb::WatchSessionRequest::default()
        };
        let mut stream = client
            .watch_session(request)
            .await
            .expect("a watch")
            .into_inner();
        while let Some(message) = stream.message().await.expect("an event") {
            let Some(event) = message.event else {
                continue;
            };
            cursor = message.seq;
            let is_end = matches!(event.kind, Some(Kind::RunCompleted(_)));
            seen.push((message.seq, event));
            if is_end {
                break 'watch;
            }
            break;
        }
    }
    check_whole(&seen, 1);
    assert_eq!(seen, watch_to_end(&mut client, &session, 0).await);
    assert_eq!(seen, exported(&mut client, &session).await);
}

/// Panics unless the numbers follow each other from the first one on.
fn check_whole(events: &[(u64, wire::Event)], first: u64) {
    let numbers = events.iter().map(|(seq, _)| *seq);
    assert!(numbers.eq(first..first + events.len() as u64), "{events:?}");
}

async fn exported(client: &mut Client, session: &str) -> Vec<(u64, wire::Event)> {
    let session = session.to_owned();
    let request = pb::ExportSessionRequest { session };
    let stream = client.export_session(request).await.expect("a journal");
    let mut stream = stream.into_inner();
    let mut events = Vec::new();
    while let Some(message) = stream.message().await.expect("an event") {
        events.push((message.seq, message.event.expect("an event")));
    }
    events
}

async fn many_watchers_see_the_same(store: TestStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts_over(&store, folder.path(), ModelRegistry::new())).await;
    let mut starter = client(&node);
    let session = start(&mut starter, "r-1", chain(vec![tool_step("pure"); 100])).await;
    let mut watchers = Vec::new();
    // A start that was answered has three events.
    for number in 0..20 {
        let (mut client, session) = (client(&node), session.clone());
        watchers.push(tokio::spawn(async move {
            watch_to_end(&mut client, &session, number % 4).await
        }));
    }
    let mut all = Vec::new();
    for (number, watcher) in (0..).zip(watchers) {
        let after: usize = number % 4;
        let events = watcher.await.expect("a watcher");
        check_completed(&events);
        if all.is_empty() {
            check_whole(&events, 1);
            all.clone_from(&events);
        }
        // Who begins later sees the same from there on.
        assert_eq!(events, all[after..]);
    }
    assert_eq!(all, exported(&mut starter, &session).await);
}

async fn a_repeated_start_is_the_same_start(store: TestStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts_over(&store, folder.path(), ModelRegistry::new())).await;
    let run = chain(vec![tool_step("effectful"); 3]);
    let mut starts = Vec::new();
    for _ in 0..20 {
        let (mut client, run) = (client(&node), run.clone());
        starts.push(tokio::spawn(async move {
            start(&mut client, "same", run).await
        }));
    }
    let mut sessions = BTreeSet::new();
    for start in starts {
        sessions.insert(start.await.expect("a start"));
    }
    assert_eq!(sessions.len(), 1);
    let mut client = client(&node);
    let session = sessions.into_iter().next().expect("a session");
    let events = watch_to_end(&mut client, &session, 0).await;
    let started = |kind: &Option<Kind>| matches!(kind, Some(Kind::RunStarted(_)));
    assert_eq!(
        events
            .iter()
            .filter(|(_, event)| started(&event.kind))
            .count(),
        1
    );

    let other = pb::StartRunRequest {
        session: String::new(),
        request_id: "same".to_owned(),
        run: Some(chain(vec![tool_step("pure")])),
        ..pb::StartRunRequest::default()
    };
    let refused = client
        .start_run(other)
        .await
        .expect_err("another request of the same name");
    assert_eq!(refused.code(), Code::AlreadyExists);
}

async fn a_second_run_follows_the_first_and_not_beside_it(store: TestStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts_over(&store, folder.path(), ModelRegistry::new())).await;
    let mut client = client(&node);
    let session = start(&mut client, "r-1", chain(vec![tool_step("pure"); 2])).await;
    let events = watch_to_end(&mut client, &session, 0).await;
    let next = |id: &str| pb::StartRunRequest {
        session: session.clone(),
        request_id: id.to_owned(),
        run: Some(chain(vec![tool_step("pure"); 2])),
        ..pb::StartRunRequest::default()
    };
    let second = client
        .start_run(next("r-2"))
        .await
        .expect("a second run")
        .into_inner();
    assert_eq!(second.run, 2);
    let last = events.last().map_or(0, |(seq, _)| *seq);
    assert!(second.seq > last);
    check_completed(&watch_to_end(&mut client, &session, last).await);
    let again = client
        .start_run(next("r-2"))
        .await
        .expect("the same answer")
        .into_inner();
    assert_eq!(again, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_watcher_that_reconnects_after_every_event_sees_each_once() {
    a_watcher_that_reconnects_after_every_event_sees_each_once(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_many_watchers_see_the_same() {
    many_watchers_see_the_same(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_repeated_start_is_the_same_start() {
    a_repeated_start_is_the_same_start(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_second_run_follows_the_first_and_not_beside_it() {
    a_second_run_follows_the_first_and_not_beside_it(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_watcher_that_reconnects_after_every_event_sees_each_once() {
        a_watcher_that_reconnects_after_every_event_sees_each_once(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_many_watchers_see_the_same() {
        many_watchers_see_the_same(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_repeated_start_is_the_same_start() {
        a_repeated_start_is_the_same_start(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_second_run_follows_the_first_and_not_beside_it() {
        a_second_run_follows_the_first_and_not_beside_it(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_a_watcher_that_reconnects_after_every_event_sees_each_once() {
        a_watcher_that_reconnects_after_every_event_sees_each_once(TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_many_watchers_see_the_same() {
        many_watchers_see_the_same(TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_a_repeated_start_is_the_same_start() {
        a_repeated_start_is_the_same_start(TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_a_second_run_follows_the_first_and_not_beside_it() {
        a_second_run_follows_the_first_and_not_beside_it(TestStore::cluster()).await;
    }
}
