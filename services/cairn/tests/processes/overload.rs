//! A system that is full: what is new is refused and told when to come back, and what was accepted
//! continues.

use crate::support::{self, CAIRN};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use cairn_testkit::{Cluster, Site, TestStore, eventually_async};
use std::time::{Duration, Instant};
use support::{Client, chain, check_completed, connect, tool_step, watch_to_end};

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tool that lasts until the test says so, and one that writes down when it begins and ends.
const TOOLS: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits until it is opened."
argv = ["sh", "-c", "until [ -e open ]; do sleep 0.05; done; echo opened"]
confine = "none"
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "slow"
description = "Takes its time."
argv = ["sh", "-c", "echo begin >>times; sleep 0.2; echo end >>times; echo done"]
confine = "none"
effect = "idempotent"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", TOOLS);
    site
}

fn client(cluster: &Cluster<'_>) -> Client {
    connect(&cluster.url())
}

async fn ask(
    client: &mut Client,
    request_id: &str,
    run: &wire::StartRun,
) -> Result<pb::StartRunResponse, RpcError> {
    let request = pb::StartRunRequest {
        time_to_live_ms: 0,
        session: String::new(),
        request_id: request_id.to_owned(),
        run: Some(run.clone()),
    };
    Ok(client.start_run(request).await?.into_inner())
}

/// Asks until there is room, as a client does that heeds what it is told.
async fn retry(client: &mut Client, request_id: &str, run: &wire::StartRun) -> String {
    let began = Instant::now();
    loop {
        let error = match ask(client, request_id, run).await {
            Ok(started) => return started.session,
            Err(error) => error,
        };
        assert_eq!(error.reason_name(), RpcError::OVERLOADED, "{error}");
        assert!(began.elapsed() < PATIENCE, "there is never room");
        tokio::time::sleep(error.retry_delay().expect("when to come back")).await;
    }
}

async fn a_full_system_refuses_what_is_new_and_takes_it_when_there_is_room(store: TestStore) {
    let site = site();
    let variables = [&store.variables()[..], &[("CAIRN_SESSION__MAX_OWNED", "2")]].concat();
    let cluster = Cluster::start(&site, &variables);
    let mut client = client(&cluster);
    let run = chain(vec![tool_step("gate")]);
    let mut sessions = Vec::new();
    for request in ["first", "second"] {
        let started = ask(&mut client, request, &run).await;
        sessions.push(started.expect("there is room").session);
    }
    let error = ask(&mut client, "third", &run).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(error.reason_name(), RpcError::OVERLOADED);
    let delay = error.retry_delay().expect("when to come back");
    assert!((1..=2).contains(&delay.as_secs()), "{delay:?}");
    let repeat = ask(&mut client, "second", &run).await.expect("a repeat");
    assert_eq!(repeat.session, sessions[1]);

    site.write("open", "");
    for session in &sessions {
        check_completed(&watch_to_end(&mut client, session, 0).await);
    }
    let third = retry(&mut client, "third", &run).await;
    check_completed(&watch_to_end(&mut client, &third, 0).await);
    let listed = client.list_sessions(pb::ListSessionsRequest::default());
    let listed = listed.await.expect("a list").into_inner().sessions;
    assert_eq!(listed.len(), 3, "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_full_system_refuses_what_is_new_and_takes_it_when_there_is_room() {
    a_full_system_refuses_what_is_new_and_takes_it_when_there_is_room(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_waits_for_room_and_says_so() {
    let site = site();
    let cluster = Cluster::start(&site, &[("CAIRN_SESSION__MAX_OWNED", "1")]);
    let mut client = client(&cluster);
    let run = chain(vec![tool_step("gate")]);
    let first = ask(&mut client, "first", &run).await;
    let first = first.expect("there is room").session;

    let url = cluster.url();
    site.write(
        "plan.json",
        r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#,
    );
    let command = ["run", "--plan", "plan.json", "--server", &url];
    let impatient = site.run_with(&command, &[("CAIRN_CLIENT__WAIT", "0s")]);
    assert_eq!(impatient.code, Some(1), "{impatient:?}");
    for said in [
        "at work on as many sessions",
        "nothing was started",
        "client.wait",
    ] {
        assert!(impatient.err.contains(said), "{said}: {impatient:?}");
    }

    let patient = site.begin(&command, &[], "patient.log");
    eventually_async("the client tries again", async || {
        let log = site.tail("patient.log", 5);
        log.contains("it is tried again for").then_some(())
    })
    .await;
    site.write("open", "");
    check_completed(&watch_to_end(&mut client, &first, 0).await);
    assert!(patient.wait().success(), "{}", site.tail("patient.log", 5));
    let listed = client.list_sessions(pb::ListSessionsRequest::default());
    let listed = listed.await.expect("a list").into_inner().sessions;
    assert_eq!(listed.len(), 2, "{listed:?}");
}

/// Executors with one place each: all of them are used, none has two attempts, and whoever waits
/// fails for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn steps_wait_for_a_free_executor_and_use_all_of_them() {
    let site = site();
    let variables = [("CAIRN_EXECUTOR__MAX_ATTEMPTS", "1")];
    let cluster = Cluster::several(&site, &variables, [1, 1, 2, 1, 1]);
    let mut client = client(&cluster);
    let run = chain(vec![tool_step("slow"), tool_step("slow")]);
    let mut sessions = Vec::new();
    for number in 0..6 {
        let started = ask(&mut client, &format!("run-{number}"), &run).await;
        sessions.push(started.expect("there is room").session);
    }
    for session in &sessions {
        let events = watch_to_end(&mut client, session, 0).await;
        check_completed(&events);
        let continued = |(_, event): &(u64, wire::Event)| {
            matches!(event.kind, Some(wire::event::Kind::AttemptContinued(_)))
        };
        assert!(!events.iter().any(continued), "{events:?}");
    }
    let (mut now, mut most) = (0, 0);
    let times = site.read("times").expect("what the tool wrote");
    for line in times.lines() {
        now += if line == "begin" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((times.lines().count(), most), (24, 2), "{times}");
}

/// Each needs a server of Redis.
mod redis {
    use super::*;
    use cairn_testkit::RedisServer;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_full_system_refuses_what_is_new_and_takes_it_when_there_is_room() {
        a_full_system_refuses_what_is_new_and_takes_it_when_there_is_room(TestStore::redis()).await;
    }

    fn used(server: &RedisServer) -> u64 {
        let info = server.ask(&["INFO", "memory"]);
        let mut lines = info.lines();
        let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
        used.expect("what it has").trim().parse().expect("a number")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_that_is_nearly_full_takes_no_new_runs_and_ends_those_that_it_has() {
        let (server, site) = (RedisServer::start(), site());
        let cluster = Cluster::start(&site, &[("CAIRN_STORE", &server.url())]);
        let mut client = client(&cluster);
        let run = chain(vec![tool_step("gate"), tool_step("slow")]);
        let first = ask(&mut client, "first", &run).await;
        let first = first.expect("there is room").session;

        // Nine tenths are used, so that transitions still have some room.
        let most = (used(&server) * 10 / 9).to_string();
        server.ask(&["CONFIG", "SET", "maxmemory", &most]);
        // What was counted a moment ago holds for a second: in that time other runs are started.
        let mut others = Vec::new();
        let error = loop {
            match ask(&mut client, &format!("other-{}", others.len()), &run).await {
                Err(error) => break error,
                Ok(other) => others.push(other.session),
            }
            assert!(others.len() < 20, "there is always room");
            tokio::time::sleep(Duration::from_millis(250)).await;
        };
        assert_eq!(error.reason_name(), RpcError::OVERLOADED, "{error}");
        assert_eq!(error.metadata("limit"), Some("maxmemory"));
        assert!(error.retry_delay().is_some());
        let repeat = ask(&mut client, "first", &run).await.expect("a repeat");
        assert_eq!(repeat.session, first);
        site.write("open", "");
        for session in others.iter().chain([&first]) {
            check_completed(&watch_to_end(&mut client, session, 0).await);
        }

        server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        let second = retry(&mut client, "second", &run).await;
        check_completed(&watch_to_end(&mut client, &second, 0).await);
    }
}
