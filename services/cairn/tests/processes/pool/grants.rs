//! Grants and revocations while a step runs: a scripted model sees the tools of each of its requests.

use super::{place, serve};
use crate::support::place::Place;
use crate::support::pool::{Api, Desk, Waits, needing, tool};
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::api::grant_tool_request::To;
use cairn_proto::api::revoke_tool_request::Of;
use cairn_proto::api::{Pool, PutAgentRequest};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use serde_json::json;

/// An agent with one tool.
const READER: &str = "---\nname: reader\ndescription: Reads\ntools: read_file\n---\nRead.\n";

/// Results of calls that failed, as reason and text.
fn refused(events: &[(u64, wire::Event)]) -> Vec<(&str, &str)> {
    let results = events.iter().filter_map(|(_, event)| match &event.kind {
        Some(Kind::CallFinished(finished)) if finished.is_error => Some(finished),
        _ => None,
    });
    results.map(|it| (&*it.reason, &*it.output)).collect()
}

fn put_agent(api: &Api, source: &str) {
    let request = PutAgentRequest {
        request_id: "agent".to_owned(),
        source: source.to_owned(),
        ..PutAgentRequest::default()
    };
    let mut agents = AgentServiceClient::new(api.link());
    let put = api.wait(agents.put_agent(request));
    put.expect("an agent");
}

/// A step that runs: its model asks again and again.
fn begin(settings: &str) -> (Desk, Place, Api) {
    let desk = Desk::open();
    let mut place = place(&desk, settings);
    let api = serve(&mut place, &[]);
    put_agent(&api, READER);
    (desk, place, api)
}

fn agent() -> String {
    "reader".to_owned()
}

fn executor() -> String {
    "one".to_owned()
}

/// The grants of the agent, as this orchestrator has them.
fn of_agent(pool: &Pool) -> Option<(Vec<&str>, Vec<&str>)> {
    let grants = pool.agent_grants.iter().find(|it| it.agent == "reader")?;
    let granted = grants.granted.iter().map(String::as_str);
    let revoked = grants.revoked.iter().map(String::as_str);
    Some((granted.collect(), revoked.collect()))
}

/// P5: a tool that is granted to an agent is offered from the next request on, and can be called. One that is taken
/// away is not offered any more, and a call of it is refused with the reason, its agent and what it has instead.
#[test]
fn a_grant_and_a_revocation_of_an_agent_hold_from_the_next_request() {
    let (desk, _place, api) = begin("\n[executor]\nname = \"one\"\n");
    let run = wire::StartRun {
        agent: agent(),
        ..needing("look", &[])
    };
    api.start("s", run);
    let question = desk.next();
    assert!(question.offered.contains("read_file"));
    assert!(!question.offered.contains("list_files"));
    api.grant("list_files", To::Agent(agent()));
    api.pool_until("a grant", |pool| {
        of_agent(pool) == Some((vec!["list_files"], Vec::new()))
    });
    question.calls("read_file", json!({"path": "docs/one.md"}));
    let question = desk.next();
    assert!(
        question.offered.contains("list_files"),
        "{:?}",
        question.offered
    );
    question.calls("list_files", json!({"path": "docs"}));
    let question = desk.next();

    // The request that is open had the tool; its reply comes after the revocation.
    api.revoke("list_files", Of::Agent(agent()));
    api.pool_until("a revocation", |pool| {
        of_agent(pool) == Some((Vec::new(), vec!["list_files"]))
    });
    question.calls("list_files", json!({"path": "docs"}));
    let question = desk.next();
    assert!(
        !question.offered.contains("list_files"),
        "{:?}",
        question.offered
    );
    assert!(question.offered.contains("read_file"));
    question.done();
    let events = api.until_end("s");
    let refused = refused(&events);
    let [(reason, words)] = refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "Denied");
    for part in ["list_files", "reader", "read_file"] {
        assert!(words.contains(part), "{words}");
    }
    Waits::checked(&events);
}

/// The same of an executor: its tools are those of its settings, those that it was granted, and none that was taken
/// away.
#[test]
fn a_grant_and_a_revocation_of_an_executor_hold_from_the_next_request() {
    let settings = format!(
        "\n[executor]\nname = \"one\"\ntools = [\"read_file\", \"seek\"]\n{}",
        tool("seek")
    );
    let (desk, _place, api) = begin(&settings);
    api.start("s", needing("look", &[]));
    let question = desk.next();
    assert!(question.offered.contains("seek") && question.offered.contains("step"));
    assert!(!question.offered.contains("list_files"));
    api.grant("list_files", To::Executor(executor()));
    let has = |pool: &Pool, tool: &str| {
        let one = pool.resources.iter().find(|it| it.id == "one");
        let tools = one.map(|it| (&it.tools, &it.revoked_tools));
        tools.is_some_and(|(tools, revoked)| {
            tools.iter().any(|it| it == tool) && !revoked.iter().any(|it| it == tool)
        })
    };
    api.pool_until("a grant", |pool| has(pool, "list_files"));
    question.calls("seek", json!({}));
    let question = desk.next();
    assert!(
        question.offered.contains("list_files"),
        "{:?}",
        question.offered
    );

    api.revoke("seek", Of::Executor(executor()));
    api.pool_until("a revocation", |pool| !has(pool, "seek"));
    question.calls("seek", json!({}));
    let question = desk.next();
    assert!(!question.offered.contains("seek"), "{:?}", question.offered);
    question.done();
    let events = api.until_end("s");
    let refused = refused(&events);
    let [(reason, words)] = refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "Denied");
    for part in ["seek", "one", "read_file"] {
        assert!(words.contains(part), "{words}");
    }
}
