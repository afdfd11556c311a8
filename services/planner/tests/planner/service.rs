//! The service over a local link, with a model that the test plays.

use cairn_engine::message::{Message, Usage};
use cairn_model::prompt::Prompts;
use cairn_model::{
    ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, ModelRegistry,
    PromptTemplate, StreamEvent,
};
use cairn_planner::{Config, Deps, JsonPlanParser};
use cairn_proto::event::{FailureKind, Order, Plan, PlanStep};
use cairn_proto::planner::make_plan_request::Earlier;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse};
use cairn_rpc::{ErrorKind, Exposure, Link, RpcError, ServerBuilder};
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub(crate) type Answer = Result<ChatReply, ModelError>;

/// A question to the model, and the way to answer it.
type Asked = (ChatRequest, oneshot::Sender<Answer>);

#[derive(Debug)]
struct PlayedModel(mpsc::UnboundedSender<Asked>);

#[tonic::async_trait]
impl Model for PlayedModel {
    async fn chat(&self, request: &ChatRequest) -> Answer {
        let (answer, wait) = oneshot::channel();
        self.0
            .send((request.clone(), answer))
            .expect("the test listens");
        wait.await.expect("the test answers")
    }

    async fn chat_stream(
        &self,
        _request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        unreachable!("the planner does not stream")
    }

    fn estimate_tokens(&self, _messages: &[Arc<Message>]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "test".to_owned(),
            name: "played".to_owned(),
            window_tokens: 1000,
            vision: false,
            prices: None,
        }
    }
}

pub(crate) fn reply(text: &str) -> Answer {
    Ok(ChatReply {
        message: Message::assistant(text, Vec::new()),
        usage: Usage {
            input_tokens: 10,
            output_tokens: 3,
            cost_nano_usd: 7,
            model_calls: 1,
            ..Usage::default()
        },
        finish: FinishReason::Stop,
        model: "played".to_owned(),
    })
}

async fn link(config: Config, models: ModelRegistry) -> Link {
    link_to(config, Deps::new(Arc::new(models))).await
}

async fn link_to(config: Config, deps: Deps) -> Link {
    let service = cairn_planner::build(config, deps);
    let builder = ServerBuilder::new(Exposure::Internal);
    let server = builder
        .register(service, cairn_proto::DESCRIPTORS)
        .build()
        .await;
    server.expect("a server").link()
}

fn request() -> MakePlanRequest {
    MakePlanRequest {
        session: "s-1".to_owned(),
        run: 1,
        goal: "count the files\n".to_owned(),
        prompt_layers: vec![
            "Workspace: .".to_owned(),
            String::new(),
            "Tools: none".to_owned(),
        ],
        model: String::new(),
        tools: ["s", "t"].map(str::to_owned).to_vec(),
        capabilities: ["file_ops", "web_search"].map(str::to_owned).to_vec(),
        ..MakePlanRequest::default()
    }
}

fn earlier() -> Earlier {
    let step = PlanStep {
        id: "1".to_owned(),
        description: "count".to_owned(),
        ..PlanStep::default()
    };
    Earlier {
        plan: Some(Plan {
            order: Order::Chain.into(),
            steps: vec![step],
        }),
        results: "- 1: done: 3".to_owned(),
        feedback: "mention the year\n".to_owned(),
    }
}

/// Plans with a model that answers with these texts in turn; the requests that it got.
pub(crate) async fn plan_with(answers: &[Answer]) -> (MakePlanResponse, Vec<ChatRequest>) {
    plan_as(answers, |_, _| {}).await
}

/// As [`plan_with`], with other parts or another request.
pub(crate) async fn plan_as(
    answers: &[Answer],
    change: impl FnOnce(&mut Deps, &mut MakePlanRequest),
) -> (MakePlanResponse, Vec<ChatRequest>) {
    plan_in(Config::default(), answers, change).await
}

async fn plan_in(
    config: Config,
    answers: &[Answer],
    change: impl FnOnce(&mut Deps, &mut MakePlanRequest),
) -> (MakePlanResponse, Vec<ChatRequest>) {
    let (model, mut asked) = mpsc::unbounded_channel();
    let mut models = ModelRegistry::new();
    models.insert("played", Arc::new(PlayedModel(model)));
    let mut deps = Deps::new(Arc::new(models));
    let mut request = request();
    change(&mut deps, &mut request);
    let link = link_to(config, deps).await;
    let mut planning = tokio::spawn(async move {
        let mut client = PlannerServiceClient::new(link);
        client.make_plan(request).await
    });
    let mut requests = Vec::new();
    for answer in answers {
        let (request, way) = asked.recv().await.expect("the model is asked");
        tokio::time::advance(Duration::from_millis(30)).await;
        way.send(answer.clone()).expect("the planner waits");
        requests.push(request);
    }
    let response = tokio::select! {
        response = &mut planning => response.expect("no panic").expect("a response"),
        Some(_) = asked.recv() => panic!("the model is asked again"),
    };
    (response.into_inner(), requests)
}

pub(crate) const GOOD: &str = r#"Sure: {"order":"graph","steps":[
    {"id":"a","title":"A","description":"do a"},
    {"title":"B","tool":"t","arguments":{"x":1},"depends_on":["a"],"capabilities":["file_ops"]}]}"#;

#[tokio::test(start_paused = true)]
async fn a_good_plan_is_returned_with_its_usage_and_duration() {
    let (response, requests) = plan_with(&[reply(GOOD)]).await;
    assert_eq!(response.failure, None);
    let plan = response.plan.expect("a plan");
    assert_eq!(plan.order(), Order::Graph);
    assert_eq!(plan.steps[0].description, "do a");
    assert_eq!(plan.steps[1].depends_on, ["a"]);
    assert_eq!(plan.steps[1].capabilities, ["file_ops"]);
    let tool = plan.steps[1].tool.as_ref().expect("a tool");
    assert_eq!(
        (tool.name.as_str(), tool.arguments_json.as_str()),
        ("t", r#"{"x":1}"#)
    );
    let usage = response.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (10, 3));
    assert_eq!((usage.cost_nano_usd, usage.model_calls), (7, 1));
    assert_eq!(response.duration_ms, 30);
    assert!(requests[0].tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn layers_belong_to_the_system_prompt_and_the_goal_stands_alone() {
    let (_, requests) = plan_with(&[reply(GOOD)]).await;
    let planning = cairn_model::prompt::PLANNING.trim_end();
    let want = [
        Message::system(format!("{planning}\n\nWorkspace: .\n\nTools: none")),
        Message::user("count the files"),
    ];
    assert_eq!(requests[0].messages, want.map(Arc::new));
}

#[tokio::test(start_paused = true)]
async fn prompts_of_the_operator_are_sent_in_place_of_the_built_in_ones() {
    let own = [
        ("planning", "Plan {\"steps\": []} for {team}.\n"),
        ("plan_repair", "{team}, it is wrong: {problem}\n"),
    ];
    let own = own.map(|(name, text)| PromptTemplate::new(name, text));
    let variables = [("team".to_owned(), "Blue".to_owned())].into();
    let config = Config {
        prompts: Arc::new(Prompts::new(own, variables).expect("no fault")),
        ..Config::default()
    };
    let answers = [reply("no plan"), reply(GOOD)];
    let (response, requests) = plan_in(config, &answers, |_, _| {}).await;
    assert!(response.plan.is_some());
    let system = requests[0].messages[0].text();
    let expected = "Plan {\"steps\": []} for Blue.\n\nWorkspace: .\n\nTools: none";
    assert_eq!(system, expected);
    let repair = requests[1].messages.last().expect("a message").text();
    assert!(repair.starts_with("Blue, it is wrong: "), "{repair}");
}

/// Also without a goal: a run that was started with a plan may have none.
#[tokio::test(start_paused = true)]
async fn another_plan_is_made_from_the_earlier_one_its_results_and_feedback() {
    let change = |_: &mut Deps, request: &mut MakePlanRequest| {
        request.goal.clear();
        request.earlier = Some(earlier());
    };
    let (response, requests) = plan_as(&[reply(GOOD)], change).await;
    assert!(response.plan.is_some());
    let messages = &requests[0].messages;
    let results = "Tools: none\n\n## What came of the plan so far\n\n- 1: done: 3";
    assert!(messages[0].text().ends_with(results), "{messages:?}");
    let plan = JsonPlanParser::strict()
        .draft(&messages[2].text())
        .expect("a plan");
    assert_eq!(plan.steps[0].description, "count");
    let want = [
        Message::user(""),
        Message::assistant(messages[2].text(), Vec::new()),
        Message::user("mention the year"),
    ];
    assert_eq!(messages[1..], want.map(Arc::new));
}

/// Models neither see them nor write them, and a step of the same words keeps them.
#[tokio::test(start_paused = true)]
async fn another_plan_keeps_external_ids_and_notes() {
    let change = |_: &mut Deps, request: &mut MakePlanRequest| {
        let mut earlier = earlier();
        let step = &mut earlier.plan.as_mut().expect("a plan").steps[0];
        (step.external_id, step.note) = ("T-17".to_owned(), "quietly".to_owned());
        request.earlier = Some(earlier);
    };
    let answer = r#"{"steps":[{"id":"0","description":"look","external_id":"mine","note":"mine"},
        {"id":"1","description":"count"}]}"#;
    let (response, requests) = plan_as(&[reply(answer)], change).await;
    let shown = &requests[0].messages;
    let is_shown = |text: &str| shown.iter().any(|message| message.text().contains(text));
    assert!(!is_shown("T-17") && !is_shown("quietly"), "{shown:?}");
    let steps = response.plan.expect("a plan").steps;
    let beside = |at: usize| (&*steps[at].external_id, &*steps[at].note);
    assert_eq!((beside(0), beside(1)), (("", ""), ("T-17", "quietly")));
}

#[tokio::test(start_paused = true)]
async fn a_bad_plan_is_reported_back_once() {
    let bad = r#"{"steps":[{"title":"A"}]}"#;
    let (response, requests) = plan_with(&[reply(bad), reply(GOOD)]).await;
    assert!(response.plan.is_some());
    assert_eq!(response.usage.expect("usage").model_calls, 2);
    assert_eq!(response.duration_ms, 60);
    let (first, second) = (&requests[0].messages, &requests[1].messages);
    assert_eq!(second[..2], first[..]);
    assert_eq!(*second[2], Message::assistant(bad, Vec::new()));
    assert!(
        second[3].text().contains("step 0 lacks 'description'"),
        "{}",
        second[3].text()
    );
    assert_eq!(second.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_second_bad_plan_is_a_failure_that_says_which() {
    let bad = r#"{"steps":[{"title":"A"}]}"#;
    let circle = r#"{"order":"graph","steps":[{"id":"a","description":"a","depends_on":["a"]}]}"#;
    let (response, _) = plan_with(&[reply(bad), reply(circle)]).await;
    assert_eq!(response.plan, None);
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::PlanParse);
    assert_eq!(failure.reason, "CircularDependency");
    assert!(!failure.recoverable);
    assert_eq!(response.usage.expect("usage").model_calls, 2);
    assert_eq!(response.duration_ms, 60);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_a_failure_with_the_usage_so_far() {
    let error = ModelError::Auth {
        message: "no".to_owned(),
    };
    let (response, _) = plan_with(&[reply("no plan"), Err(error)]).await;
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Llm);
    assert_eq!(failure.reason, "Auth");
    assert_eq!(response.usage.expect("usage").model_calls, 1);
}

#[tokio::test(start_paused = true)]
async fn replies_without_content_are_in_the_usage() {
    let (response, _) = plan_with(&[reply(""), reply("")]).await;
    assert_eq!(response.failure.expect("a failure").reason, "EmptyReply");
    assert_eq!(response.usage.expect("usage").model_calls, 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_for_a_while_is_asked_again() {
    let error = ModelError::Stream {
        message: "broken".to_owned(),
    };
    let (response, requests) = plan_with(&[Err(error), reply(GOOD)]).await;
    assert!(response.plan.is_some());
    assert_eq!(requests[0], requests[1]);
    assert_eq!(response.usage.expect("usage").model_calls, 1);
}

#[tokio::test]
async fn without_a_model_planning_fails() {
    let link = link(Config::default(), ModelRegistry::new()).await;
    let response = PlannerServiceClient::new(link).make_plan(request()).await;
    let failure = response
        .expect("a response")
        .into_inner()
        .failure
        .expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Config);
    assert_eq!(failure.message, "missing provider");
}

/// The model is not asked: what it would cost is not known.
#[tokio::test(start_paused = true)]
async fn with_a_budget_of_money_a_model_without_a_price_makes_no_plan() {
    let change = |_: &mut Deps, request: &mut MakePlanRequest| request.limits_cost = true;
    let (response, _) = plan_as(&[], change).await;
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Config);
    assert_eq!(failure.reason, "no_price");
}

#[tokio::test]
async fn a_field_that_is_missing_or_bad_is_named() {
    let link = link(Config::default(), ModelRegistry::new()).await;
    let mut client = PlannerServiceClient::new(link);
    let (mut silent, mut no_steps) = (earlier(), earlier());
    silent.feedback = "\n".to_owned();
    no_steps.plan = Some(Plan::default());
    for (earlier, field) in [
        (None, "goal"),
        (Some(silent), "earlier.feedback"),
        (Some(no_steps), "earlier.plan"),
    ] {
        let request = MakePlanRequest {
            goal: "\n".to_owned(),
            earlier,
            ..request()
        };
        let status = client.make_plan(request).await.expect_err("refused");
        let error = RpcError::from_status(&status);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.violations()[0].field, field);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_beyond_the_limit_is_refused_until_one_is_done() {
    let (model, mut asked) = mpsc::unbounded_channel();
    let mut models = ModelRegistry::new();
    models.insert("played", Arc::new(PlayedModel(model)));
    let config = Config {
        max_plans: 1,
        ..Config::default()
    };
    let link = link(config, models).await;
    let mut client = PlannerServiceClient::new(link.clone());
    let first = tokio::spawn(async move { client.make_plan(request()).await });
    let (_, mut way) = asked.recv().await.expect("the model is asked");
    let mut client = PlannerServiceClient::new(link);
    let status = client.make_plan(request()).await.expect_err("refused");
    assert_eq!(
        RpcError::from_status(&status).kind(),
        ErrorKind::ResourceExhausted
    );
    // Whoever goes away takes the question to the model along, and frees the slot.
    first.abort();
    way.closed().await;
    let second = tokio::spawn(async move { client.make_plan(request()).await });
    let (_, way) = asked.recv().await.expect("the model is asked");
    way.send(reply(GOOD)).expect("the planner waits");
    assert!(
        second
            .await
            .expect("no panic")
            .expect("a response")
            .into_inner()
            .plan
            .is_some()
    );
}
