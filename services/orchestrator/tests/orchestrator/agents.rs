//! Agents, as clients store, read, list and delete them.

use crate::support::{Fault, World, for_tenant};
use cairn_memory::port::Limits;
use cairn_proto::api as pb;
use cairn_proto::memory as memory_pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{ErrorKind, Namespace, Principal, RpcError, with_principal};
use pb::agent_definition::Tools;
use prost::Message as _;
use tonic::Request;

const SOURCE: &str = "---\nname: reviewer\ntools: Read, Grep\ncolour: red\n---\nReview.\n";

/// A source that names its agent.
fn source(name: &str, prompt: &str) -> String {
    format!("---\nname: {name}\n---\n{prompt}\n")
}

fn request(world: &World, source: &str) -> pb::PutAgentRequest {
    pb::PutAgentRequest {
        request_id: world.request_id(),
        source: source.to_owned(),
        ..pb::PutAgentRequest::default()
    }
}

async fn put(world: &World, request: pb::PutAgentRequest) -> Result<pb::Agent, RpcError> {
    let put = world.agents.clone().put_agent(request).await?;
    Ok(put.into_inner().agent.expect("an agent"))
}

async fn get(world: &World, name: &str) -> Result<pb::Agent, RpcError> {
    let name = name.to_owned();
    let request = pb::GetAgentRequest { name };
    let got = world.agents.clone().get_agent(request).await?;
    Ok(got.into_inner().agent.expect("an agent"))
}

async fn delete(world: &World, name: &str, expected: Option<u64>) -> Result<(), RpcError> {
    let request = pb::DeleteAgentRequest {
        request_id: world.request_id(),
        name: name.to_owned(),
        expected_version: expected,
    };
    world.agents.clone().delete_agent(request).await?;
    Ok(())
}

async fn page(
    world: &World,
    page_size: u32,
    page_token: String,
) -> Result<pb::ListAgentsResponse, RpcError> {
    let request = pb::ListAgentsRequest {
        page_size,
        page_token,
    };
    let page = world.agents.clone().list_agents(request).await?;
    Ok(page.into_inner())
}

async fn listed(world: &World, page_size: u32) -> Vec<pb::AgentSummary> {
    let (mut agents, mut token) = (Vec::new(), String::new());
    loop {
        let page = page(world, page_size, token).await.expect("a page");
        assert!(page_size == 0 || page.agents.len() <= page_size as usize);
        agents.extend(page.agents);
        token = page.next_page_token;
        if token.is_empty() {
            return agents;
        }
    }
}

fn names(agents: &[pb::AgentSummary]) -> Vec<&str> {
    agents.iter().map(|agent| agent.name.as_str()).collect()
}

/// Checks kind and reason of an error.
fn check(error: &RpcError, kind: ErrorKind, reason: &str) {
    let found = (error.kind(), error.reason_name());
    assert_eq!(found, (kind, reason), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_read_as_it_was_stored() {
    let world = World::new().await;
    let stored = put(&world, request(&world, SOURCE)).await.expect("stored");
    assert_eq!((stored.name.as_str(), stored.version), ("reviewer", 1));
    assert_eq!((stored.source.as_str(), stored.digest.len()), (SOURCE, 64));
    assert_eq!(stored.change_time, None);
    let [warning] = stored.warnings.as_slice() else {
        panic!("{:?}", stored.warnings);
    };
    assert_eq!((warning.line, warning.field.as_str()), (4, "colour"));
    assert!(warning.problem.starts_with("is no field of an agent"));
    let definition = stored.definition.clone().expect("a definition");
    assert_eq!(definition.prompt, "Review.");
    let patterns = ["read_file", "search_files"].map(str::to_owned).to_vec();
    let only = Tools::Only(pb::ToolPatterns { patterns });
    assert_eq!(definition.tools, Some(only));

    let read = get(&world, "reviewer").await.expect("an agent");
    assert_eq!(read.change_time, Some(timestamp(world.now())));
    let read = pb::Agent {
        change_time: None,
        ..read
    };
    assert_eq!(read, stored);
    let [summary] = <[_; 1]>::try_from(listed(&world, 0).await).expect("one agent");
    assert_eq!(summary.digest, stored.digest);
    assert_eq!(summary.mode(), pb::AgentMode::All);
    assert_eq!(summary.unreadable, "");
}

#[tokio::test(start_paused = true)]
async fn a_source_with_faults_is_refused_with_all_of_them() {
    let world = World::new().await;
    let wrong = request(&world, "---\nname: a\nmaxTurns: many\nhidden: 1\n---\nP");
    let error = put(&world, wrong).await.expect_err("refused");
    check(&error, ErrorKind::InvalidArgument, "BAD_AGENT");
    assert_eq!(error.metadata("faults"), Some("2"));
    let violations: Vec<String> = error.violations().iter().map(ToString::to_string).collect();
    let expected = [
        "source line 3: maxTurns is \"many\" (allowed: a whole number from 1 to 100000)",
        "source line 4: hidden is 1 (allowed: true or false)",
    ];
    assert_eq!(violations, expected);
    let nameless = put(&world, request(&world, "P"))
        .await
        .expect_err("refused");
    check(&nameless, ErrorKind::InvalidArgument, "BAD_AGENT");
    assert!(listed(&world, 0).await.is_empty());
    assert_eq!(world.faults.calls("PutDocument"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_name_of_the_request_counts_over_that_of_the_source() {
    let world = World::new().await;
    let named = pb::PutAgentRequest {
        name: Some("critic".to_owned()),
        ..request(&world, SOURCE)
    };
    let critic = put(&world, named).await.expect("stored");
    assert_eq!(critic.name, "critic");
    let read = get(&world, "critic").await.expect("an agent");
    assert_eq!((read.name.as_str(), read.digest), ("critic", critic.digest));
    let error = get(&world, "reviewer").await.expect_err("not there");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_the_first_answer_and_another_request_is_refused() {
    let world = World::new().await;
    let first = request(&world, SOURCE);
    let stored = put(&world, first.clone()).await.expect("stored");
    let second = request(&world, &source("reviewer", "Be brief."));
    let replaced = put(&world, second).await.expect("replaced");
    assert_eq!(replaced.version, 2);
    let again = put(&world, first.clone()).await.expect("a retry");
    assert_eq!(again, stored);
    let read = get(&world, "reviewer").await.expect("an agent");
    assert_eq!((read.version, read.digest), (2, replaced.digest));
    let other = pb::PutAgentRequest {
        source: source("reviewer", "Else."),
        ..first
    };
    let error = put(&world, other).await.expect_err("refused");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_a_lost_answer_changes_nothing_more() {
    let world = World::new().await;
    // Longer than the ids of the store.
    let request = pb::PutAgentRequest {
        request_id: "x".repeat(128),
        ..request(&world, SOURCE)
    };
    world.faults.next("PutDocument", Fault::LoseAnswer, 1);
    let lost = put(&world, request.clone()).await.expect_err("no answer");
    check(&lost, ErrorKind::Unavailable, "OUTCOME_UNKNOWN");
    let stored = put(&world, request).await.expect("a retry");
    assert_eq!(stored.version, 1);
    assert_eq!(listed(&world, 0).await[0].version, 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_version_is_refused() {
    let world = World::new().await;
    let expecting = |expected| pb::PutAgentRequest {
        expected_version: Some(expected),
        ..request(&world, SOURCE)
    };
    for (expected, outcome) in [
        (3, Err("0")),
        (0, Ok(1)),
        (0, Err("1")),
        (1, Ok(2)),
        (1, Err("2")),
    ] {
        match (put(&world, expecting(expected)).await, outcome) {
            (Ok(stored), Ok(version)) => assert_eq!(stored.version, version),
            (Err(error), Err(version)) => {
                check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
                assert_eq!(error.metadata("version"), Some(version));
            }
            (put, _) => panic!("{expected}: {put:?}"),
        }
    }
    let error = delete(&world, "reviewer", Some(1)).await;
    let error = error.expect_err("refused");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    delete(&world, "reviewer", Some(2)).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_agent_is_gone_and_a_new_one_of_its_name_has_a_new_version() {
    let world = World::new().await;
    for expected in [None, Some(1)] {
        let error = delete(&world, "reviewer", expected).await;
        let error = error.expect_err("not there");
        check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
    }
    put(&world, request(&world, SOURCE)).await.expect("stored");
    let request_id = world.request_id();
    for _ in 0..2 {
        let request = pb::DeleteAgentRequest {
            request_id: request_id.clone(),
            name: "reviewer".to_owned(),
            expected_version: None,
        };
        let deleted = world.agents.clone().delete_agent(request).await;
        deleted.expect("deleted, or a retry");
    }
    let error = get(&world, "reviewer").await.expect_err("gone");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
    assert!(listed(&world, 0).await.is_empty());
    let again = put(&world, request(&world, SOURCE)).await.expect("stored");
    assert_eq!(again.version, 3);
}

#[tokio::test(start_paused = true)]
async fn pages_have_every_agent_once_in_the_order_of_versions() {
    let world = World::new().await;
    for name in ["e", "d", "c", "b", "a"] {
        let request = request(&world, &source(name, "P"));
        put(&world, request).await.expect("stored");
    }
    delete(&world, "c", None).await.expect("deleted");
    let again = request(&world, &source("e", "Else."));
    put(&world, again).await.expect("replaced");
    for size in [0, 1, 2, 1000] {
        let agents = listed(&world, size).await;
        assert_eq!(names(&agents), ["d", "b", "a", "e"], "{size}");
    }
    let error = page(&world, 1001, String::new()).await;
    check(
        &error.expect_err("too many"),
        ErrorKind::InvalidArgument,
        "INVALID_ARGUMENT",
    );
    let first = page(&world, 1, String::new()).await.expect("a page");
    // As after a failover that may have lost changes.
    let elsewhere = format!("{}x", first.next_page_token);
    let error = page(&world, 1, elsewhere).await.expect_err("refused");
    check(&error, ErrorKind::OutOfRange, "RELIST");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_full_takes_no_further_agent() {
    let limits = Limits {
        documents: 1,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    let one = request(&world, &source("a", "P"));
    put(&world, one).await.expect("stored");
    let two = request(&world, &source("b", "P"));
    let error = put(&world, two).await.expect_err("refused");
    check(&error, ErrorKind::ResourceExhausted, "LIMIT");
    assert_eq!(
        error.to_string(),
        "the namespace has 1 agents, which is the most"
    );
    // A replacement is no further agent.
    let other = request(&world, &source("a", "Else."));
    put(&world, other).await.expect("replaced");
}

fn document(id: &str, value: Vec<u8>) -> memory_pb::PutDocumentRequest {
    memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Agent.into(),
        id: id.to_owned(),
        value: value.into(),
        expected_version: None,
        operation_id: format!("put-{id}"),
    }
}

#[tokio::test(start_paused = true)]
async fn agents_of_another_namespace_are_not_there() {
    let world = World::new().await;
    let other: Namespace = "other".parse().expect("a namespace");
    let source = source("theirs", "P");
    let put = document(
        "theirs",
        memory_pb::AgentDocument { source }.encode_to_vec(),
    );
    let put = with_principal(Request::new(put), &Principal::service("test", other));
    let stored = world.documents.clone().put_document(put).await;
    stored.expect("stored");
    assert!(listed(&world, 0).await.is_empty());
    let error = get(&world, "theirs").await.expect_err("not there");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
    let error = delete(&world, "theirs", None).await;
    check(
        &error.expect_err("not there"),
        ErrorKind::NotFound,
        "AGENT_NOT_FOUND",
    );
}

/// A newer version may take sources that this one refuses, and may store them in another form.
#[tokio::test(start_paused = true)]
async fn an_agent_that_only_another_version_can_read_is_listed_and_can_be_deleted() {
    let world = World::new().await;
    let source = "---\neffort: immense\n---\nP".to_owned();
    let newer = memory_pb::AgentDocument { source }.encode_to_vec();
    for (name, value) in [("newer", newer), ("strange", vec![0xff])] {
        let put = for_tenant(document(name, value));
        let stored = world.documents.clone().put_document(put).await;
        stored.expect("stored");
        let error = get(&world, name).await.expect_err("unreadable");
        check(&error, ErrorKind::FailedPrecondition, "NEWER_VERSION");
    }
    put(&world, request(&world, SOURCE)).await.expect("stored");
    let agents = listed(&world, 0).await;
    assert_eq!(names(&agents), ["newer", "strange", "reviewer"]);
    assert!(agents[0].unreadable.starts_with("line 2: effort is"));
    assert!(!agents[1].unreadable.is_empty());
    assert_eq!(agents[0].mode(), pb::AgentMode::Unspecified);
    assert!(agents[2].unreadable.is_empty());
    delete(&world, "newer", None).await.expect("deleted");
    delete(&world, "strange", None).await.expect("deleted");
    assert_eq!(names(&listed(&world, 0).await), ["reviewer"]);
}
