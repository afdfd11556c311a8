//! What the executor does not take.

use crate::bench::{Bench, executor};
use crate::owner::{
    Owner, attempt, call_ref, catalogue, conversation, model_step, owners_result, permit,
};
use cairn_engine::conversation::Op;
use cairn_engine::message::{Message, ToolCall};
use cairn_executor::Config;
use cairn_model::ModelRegistry;
use cairn_proto::event::{self, Effect, FailureKind};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{Acknowledgement, AttemptStart, RunStepRequest};
use cairn_rpc::{ErrorKind, RpcError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// A start after a reply with calls of these ids, of which some have a result.
fn after(ids: &[&str], results: &[u32]) -> AttemptStart {
    let calls = ids.iter().map(|id| ToolCall {
        id: (*id).to_owned(),
        name: "look".to_owned(),
        arguments: "{}".to_owned(),
    });
    let mut said = conversation();
    said.append(Message::assistant("", calls.collect()));
    let results = results
        .iter()
        .map(|index| owners_result(call_ref(0, *index), "seen"));
    AttemptStart {
        conversation: Some(said.into()),
        tool_turns: 1,
        results: results.collect(),
        ..model_step()
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
    let starts: Vec<(&str, Change)> = vec![
        ("start.session", |s| s.session.clear()),
        ("start.attempt", |s| s.attempt = None),
        ("start.max_tool_turns", |s| s.max_tool_turns = 0),
        ("start.conversation", |s| s.conversation = None),
        ("start.conversation", |s| s.tool_turns = 1),
        ("ops", |s| {
            s.ops = vec![Op::Remove { number: 7 }.into()];
        }),
    ];
    for (want, change) in starts {
        let mut start = model_step();
        change(&mut start);
        assert_eq!(refused(start).await, want);
    }
    let earlier = AttemptStart {
        tool_turns: 2,
        ..after(&["a"], &[0])
    };
    assert_eq!(refused(earlier).await, "start.results.call");
    assert_eq!(refused(after(&["a"], &[1])).await, "start.results");
    assert_eq!(refused(after(&["a"], &[])).await, "permitted_calls");
    let start = AttemptStart {
        open_calls: vec![permit(call_ref(0, 1), "look", "{}", Effect::Pure)],
        ..after(&["a"], &[0])
    };
    assert_eq!(refused(start).await, "permitted_calls.call");
}

/// Its owner continues with another executor then, and the step does not fail.
#[tokio::test(start_paused = true)]
async fn what_only_a_newer_executor_knows_is_refused_as_that() {
    let bench = Bench::new().await;
    let start = AttemptStart {
        ops: vec![event::Op::default()],
        ..model_step()
    };
    let error = bench.start(start).await.error().await;
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert_eq!(error.reason_name(), "NEWER_VERSION");
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_that_cannot_be_read_is_refused() {
    let bench = Bench::new().await;
    let start = AttemptStart {
        catalogue: "broken".to_owned(),
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    let mut broken = catalogue();
    broken.tools[1].parameters_json = "{".to_owned();
    owner.lacks(broken).await;
    let error = owner.error().await;
    assert_eq!(field(&error), "catalogue.tools[1].parameters_json");
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
    owner.send(ToExecutor::Start(Box::new(model_step())));
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
    let (client, _running) = executor(Config::default(), ModelRegistry::new(), tools).await;
    let mut owner = Owner::open(&client, model_step()).await.expect("a slot");
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!(
        (failure.kind(), &*failure.message),
        (FailureKind::Config, "missing provider")
    );
    owner.end(1).await;

    // There is no tools service here.
    let start = AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permit(call_ref(0, 0), "look", "{}", Effect::Pure)),
        ..AttemptStart::default()
    };
    let mut owner = Owner::open(&client, start).await.expect("a slot");
    let report = owner.report().await;
    let result = &report.results[0];
    assert_eq!(
        (&*result.reason, &*result.output),
        ("missing", "missing tool_registry")
    );
    owner.end(1).await;
}

/// A tool step costs nothing.
#[tokio::test(start_paused = true)]
async fn with_a_budget_of_money_a_model_without_a_price_is_not_asked() {
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        limits_cost: true,
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Config);
    assert_eq!(failure.reason, "no_price");
    owner.end(1).await;
    bench.is_quiet().await;
    let start = AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permit(call_ref(0, 0), "look", "{}", Effect::Pure)),
        limits_cost: true,
        ..AttemptStart::default()
    };
    let mut owner = bench.start(start).await;
    bench.called().await.output("seen");
    let report = owner.report().await;
    assert_eq!(report.results[0].output, "seen");
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

/// In a turn a person may let it be compacted, and in a step not.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_larger_than_the_window_is_not_sent() {
    let of_turn = AttemptStart {
        options: Some(event::TurnOptions::default()),
        ..model_step()
    };
    for (start, advice) in [
        (model_step(), "split the step"),
        (of_turn, "cairn context set --when-full compact"),
    ] {
        let mut bench = Bench::with_window(1_000).await;
        let mut owner = bench.start(start).await;
        bench.asked().await.reply("", &[("look", "{}")]);
        owner.report().await;
        owner.ack(1);
        bench.called().await.output(&"word ".repeat(1_000));
        let report = owner.report().await;
        assert_eq!(report.results.len(), 1, "the result is not lost");
        assert_eq!(report.full, None, "it is not compacted");
        let failure = report.failure.expect("a failure");
        assert_eq!(
            (failure.kind(), &*failure.reason),
            (FailureKind::LimitExceeded, "CONTEXT_FULL")
        );
        for part in ["window_tokens is 1000", advice] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        owner.end(2).await;
        bench.is_quiet().await;
    }
}
