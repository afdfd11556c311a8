//! Prompts, as clients list and render them.

use crate::support::World;
use cairn_model::PromptTemplate;
use cairn_model::prompt::{CONVERSATION, Prompts};
use cairn_orchestrator::Config;
use cairn_proto::api as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;

/// A world whose operator has three prompts and a variable.
async fn world() -> World {
    let files = [
        ("planning", "Plan for {team}.\n"),
        ("greeting", "Hello,\n{name} of {team}.\n"),
        ("broken", "Once\n{% if %}"),
    ];
    let files = files.map(|(name, text)| PromptTemplate::new(name, text));
    let variables = [("team".to_owned(), "Blue".to_owned())].into();
    let prompts = Prompts::new(files, variables).expect("no fault");
    World::with_config(Config {
        prompts: Arc::new(prompts),
        ..Config::default()
    })
    .await
}

async fn page(
    world: &World,
    page_size: u32,
    page_token: String,
) -> Result<pb::ListPromptsResponse, RpcError> {
    let request = pb::ListPromptsRequest {
        page_size,
        page_token,
    };
    let page = world.agents.clone().list_prompts(request).await?;
    Ok(page.into_inner())
}

async fn listed(world: &World, page_size: u32) -> Vec<pb::Prompt> {
    let (mut prompts, mut token) = (Vec::new(), String::new());
    loop {
        let page = page(world, page_size, token).await.expect("a page");
        assert!(page_size == 0 || page.prompts.len() <= page_size as usize);
        prompts.extend(page.prompts);
        token = page.next_page_token;
        if token.is_empty() {
            return prompts;
        }
    }
}

async fn render(world: &World, name: &str, values: &[(&str, &str)]) -> Result<String, RpcError> {
    let values = values.iter();
    let values = values.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let request = pb::RenderPromptRequest {
        name: name.to_owned(),
        variables: values.collect(),
    };
    let rendered = world.agents.clone().render_prompt(request).await?;
    Ok(rendered.into_inner().text)
}

async fn put_agent(world: &World, name: &str, prompt: &str) {
    let request = pb::PutAgentRequest {
        request_id: world.request_id(),
        source: format!("---\nname: {name}\n---\n{prompt}\n"),
        ..pb::PutAgentRequest::default()
    };
    let put = world.agents.clone().put_agent(request).await;
    put.expect("stored");
}

#[tokio::test(start_paused = true)]
async fn prompts_are_listed_by_name_and_those_of_agents_follow() {
    let world = world().await;
    put_agent(&world, "reviewer", "Review {this}.").await;
    put_agent(&world, "critic", "Find faults.").await;
    let all = listed(&world, 0).await;
    let names: Vec<_> = all.iter().map(|prompt| prompt.name.as_str()).collect();
    let own = [
        "broken",
        "code_generation",
        "code_repair",
        "conversation",
        "execution",
        "greeting",
        "guide",
        "plan_repair",
        "planning",
        "summary",
    ];
    assert_eq!(names[..10], own);
    let mut agents = names[10..].to_vec();
    agents.sort_unstable();
    assert_eq!(agents, ["agent:critic", "agent:reviewer"]);
    for page_size in [1, 3, 10, 11, 12, 13] {
        assert_eq!(listed(&world, page_size).await, all, "{page_size}");
    }

    let of = |name: &str| all.iter().find(|it| it.name == name).expect("a prompt");
    let planning = of("planning");
    assert_eq!(planning.source(), pb::PromptSource::Settings);
    assert_eq!(planning.text, "Plan for {team}.\n");
    assert_eq!(
        (&planning.variables[..], &*planning.problem),
        (&["team".to_owned()][..], "")
    );
    let conversation = of("conversation");
    assert_eq!(conversation.source(), pb::PromptSource::BuiltIn);
    assert_eq!(conversation.text, CONVERSATION);
    assert_eq!(of("summary").variables, ["words"]);
    assert_eq!(of("greeting").variables, ["name", "team"]);
    let problem = &of("broken").problem;
    assert!(
        problem.contains("\"broken\" is wrong at line 2"),
        "{problem}"
    );
    let reviewer = of("agent:reviewer");
    assert_eq!(reviewer.source(), pb::PromptSource::Agent);
    assert_eq!(reviewer.text, "Review {this}.");
    assert!(reviewer.variables.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_rendered_with_the_values_of_the_request_and_those_of_the_settings() {
    let world = world().await;
    put_agent(&world, "reviewer", "Review {this}.").await;
    let rendered = |name, values| render(&world, name, values);
    let text = rendered("planning", &[]).await.expect("text");
    assert_eq!(text, "Plan for Blue.\n");
    let text = rendered("greeting", &[("name", "{team}")]).await;
    assert_eq!(text.expect("text"), "Hello,\n{team} of Blue.\n");
    let text = rendered("greeting", &[("name", "Ada"), ("team", "Red")]).await;
    assert_eq!(text.expect("text"), "Hello,\nAda of Red.\n");
    let text = rendered("conversation", &[]).await.expect("text");
    assert_eq!(text, CONVERSATION);
    let text = rendered("agent:reviewer", &[("this", "it")]).await;
    assert_eq!(text.expect("text"), "Review {this}.");
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_prompt_name_it_with_the_line_and_the_variable() {
    let world = world().await;
    let error = render(&world, "greeting", &[]).await.expect_err("refused");
    let found = (error.kind(), error.reason_name());
    assert_eq!(found, (ErrorKind::InvalidArgument, "BAD_PROMPT"));
    let said = ["prompt", "variable", "line"].map(|key| error.metadata(key));
    assert_eq!(said, [Some("greeting"), Some("name"), Some("2")]);
    assert_eq!(error.violations()[0].field, "variables");

    let error = render(&world, "broken", &[]).await.expect_err("refused");
    assert_eq!(error.reason_name(), "BAD_PROMPT");
    let said = ["prompt", "variable", "line"].map(|key| error.metadata(key));
    assert_eq!(said, [Some("broken"), None, Some("2")]);
    assert_eq!(error.violations()[0].field, "name");

    for name in ["poem", "agent:nobody", "agent:", "agent:a b"] {
        let error = render(&world, name, &[]).await.expect_err("refused");
        let found = (error.kind(), error.reason_name());
        assert_eq!(found, (ErrorKind::NotFound, "PROMPT_NOT_FOUND"), "{name}");
        assert_eq!(error.metadata("id"), Some(name));
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_request_name_their_field() {
    let world = world().await;
    let many: Vec<String> = (0..65).map(|number| format!("v{number}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "x")).collect();
    let long = "x".repeat(64 * 1024);
    for values in [
        &many[..],
        &[("name", long.as_str())],
        &[("a-b", "x")],
        &[("name", "\0")],
    ] {
        let error = render(&world, "greeting", values)
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.violations()[0].field, "variables", "{error}");
    }
    let error = render(&world, " ", &[]).await.expect_err("refused");
    assert_eq!(error.violations()[0].field, "name");
    for (page_size, token, field) in [(1001, "", "page_size"), (0, "planning", "page_token")] {
        let error = page(&world, page_size, token.to_owned()).await;
        assert_eq!(error.expect_err("refused").violations()[0].field, field);
    }
}
