//! Runs and contexts that use stored agents.

use crate::support::{Attempt, Kind, World, chain, count, model_step, tool_step};
use crate::turns::{rest, session, submit, turn};
use cairn_engine::event::{Budget, RunStarted};
use cairn_orchestrator::Config;
use cairn_proto::api;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};

/// An agent that may call one of the tools.
pub(crate) const REVIEWER: &str = "---\nname: reviewer\ntools: [pure]\nmodel: [gone, fast]\ntemperature: 0.2\n\
    max-tool-turns: 3\n---\nReview with care.\n";

/// Stores an agent, in place of the one that had its name.
pub(crate) async fn put(world: &World, source: &str) {
    let put = api::PutAgentRequest {
        request_id: world.request_id(),
        source: source.to_owned(),
        ..api::PutAgentRequest::default()
    };
    let stored = world.agents.clone().put_agent(put).await;
    stored.expect("it is stored");
}

/// Deletes a stored agent.
pub(crate) async fn delete(world: &World, name: &str) {
    let delete = api::DeleteAgentRequest {
        request_id: world.request_id(),
        name: name.to_owned(),
        expected_version: None,
    };
    let deleted = world.agents.clone().delete_agent(delete).await;
    deleted.expect("it is deleted");
}

/// The same run, of this agent.
pub(crate) fn of(agent: &str, run: wire::StartRun) -> wire::StartRun {
    wire::StartRun {
        agent: agent.to_owned(),
        ..run
    }
}

/// A request for a run in this session, or in a new one.
pub(crate) fn request(world: &World, session: &str, run: wire::StartRun) -> pb::StartRunRequest {
    pb::StartRunRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    }
}

pub(crate) async fn try_start(
    world: &World,
    request: pb::StartRunRequest,
) -> Result<pb::StartRunResponse, RpcError> {
    let mut client = world.client.clone();
    let started = world.until(client.start_run(request)).await;
    let started = started.map_err(|status| RpcError::from_status(&status));
    Ok(started?.into_inner())
}

/// Gives the active context another agent.
pub(crate) async fn switch(world: &World, session: &str, agent: &str) -> Result<u64, RpcError> {
    let switch = pb::SwitchAgentRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: String::new(),
        agent: agent.to_owned(),
    };
    let mut contexts = world.contexts.clone();
    let switched = world.until(contexts.switch_agent(switch)).await;
    let switched = switched.map_err(|status| RpcError::from_status(&status));
    Ok(switched?.into_inner().seq)
}

/// A turn that has begun, and its stream to the end.
pub(crate) async fn one_turn(world: &World, session: &str) -> Attempt {
    let mut stream = submit(world, turn(world, session)).await.expect("a turn");
    let mut attempt = world.attempt().await;
    attempt.says("good day");
    rest(world, &mut stream).await.expect("an end");
    attempt
}

/// The last run that began.
async fn begun(world: &World, session: &str) -> RunStarted {
    let events = world.journal.events(session).await;
    let begun = events.into_iter().rev().find_map(|event| match event.kind {
        Kind::RunStarted(started) => Some(started),
        _ => None,
    });
    begun.expect("a run")
}

pub(crate) fn check(error: &RpcError, kind: ErrorKind, reason: &str) {
    let found = (error.kind(), error.reason_name());
    assert_eq!(found, (kind, reason), "{error}");
}

fn with_models() -> Config {
    Config {
        models: ["fast".to_owned(), "slow".to_owned()].into(),
        ..Config::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_works_as_the_agent_that_it_names() {
    let world = World::with_config(with_models()).await;
    put(&world, REVIEWER).await;
    let run = of("reviewer", chain(vec![model_step("one")]));
    let session = world.start(run).await;
    let mut attempt = world.attempt().await;
    let start = &attempt.start;
    let as_agent = (start.agent.as_str(), start.model.as_str());
    assert_eq!(as_agent, ("reviewer", "fast"));
    assert_eq!(start.temperature_milli, Some(200));
    assert_eq!(start.max_tool_turns, 3);
    let texts = attempt.texts();
    assert!(texts[0].contains("Review with care."), "{}", texts[0]);
    let tools = world.until(attempt.tools()).await;
    assert!(tools.iter().any(|tool| tool == "pure"), "{tools:?}");
    assert!(tools.iter().any(|tool| tool == "step"), "{tools:?}");
    for other in ["approved", "effectful", "idempotent", "read_skill"] {
        assert!(!tools.iter().any(|tool| tool == other), "{tools:?}");
    }
    attempt.complete(0);
    world.ended(&session).await;
    let used = world.run(&session).await.agent.expect("an agent");
    assert_eq!((used.name.as_str(), used.digest.len()), ("reviewer", 64));
}

#[tokio::test(start_paused = true)]
async fn the_model_is_that_of_the_request_or_else_the_first_that_there_is() {
    let world = World::with_config(with_models()).await;
    for (of_agent, of_request, expected) in [
        ("[gone, slow, fast]", "", "slow"),
        ("[gone, slow]", "fast", "fast"),
        ("gone", "", ""),
    ] {
        put(&world, &format!("---\nname: a\nmodel: {of_agent}\n---\nP")).await;
        let run = wire::StartRun {
            model: of_request.to_owned(),
            ..of("a", chain(vec![model_step("one")]))
        };
        let session = world.start(run).await;
        assert_eq!(begun(&world, &session).await.model, expected, "{of_agent}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_limit_is_that_of_the_request_or_the_agent_or_the_settings() {
    let world = World::new().await;
    let source = "---\nname: a\nmax-turns: 7\ncairn: {budgets: {tokens: 900}}\n---\nP";
    put(&world, source).await;
    let settings = Config::default().limits;
    let turns = settings.budgets[Budget::Turns];
    let limits = |max_turns| wire::LimitOverrides {
        max_turns,
        ..wire::LimitOverrides::default()
    };
    for (agent, of_request, expected) in [
        ("a", None, (7, 900)),
        ("a", Some(limits(3)), (3, 900)),
        ("a", Some(limits(0)), (7, 900)),
        ("", None, (turns, 0)),
        ("", Some(limits(3)), (3, 0)),
    ] {
        let run = wire::StartRun {
            limits: of_request,
            ..of(agent, chain(vec![model_step("one")]))
        };
        let session = world.start(run).await;
        let budgets = begun(&world, &session).await.limits.budgets;
        let found = (budgets[Budget::Turns], budgets[Budget::Tokens]);
        assert_eq!(found, expected, "{agent}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_used_starts_nothing() {
    let world = World::new().await;
    put(&world, "---\nname: off\ndisable: true\n---\nP").await;
    put(&world, "---\nname: worker\nmode: subagent\n---\nP").await;
    let known = session(&world).await;
    for (agent, kind, reason, words) in [
        ("nobody", ErrorKind::NotFound, "AGENT_NOT_FOUND", "nobody"),
        (
            "off",
            ErrorKind::FailedPrecondition,
            "AGENT_NOT_USABLE",
            "disabled",
        ),
        (
            "worker",
            ErrorKind::FailedPrecondition,
            "AGENT_NOT_USABLE",
            "other agents",
        ),
        (
            "no name",
            ErrorKind::InvalidArgument,
            "ID_INVALID",
            "run.agent",
        ),
    ] {
        for session in ["", known.as_str()] {
            let run = of(agent, chain(vec![model_step("one")]));
            let refused = try_start(&world, request(&world, session, run)).await;
            let error = refused.expect_err("it is refused");
            check(&error, kind, reason);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    // What was to be a new session is none.
    assert_eq!(world.listed(10).await.len(), 1);
    let error = switch(&world, &known, "off").await.expect_err("refused");
    check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");
    assert!(world.other_attempts().await.is_empty());
}

/// The answer follows from what was stored, and not from what the agent is by now.
#[tokio::test(start_paused = true)]
async fn a_retry_of_a_start_has_the_first_answer_whatever_became_of_the_agent() {
    let world = World::new().await;
    put(&world, REVIEWER).await;
    let run = || {
        of(
            "reviewer",
            chain(vec![tool_step("pure"), model_step("two")]),
        )
    };
    let first = request(&world, "", run());
    let started = try_start(&world, first.clone()).await.expect("a run");
    put(&world, "---\nname: reviewer\ntools: []\n---\nElse.").await;
    let again = try_start(&world, first.clone()).await.expect("a retry");
    assert_eq!(again, started);
    delete(&world, "reviewer").await;
    let again = try_start(&world, first.clone()).await.expect("a retry");
    assert_eq!(again, started);
    world.tools.be_away(true);
    let again = try_start(&world, first).await.expect("a retry");
    assert_eq!(again, started);
    let error = try_start(&world, request(&world, "", run())).await;
    check(
        &error.expect_err("refused"),
        ErrorKind::NotFound,
        "AGENT_NOT_FOUND",
    );
    let events = world.journal.events(&started.session).await;
    assert_eq!(count(&events, "AgentDefined"), 1);
    assert_eq!(count(&events, "RunStarted"), 1);
}

/// What is stored apart from the journal takes a session, which there is not yet.
#[tokio::test(start_paused = true)]
async fn a_long_prompt_and_instructions_fit_into_a_new_session() {
    let world = World::new().await;
    put(
        &world,
        &format!("---\nname: a\n---\n{}", "Work. ".repeat(9_000)),
    )
    .await;
    world.tools.write("AGENTS.md", &"Be kind.\n".repeat(3_000));
    world.tools.confirm();
    let first = request(&world, "", of("a", chain(vec![model_step("one")])));
    let started = try_start(&world, first.clone()).await.expect("a run");
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.agent, "a");
    let again = try_start(&world, first).await.expect("a retry");
    assert_eq!(again, started);
    let events = world.journal.events(&started.session).await;
    assert_eq!(count(&events, "RunStarted"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_stored_once_and_a_change_counts_for_the_next_turn() {
    let world = World::new().await;
    put(&world, REVIEWER).await;
    let session = session(&world).await;
    switch(&world, &session, "reviewer")
        .await
        .expect("a switch");
    for _ in 0..3 {
        one_turn(&world, &session).await;
    }
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "AgentDefined"), 1);
    let before = world.run(&session).await.agent.expect("an agent");

    let mut stream = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let mut attempt = world.attempt().await;
    assert!(!world.run(&session).await.agent_changed);
    put(&world, "---\nname: reviewer\ntools: [pure]\n---\nBe brief.").await;
    let run = world.run(&session).await;
    assert!(run.agent_changed);
    assert_eq!(run.agent, Some(before.clone()), "it continues as it began");
    attempt.says("good day");
    rest(&world, &mut stream).await.expect("an end");
    assert!(!world.run(&session).await.agent_changed, "it has ended");

    let attempt = one_turn(&world, &session).await;
    let texts = attempt.texts().join("\n");
    assert!(texts.contains("Be brief."), "{texts}");
    let after = world.run(&session).await.agent.expect("an agent");
    assert_eq!(after.name, before.name);
    assert_ne!(after.digest, before.digest);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "AgentDefined"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_of_a_switch_and_lists_show_the_agent() {
    let world = World::new().await;
    put(&world, REVIEWER).await;
    let session = session(&world).await;
    let attempt = one_turn(&world, &session).await;
    assert!(!attempt.texts().join("\n").contains("Review with care."));
    switch(&world, &session, "reviewer")
        .await
        .expect("a switch");
    let attempt = one_turn(&world, &session).await;
    let texts = attempt.texts();
    assert!(texts[0].contains("Review with care."), "{}", texts[0]);
    let notice = "Your operational mode has changed from default to reviewer.";
    let is_told = |text: &&String| text.contains(notice);
    assert_eq!(texts.iter().filter(is_told).count(), 1, "{texts:?}");
    let (before, last) = texts.split_at(texts.len() - 1);
    assert!(!before.iter().any(|text| text.contains(notice)));
    assert!(last[0].contains("hello"), "{last:?}");
    let attempt = one_turn(&world, &session).await;
    assert!(
        !attempt
            .texts()
            .last()
            .is_some_and(|text| text.contains(notice))
    );

    let request = pb::GetSessionRequest {
        session: session.clone(),
    };
    let got = world.client.clone().get_session(request).await;
    let got = got.expect("a session").into_inner().session.unwrap();
    assert_eq!(got.agent, "reviewer");
    let request = pb::ListContextsRequest {
        session: session.clone(),
    };
    let listed = world.contexts.clone().list_contexts(request).await;
    let contexts = listed.expect("contexts").into_inner().contexts;
    let used = contexts[0].agent.as_ref().expect("an agent");
    assert_eq!(used.name, "reviewer");
    let other = crate::turns::session(&world).await;
    for (agent, expected) in [("reviewer", vec![&session]), ("", vec![&other, &session])] {
        let request = pb::ListSessionsRequest {
            filter: Some(pb::SessionFilter {
                agent: agent.to_owned(),
                ..pb::SessionFilter::default()
            }),
            ..pb::ListSessionsRequest::default()
        };
        let page = world.client.clone().list_sessions(request).await;
        let sessions = page.expect("a page").into_inner().sessions;
        let found: Vec<&String> = sessions.iter().map(|it| &it.id).collect();
        assert_eq!(found, expected, "{agent}");
    }
    switch(&world, &session, "default").await.expect("a switch");
    let listed = world.listed(10).await;
    let listed = listed
        .iter()
        .find(|it| it.id == session)
        .expect("it is listed");
    assert_eq!(listed.agent, "");
}

#[tokio::test(start_paused = true)]
async fn a_context_is_created_with_an_agent() {
    let world = World::new().await;
    put(&world, REVIEWER).await;
    let session = session(&world).await;
    let create = |name: &str, agent: &str| pb::CreateContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::CreateContext {
            name: name.to_owned(),
            agent: agent.to_owned(),
            ..wire::CreateContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let refused = world
        .until(contexts.create_context(create("a", "nobody")))
        .await;
    let error = RpcError::from_status(&refused.expect_err("refused"));
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
    let created = world
        .until(contexts.create_context(create("a", "reviewer")))
        .await;
    created.expect("it is created");
    let mut in_it = turn(&world, &session);
    if let Some(turn) = &mut in_it.turn {
        turn.context = "a".to_owned();
    }
    let _stream = submit(&world, in_it).await.expect("a turn");
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.agent, "reviewer");
    assert!(attempt.texts()[0].contains("Review with care."));
}
