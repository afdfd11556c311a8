//! What the executor does not take.

use crate::bench::{Bench, executor};
use crate::owner::{Owner, attempt, call_ref, model_step, owners_result, permit};
use cairn_executor::Config;
use cairn_model::ModelRegistry;
use cairn_proto::event::{self, Effect, FailureKind, Role};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{Acknowledgement, AttemptStart, OfferedTool, RunStepRequest};
use cairn_rpc::{ErrorKind, RpcError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

fn assistant(ids: &[&str]) -> event::Message {
    let calls = ids.iter().map(|id| event::ToolCall {
        id: (*id).to_owned(),
        name: "look".to_owned(),
        arguments_json: "{}".to_owned(),
    });
    event::Message {
        role: Role::Assistant.into(),
        tool_calls: calls.collect(),
        ..event::Message::default()
    }
}

fn result(id: &str) -> event::Message {
    event::Message {
        role: Role::Tool.into(),
        tool_call_id: id.to_owned(),
        ..event::Message::default()
    }
}

/// The field that the executor names when it refuses this start.
async fn refused(start: AttemptStart) -> String {
    let bench = Bench::new().await;
    let mut owner = bench.start(start).await;
    field(&owner.error().await)
}

fn field(error: &RpcError) -> String {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.violations()[0].field.clone()
}

#[tokio::test(start_paused = true)]
async fn a_start_that_makes_no_sense_is_refused_by_field() {
    type Change = fn(&mut AttemptStart);
    let user = event::Message {
        role: Role::User.into(),
        ..event::Message::default()
    };
    let starts: Vec<(&str, Change)> = vec![
        ("start.session", |s| s.session.clear()),
        ("start.attempt", |s| s.attempt = None),
        ("start.max_tool_turns", |s| s.max_tool_turns = 0),
        ("start.tools[1].parameters_json", |s| {
            s.tools[1].parameters_json = "{".to_owned()
        }),
    ];
    for (want, change) in starts {
        let mut start = model_step();
        change(&mut start);
        assert_eq!(refused(start).await, want);
    }
    let transcripts = [
        (
            "start.transcript[1].role",
            vec![assistant(&[]), event::Message::default()],
        ),
        ("transcript[0].role", vec![result("a")]),
        ("transcript[1].role", vec![assistant(&[]), user]),
        (
            "transcript[1].tool_call_id",
            vec![assistant(&["a"]), result("b")],
        ),
        (
            "transcript[2].tool_call_id",
            vec![assistant(&["a"]), result("a"), result("a")],
        ),
        (
            "transcript[0].tool_calls",
            vec![assistant(&["a"]), assistant(&[])],
        ),
        ("permitted_calls", vec![assistant(&["a"])]),
    ];
    for (want, transcript) in transcripts {
        let start = AttemptStart {
            transcript,
            ..model_step()
        };
        assert_eq!(refused(start).await, want);
    }
    let start = AttemptStart {
        transcript: vec![assistant(&["a"]), result("a")],
        open_calls: vec![permit(call_ref(0, 0), "look", "{}", Effect::Pure)],
        ..model_step()
    };
    assert_eq!(refused(start).await, "permitted_calls.call");
}

#[tokio::test(start_paused = true)]
async fn messages_out_of_order_are_refused() {
    let first_messages = [
        (
            "start",
            Some(ToExecutor::Acknowledgement(Acknowledgement::default())),
        ),
        ("message", None),
    ];
    for (want, message) in first_messages {
        let bench = Bench::new().await;
        let (to_executor, requests) = mpsc::unbounded_channel();
        to_executor.send(RunStepRequest { message }).expect("open");
        let request = tonic::Request::new(UnboundedReceiverStream::new(requests));
        let request = cairn_rpc::with_principal(request, &crate::owner::principal());
        let response = bench
            .client
            .clone()
            .run_step(request)
            .await
            .expect("a stream");
        let status = response.into_inner().message().await.expect_err("refused");
        assert_eq!(field(&RpcError::from_status(&status)), want);
    }
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    owner.send(ToExecutor::Start(model_step()));
    assert_eq!(field(&owner.error().await), "start");
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_makes_no_sense_is_refused() {
    type Act = fn(&Owner);
    let cases: Vec<(&str, Act)> = vec![
        ("acknowledgement.through_number", |owner| owner.ack(2)),
        // Nothing is said of the call, so the turn would never end.
        ("permitted_calls", |owner| owner.ack(1)),
        ("permitted_calls.call", |owner| {
            let beyond = permit(call_ref(0, 1), "send", "{}", Effect::Effectful);
            owner.ack_with(1, vec![beyond], Vec::new());
        }),
        ("results.call", |owner| {
            owner.ack_with(1, Vec::new(), vec![owners_result(call_ref(1, 0), "")]);
        }),
        ("held_calls", |owner| {
            owner.hold(1, vec![call_ref(0, 1)]);
        }),
        ("permitted_calls.tool_call", |owner| {
            let mut empty = permit(call_ref(0, 0), "send", "{}", Effect::Effectful);
            empty.tool_call = None;
            owner.ack_with(1, vec![empty], Vec::new());
        }),
        ("results.call", |owner| {
            let mut result = owners_result(call_ref(0, 0), "");
            result.call = None;
            owner.ack_with(1, Vec::new(), vec![result]);
        }),
    ];
    for (want, act) in cases {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(model_step()).await;
        bench.asked().await.reply("", &[("send", "{}")]);
        owner.report().await;
        act(&owner);
        assert_eq!(field(&owner.error().await), want);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_model_the_step_fails_and_a_tool_step_works() {
    let bench = Bench::new().await;
    let unknown = AttemptStart {
        model: "other".to_owned(),
        ..model_step()
    };
    let mut owner = bench.start(unknown).await;
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Config);
    assert!(
        failure.message.contains("played"),
        "names the known ones: {}",
        failure.message
    );
    owner.end(1).await;

    let tools = cairn_rpc::ServerBuilder::new(cairn_rpc::Exposure::Internal)
        .build()
        .await;
    let tools = tools.expect("a server").link();
    let client = executor(Config::default(), ModelRegistry::new(), tools).await;
    let mut owner = Owner::open(&client, model_step()).await.expect("a slot");
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!(
        (failure.kind(), &*failure.message),
        (FailureKind::Config, "missing model provider")
    );
    owner.end(1).await;

    // No tools service answers here, which for a pure call is a result like any other.
    let start = AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permit(call_ref(0, 0), "look", "{}", Effect::Pure)),
        tools: vec![OfferedTool::default()],
        ..AttemptStart::default()
    };
    let mut owner = Owner::open(&client, start).await.expect("a slot");
    let report = owner.report().await;
    assert_eq!(report.results[0].reason, "ExecutionFailed");
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_nobody_is_refused() {
    let mut bench = Bench::new().await;
    let (_to_executor, requests) = mpsc::unbounded_channel::<RunStepRequest>();
    let request = UnboundedReceiverStream::new(requests);
    let status = bench.client.run_step(request).await.expect_err("refused");
    assert_eq!(
        RpcError::from_status(&status).kind(),
        ErrorKind::Unauthenticated
    );
    bench.is_quiet().await;
}
