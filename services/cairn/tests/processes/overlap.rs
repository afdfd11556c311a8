//! Steps that do not depend on each other run at the same time: calls end only when so many of them
//! are under way together, so that a run which makes them one after the other does not end.
//!
//! A run has 8 steps at the same time.

use crate::support;
use cairn_engine::message::{Message, Role, ToolCall, Usage};
use cairn_model::{ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo};
use cairn_model::{ModelRegistry, tokens};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::TestStore;
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{
    check_completed, client, model_step, node, parts_over, start, tool_step, watch_to_end,
};
use tokio::sync::Barrier;
use tokio::time::timeout;

/// So many at the same time, which is what a run does unless it is told otherwise.
const TOGETHER: usize = 8;
/// Whoever is alone for so long stays alone.
const ALONE: Duration = Duration::from_secs(20);

/// What is under way, which ends only together.
#[derive(Debug)]
struct Meeting {
    barrier: Barrier,
    here: AtomicUsize,
    most: AtomicUsize,
}

impl Meeting {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            barrier: Barrier::new(TOGETHER),
            here: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    /// Says whether all came.
    async fn attend(&self) -> bool {
        let here = self.here.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(here, Ordering::SeqCst);
        let met = timeout(ALONE, self.barrier.wait()).await;
        self.here.fetch_sub(1, Ordering::SeqCst);
        met.is_ok()
    }
}

/// A tool that attends.
struct Attend(ToolSpec, Arc<Meeting>);

impl Attend {
    fn named(name: &str, effect: Effect, meeting: &Arc<Meeting>) -> Arc<dyn Tool> {
        let schema = serde_json::json!({"type": "object"});
        let mut spec = ToolSpec::new(name, "waits for others", schema);
        spec.effect = effect;
        Arc::new(Self(spec, Arc::clone(meeting)))
    }
}

#[async_trait::async_trait]
impl Tool for Attend {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        match self.1.attend().await {
            true => Ok(Output::text("all came")),
            false => Err(ToolError::ExecutionFailed("the others did not come".into())),
        }
    }
}

/// A model that attends in the steps that are called so; in others it first has a tool called by as
/// many calls of one reply as come together.
#[derive(Debug)]
struct Asked(Arc<Meeting>);

#[async_trait::async_trait]
impl Model for Asked {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let calls_tools = request
            .messages
            .iter()
            .any(|it| it.text().contains("Do call."));
        let has_called = request.messages.iter().any(|it| it.role == Role::Tool);
        let call = |number: usize, name: &str, arguments: &str| ToolCall {
            id: format!("call-{number}"),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let calls = if calls_tools && !has_called {
            (0..TOGETHER)
                .map(|number| call(number, "look", "{}"))
                .collect()
        } else {
            if !calls_tools && !self.0.attend().await {
                let message = "the others did not come".to_owned();
                return Err(ModelError::BadRequest { message });
            }
            vec![call(0, "step", r#"{"complete": true, "summary": "done"}"#)]
        };
        Ok(ChatReply {
            message: Message::assistant(String::new(), calls),
            usage: Usage::default(),
            finish: FinishReason::ToolCalls,
            model: "asked".to_owned(),
        })
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        tokens::estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "test".to_owned(),
            name: "asked".to_owned(),
            window_tokens: 8000,
            vision: false,
            prices: None,
        }
    }
}

fn graph(steps: Vec<wire::PlanStep>) -> wire::StartRun {
    wire::StartRun {
        plan: Some(wire::Plan {
            order: wire::Order::Graph.into(),
            steps,
        }),
        ..wire::StartRun::default()
    }
}

/// Panics unless the run completes, and so many calls met as there may be and no more.
async fn check_meets(store: &TestStore, name: &str, steps: Vec<wire::PlanStep>) {
    let meeting = Meeting::new();
    let mut models = ModelRegistry::new();
    models.insert("asked", Arc::new(Asked(Arc::clone(&meeting))));
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = parts_over(store, folder.path(), models);
    let tools = [
        ("look", Effect::Pure),
        ("put", Effect::Idempotent),
        ("send", Effect::Effectful),
    ];
    let tools = tools.map(|(name, effect)| Attend::named(name, effect, &meeting));
    parts.more_tools.extend(tools);
    let node = node(parts).await;
    let mut client = client(&node);
    let count = steps.len();
    let session = start(&mut client, &name.replace(' ', "-"), graph(steps)).await;
    let events = watch_to_end(&mut client, &session, 0).await;
    check_completed(&events);
    let most = meeting.most.load(Ordering::SeqCst);
    println!("{count} steps, {name}: {most} under way at the same time");
    assert_eq!(most, TOGETHER, "{name}");
    let kinds = events.iter().filter_map(|(_, event)| event.kind.as_ref());
    let starts = kinds.filter(|kind| matches!(kind, Kind::StepStarted(_)));
    assert_eq!(starts.count(), count, "{name}");
    node.drain().await;
}

async fn steps_that_do_not_depend_on_each_other_are_under_way_together(store: TestStore) {
    for tool in ["look", "put", "send"] {
        check_meets(&store, tool, vec![tool_step(tool); TOGETHER]).await;
    }
    check_meets(&store, "for the model", vec![model_step("think"); TOGETHER]).await;
}

async fn no_more_are_under_way_than_may_be(store: TestStore) {
    check_meets(&store, "look", vec![tool_step("look"); 3 * TOGETHER]).await;
    check_meets(
        &store,
        "for the model",
        vec![model_step("think"); 3 * TOGETHER],
    )
    .await;
}

async fn the_calls_of_one_reply_are_under_way_together(store: TestStore) {
    check_meets(&store, "calls of one reply", vec![model_step("call")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_steps_that_do_not_depend_on_each_other_are_under_way_together() {
    steps_that_do_not_depend_on_each_other_are_under_way_together(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_no_more_are_under_way_than_may_be() {
    no_more_are_under_way_than_may_be(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_the_calls_of_one_reply_are_under_way_together() {
    the_calls_of_one_reply_are_under_way_together(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_steps_that_do_not_depend_on_each_other_are_under_way_together() {
        steps_that_do_not_depend_on_each_other_are_under_way_together(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_no_more_are_under_way_than_may_be() {
        no_more_are_under_way_than_may_be(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_the_calls_of_one_reply_are_under_way_together() {
        the_calls_of_one_reply_are_under_way_together(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_steps_that_do_not_depend_on_each_other_are_under_way_together() {
        steps_that_do_not_depend_on_each_other_are_under_way_together(TestStore::cluster()).await;
    }
}
