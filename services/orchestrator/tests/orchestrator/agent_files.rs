//! Agents, skills and instructions of the workspace: confirmed by a person, read by the tools service.

use crate::agent_runs::{check, delete, of, one_turn, put, request, switch, try_start};
use crate::answers::results;
use crate::support::{Attempt, World, chain, model_step, reply};
use crate::turns::{session, submit, turn};
use cairn_proto::api;
use cairn_rpc::{ErrorKind, RpcError};

const CRITIC: &str = "---\ndescription: Finds faults.\ntools: [pure]\n---\nCriticise.\n";
const SKILL: &str = "---\nname: release\ndescription: For releases.\n---\nStep one.\n";

async fn start(world: &World, agent: &str) -> Result<String, RpcError> {
    let run = of(agent, chain(vec![model_step("one")]));
    let started = try_start(world, request(world, "", run)).await?;
    Ok(started.session)
}

async fn listed(world: &World) -> api::ListWorkspaceFilesResponse {
    let request = api::ListWorkspaceFilesRequest {};
    let listed = world.agents.clone().list_workspace_files(request).await;
    listed.expect("files").into_inner()
}

async fn confirm(world: &World, digest: &str) -> Result<(), RpcError> {
    let request = api::ConfirmWorkspaceFilesRequest {
        request_id: world.request_id(),
        digest: digest.to_owned(),
    };
    world
        .agents
        .clone()
        .confirm_workspace_files(request)
        .await?;
    Ok(())
}

async fn get(world: &World, name: &str) -> Result<api::Agent, RpcError> {
    let name = name.to_owned();
    let request = api::GetAgentRequest { name };
    let got = world.agents.clone().get_agent(request).await?;
    Ok(got.into_inner().agent.expect("an agent"))
}

/// The result of a call of `read_skill`.
async fn read(world: &World, attempt: &mut Attempt, turn: u32, arguments: &str) -> (String, bool) {
    attempt.reply(reply(turn, "", &[("read_skill", arguments)]));
    let result = results(world, attempt).await.remove(0);
    (result.output, result.is_error)
}

#[tokio::test(start_paused = true)]
async fn a_file_counts_once_it_is_confirmed_and_until_it_changes() {
    let world = World::new().await;
    world.tools.write("agents/critic.md", CRITIC);
    for name in ["workspace:critic", "critic"] {
        let error = start(&world, name).await.expect_err("not confirmed");
        check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");
        assert!(error.to_string().contains("cairn agent trust"), "{error}");
    }
    world.tools.confirm();
    for name in ["workspace:critic", "critic"] {
        let session = start(&world, name).await.expect("a run");
        let attempt = world.attempt().await;
        assert_eq!(attempt.start.agent, "workspace:critic");
        assert!(attempt.texts()[0].contains("Criticise."));
        let used = world.run(&session).await.agent.expect("an agent");
        assert_eq!(used.name, "workspace:critic");
    }
    world
        .tools
        .write("agents/critic.md", "---\ntools: [\"*\"]\n---\nObey.");
    let error = start(&world, "workspace:critic").await;
    let error = error.expect_err("it has changed");
    check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");
}

#[tokio::test(start_paused = true)]
async fn files_are_listed_and_confirmed_as_they_were_seen() {
    let world = World::new().await;
    assert_eq!(
        listed(&world).await,
        api::ListWorkspaceFilesResponse::default()
    );
    world.tools.write("AGENTS.md", "Be kind.");
    world.tools.write("agents/critic.md", CRITIC);
    world.tools.write("skills/release/SKILL.md", SKILL);
    let seen = listed(&world).await;
    assert!(!seen.confirmed && !seen.digest.is_empty());
    let found: Vec<_> = seen
        .files
        .iter()
        .map(|it| (it.path.as_str(), it.name.as_str()))
        .collect();
    let expected = [
        ("AGENTS.md", ""),
        ("agents/critic.md", "critic"),
        ("skills/release/SKILL.md", "release"),
    ];
    assert_eq!(found, expected);
    assert!(seen.files.iter().all(|file| file.description.is_empty()));
    let error = get(&world, "workspace:critic")
        .await
        .expect_err("not confirmed");
    check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");

    let error = confirm(&world, "another").await.expect_err("refused");
    check(&error, ErrorKind::Conflict, "WORKSPACE_CHANGED");
    assert_eq!(error.metadata("digest"), Some(seen.digest.as_str()));
    confirm(&world, &seen.digest).await.expect("confirmed");
    let now = listed(&world).await;
    assert!(now.confirmed);
    let said: Vec<_> = now
        .files
        .iter()
        .map(|file| file.description.as_str())
        .collect();
    assert_eq!(said, ["", "Finds faults.", "For releases."]);
    let agent = get(&world, "workspace:critic").await.expect("an agent");
    assert_eq!(
        (agent.name.as_str(), agent.version),
        ("workspace:critic", 0)
    );
    assert_eq!(agent.source, CRITIC);
    assert_eq!(agent.definition.expect("a definition").prompt, "Criticise.");
    let error = get(&world, "workspace:nobody").await.expect_err("missing");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn the_contents_of_files_are_read_once() {
    let world = World::new().await;
    world.tools.write("AGENTS.md", "Be kind.");
    world.tools.confirm();
    for _ in 0..3 {
        let session = start(&world, "").await.expect("a run");
        let attempt = world.attempt().await;
        assert!(attempt.texts().join("\n").contains("Be kind."));
        let used = world.run(&session).await.agent.expect("an agent");
        assert_eq!(used.name, "default");
    }
    let (reads, contents) = world.tools.reads();
    assert!(reads >= 3, "{reads}");
    assert_eq!(contents, 1);
    assert!(world.listed(10).await.iter().all(|it| it.agent.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_view_asks_for_files_only_if_a_run_has_an_agent() {
    let world = World::new().await;
    put(&world, "---\nname: reviewer\n---\nReview.").await;
    let mut attempts = Vec::new();
    for (agent, expected) in [("", 0), ("reviewer", 1)] {
        let session = start(&world, agent).await.expect("a run");
        // Without its stream it would begin anew.
        attempts.push(world.attempt().await);
        let (before, _) = world.tools.reads();
        world.run(&session).await;
        let (after, _) = world.tools.reads();
        assert_eq!(after - before, expected, "{agent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_context_does_not_move_from_a_deleted_agent_to_a_file_of_its_name() {
    let world = World::new().await;
    put(&world, "---\nname: critic\n---\nReview.").await;
    let session = session(&world).await;
    switch(&world, &session, "critic").await.expect("a switch");
    one_turn(&world, &session).await;
    world.tools.write("agents/critic.md", CRITIC);
    world.tools.confirm();
    one_turn(&world, &session).await;
    delete(&world, "critic").await;
    let refused = submit(&world, turn(&world, &session)).await;
    let error = refused.expect_err("another agent has the name");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
    assert!(error.to_string().contains("workspace:critic"), "{error}");
    switch(&world, &session, "critic").await.expect("a switch");
    let attempt = one_turn(&world, &session).await;
    assert_eq!(attempt.start.agent, "workspace:critic");
}

/// Runs that need no file begin all the same, and the others with what this process has read before.
#[tokio::test(start_paused = true)]
async fn runs_begin_while_the_tools_process_is_away() {
    let world = World::new().await;
    put(&world, "---\nname: reviewer\n---\nReview.").await;
    world.tools.write("agents/critic.md", CRITIC);
    world.tools.confirm();
    world.tools.be_away(true);
    start(&world, "").await.expect("a run");
    // Without its stream it would begin anew.
    let _plain = world.attempt().await;
    start(&world, "reviewer").await.expect("a run");
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.agent, "reviewer");
    let error = start(&world, "workspace:critic").await;
    let error = error.expect_err("its file is not known");
    check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");
    assert!(error.to_string().contains("cannot be read now"), "{error}");

    world.tools.be_away(false);
    start(&world, "workspace:critic").await.expect("a run");
    world.tools.be_away(true);
    start(&world, "workspace:critic").await.expect("a run");
    let error = start(&world, "workspace:nobody").await;
    let error = error.expect_err("no file has it");
    check(&error, ErrorKind::NotFound, "AGENT_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_file_takes_tools_from_the_stored_agent_of_its_name() {
    let world = World::new().await;
    put(
        &world,
        "---\nname: reviewer\ntools: [pure, idempotent]\n---\nReview.",
    )
    .await;
    let file = "---\ntools: [pure, effectful]\n---\nObey.";
    world.tools.write("agents/reviewer.md", file);
    for (is_confirmed, has_both) in [(false, true), (true, false)] {
        if is_confirmed {
            world.tools.confirm();
        }
        start(&world, "reviewer").await.expect("a run");
        let mut attempt = world.attempt().await;
        let texts = attempt.texts().join("\n");
        assert!(
            texts.contains("Review.") && !texts.contains("Obey."),
            "{texts}"
        );
        let tools = world.until(attempt.tools()).await;
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        assert!(has("pure") && !has("effectful"), "{tools:?}");
        assert_eq!(has("idempotent"), has_both, "{tools:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_counts_for_the_next_turn_once_it_is_confirmed() {
    let world = World::new().await;
    world.tools.write("agents/critic.md", CRITIC);
    world.tools.confirm();
    let session = session(&world).await;
    switch(&world, &session, "workspace:critic")
        .await
        .expect("a switch");
    let attempt = one_turn(&world, &session).await;
    assert!(attempt.texts()[0].contains("Criticise."));
    let before = world.run(&session).await.agent.expect("an agent");
    world
        .tools
        .write("agents/critic.md", "---\ntools: [pure]\n---\nBe brief.");
    let refused = submit(&world, turn(&world, &session)).await;
    let error = refused.expect_err("the change is not confirmed");
    check(&error, ErrorKind::FailedPrecondition, "AGENT_NOT_USABLE");
    world.tools.confirm();
    let attempt = one_turn(&world, &session).await;
    assert!(attempt.texts().join("\n").contains("Be brief."));
    let after = world.run(&session).await.agent.expect("an agent");
    assert_ne!(before.digest, after.digest);
}

#[tokio::test(start_paused = true)]
async fn a_model_reads_a_skill_until_it_changes() {
    let world = World::new().await;
    world.tools.write("skills/release/SKILL.md", SKILL);
    world
        .tools
        .write("skills/release/scripts/go.sh", "echo go\n");
    world.tools.confirm();
    start(&world, "").await.expect("a run");
    let mut attempt = world.attempt().await;
    assert!(
        attempt.texts()[0].contains("For releases."),
        "{:?}",
        attempt.texts()
    );
    let tools = world.until(attempt.tools()).await;
    assert!(tools.iter().any(|tool| tool == "read_skill"), "{tools:?}");
    let (text, is_error) = read(&world, &mut attempt, 0, r#"{"name": "release"}"#).await;
    assert!(!is_error && text.contains("Step one."), "{text}");
    let script = r#"{"name": "release", "file": "scripts/go.sh"}"#;
    let script = read(&world, &mut attempt, 1, script).await;
    assert_eq!(script, ("echo go\n".to_owned(), false));
    for (turn, arguments, expected) in [
        (
            2,
            r#"{"name": "other"}"#,
            "there is no skill 'other'; there are: release",
        ),
        (
            3,
            r#"{"name": "release", "file": "x.md"}"#,
            "file 'x.md' of skill 'release' does not exist",
        ),
    ] {
        let found = read(&world, &mut attempt, turn, arguments).await;
        assert_eq!(found, (expected.to_owned(), true));
    }
    world
        .tools
        .write("skills/release/scripts/go.sh", "rm -rf .\n");
    let (text, is_error) = read(&world, &mut attempt, 4, r#"{"name": "release"}"#).await;
    assert!(is_error && text.contains("is not confirmed"), "{text}");
    attempt.complete(5);
    let ended = world.until(attempt.settled()).await;
    assert!(ended);
}

/// An agent that lists its skills has no others.
#[tokio::test(start_paused = true)]
async fn an_agent_reads_the_skills_of_its_list() {
    let world = World::new().await;
    world.tools.write("skills/release/SKILL.md", SKILL);
    world.tools.confirm();
    put(&world, "---\nname: a\nskills: [other]\n---\nP").await;
    start(&world, "a").await.expect("a run");
    let mut attempt = world.attempt().await;
    assert!(!attempt.texts()[0].contains("For releases."));
    let tools = world.until(attempt.tools()).await;
    assert!(!tools.iter().any(|tool| tool == "read_skill"), "{tools:?}");
}
