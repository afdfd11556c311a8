//! What cannot work without a part that is not there, and what works all the same: models, and the tools service.

use crate::support::{
    CAIRN, chain, check_completed, client, model_step, node, parts, start, tool_step, watch_to_end,
};
use cairn::node::{Node, Placement, Service, StartError};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_model::ModelRegistry;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::{Site, site::Starting};
use serde_json::Value;
use std::time::Duration;

const PLAN: &str = r#"{"steps": [{"tool": "list_files", "arguments": {"path": "docs"}}]}"#;
/// No process takes longer to say where it serves.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn without_a_model_runs_that_ask_one_fail_and_others_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts(folder.path(), ModelRegistry::new())).await;
    let mut client = client(&node);
    let goal = wire::StartRun {
        goal: "Look around.".to_owned(),
        ..wire::StartRun::default()
    };
    for (id, run) in [("goal", goal), ("step", chain(vec![model_step("look")]))] {
        let session = start(&mut client, id, run).await;
        let events = watch_to_end(&mut client, &session, 0).await;
        let last = events.last().and_then(|(_, event)| event.kind.as_ref());
        let Some(Kind::RunFailed(failed)) = last else {
            panic!("{id}: {last:?}");
        };
        let failure = failed.failure.as_ref().expect("a failure");
        assert_eq!(failure.kind(), wire::FailureKind::Config, "{id}");
        assert_eq!(failure.message, "missing provider", "{id}");
    }
    let session = start(&mut client, "tools", chain(vec![tool_step("pure")])).await;
    check_completed(&watch_to_end(&mut client, &session, 0).await);
}

/// It would wait for them without an end, as no address of them is known.
#[tokio::test]
async fn a_node_without_a_tools_service_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for here in [
        &[
            Service::Memory,
            Service::Executor,
            Service::Planner,
            Service::Orchestrator,
        ][..],
        &[Service::Executor],
    ] {
        let placement = Placement {
            here: here.iter().copied().collect(),
            ..Placement::all()
        };
        let parts = parts(folder.path(), ModelRegistry::new());
        let started = Box::pin(Node::start_some(parts, &placement)).await;
        let Err(StartError::Config(failure)) = started else {
            panic!("{here:?}: {started:?}");
        };
        assert_eq!(failure.kind, FailureKind::Config);
        assert_eq!(failure, Failure::missing("tool_registry"));
        assert_eq!(failure.message, "missing tool_registry");
    }
    let store = folder.path().join("cairn.db");
    assert!(!store.exists(), "a store was made in spite of it");
}

/// Starts some services, and returns the process with the addresses that it prints.
fn serve(site: &Site, services: &[&str], links: &[String]) -> (Starting, Value) {
    let listen = [
        "--internal",
        "127.0.0.1:0",
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let arguments = [&["serve"][..], services, &listen, &links[..]].concat();
    let log = format!("{}.log", services.join("-"));
    let mut process = site.begin(&arguments, &[], &log);
    let line = process.first_line(PATIENCE).unwrap_or_default().to_owned();
    let addresses = serde_json::from_str(&line);
    let addresses = addresses.unwrap_or_else(|_| panic!("{line:?}: {}", site.tail(&log, 15)));
    (process, addresses)
}

fn link(service: &str, addresses: &Value) -> String {
    let address = addresses["internal"].as_str().expect("an address");
    format!("--link={service}={address}")
}

#[test]
fn an_orchestrator_whose_tools_are_another_service_does_not_start() {
    let site = Site::new(CAIRN);
    let (_others, at) = serve(&site, &["memory", "planner"], &[]);
    let links = ["memory", "tools", "executor", "planner"].map(|service| link(service, &at));
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let serve = ["serve", "orchestrator", "--listen", "127.0.0.1:0"];
    let done = site.run(&[&serve[..], &links[..]].concat());
    assert_eq!((done.code, &*done.out), (Some(1), ""), "{done:?}");
    assert!(done.err.contains("missing tool_registry"), "{done:?}");
    assert!(done.err.contains("--link tools=URL"), "{done:?}");
}

#[test]
fn a_call_of_an_executor_without_a_tools_service_says_so() {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let (_planner, at) = serve(&site, &["planner"], &[]);
    let (_executor, at) = serve(&site, &["executor"], &[link("tools", &at)]);
    let others = ["memory", "tools", "planner", "orchestrator"];
    let (_others, at) = serve(&site, &others, &[link("executor", &at)]);
    let server = at["listen"].as_str().expect("an address");
    let done = site.run(&["run", "--plan", "plan.json", "--server", server]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let text = format!("{}{}", done.out, done.err);
    assert!(text.contains("missing tool_registry"), "{done:?}");
    // What is said of faults of the configuration.
    assert!(text.contains("cairn check-config"), "{done:?}");
}
