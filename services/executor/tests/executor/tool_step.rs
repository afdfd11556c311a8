//! Steps that are one tool call, and what becomes of calls without an answer.

use crate::bench::{Bench, Called, executor};
use crate::owner::{attempt, call_ref, namespace, outputs, permit};
use cairn_executor::Config;
use cairn_model::ModelRegistry;
use cairn_proto::event::{Effect, FileState};
use cairn_proto::executor::AttemptStart;
use cairn_proto::tools::ToolResult;
use cairn_rpc::{Address, ErrorKind, Link, Principal, RequireToken, RpcError};
use std::time::Duration;
use tonic::{Code, Status};

fn tool_step(effect: Effect) -> AttemptStart {
    AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permit(call_ref(0, 0), "send", r#"{"to":"x"}"#, effect)),
        ..AttemptStart::default()
    }
}

fn check_request(called: &Called) {
    let request = &called.request;
    assert_eq!(
        (request.name.as_str(), request.arguments_json.as_str()),
        ("send", r#"{"to":"x"}"#)
    );
    assert_eq!(request.call_key, "key-0-0");
    assert_eq!(request.not_after_unix_ms, 9_000);
    assert_eq!(request.session, "s-1");
    let executor = Principal::service("executor", namespace());
    assert_eq!(called.principal, executor);
}

#[tokio::test(start_paused = true)]
async fn the_call_is_made_once_and_its_result_is_report_1() {
    for effect in [Effect::Pure, Effect::Idempotent, Effect::Effectful] {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(effect)).await;
        let called = bench.called().await;
        check_request(&called);
        tokio::time::advance(Duration::from_millis(7)).await;
        let file = FileState {
            path: "a.rs".to_owned(),
            digest: "9f86".to_owned(),
        };
        called.answer(Ok(ToolResult {
            output: "failed".to_owned(),
            is_error: true,
            reason: "Timeout".to_owned(),
            duration_ms: 5,
            file: Some(file.clone()),
            ..ToolResult::default()
        }));
        let report = owner.report().await;
        assert_eq!(report.number, 1);
        assert_eq!(report.results.len(), 1);
        let result = &report.results[0];
        assert_eq!(result.call, Some(call_ref(0, 0)));
        assert_eq!((result.output.as_str(), result.is_error), ("failed", true));
        assert_eq!((result.reason.as_str(), result.duration_ms), ("Timeout", 7));
        assert_eq!(result.file, Some(file));
        assert_eq!((&report.reply, &report.failure), (&None, &None));
        owner.hears_nothing().await;
        owner.end(1).await;
        bench.is_quiet().await;
    }
}

/// Rules may be for one agent, and the tools service judges each call once more.
#[tokio::test(start_paused = true)]
async fn a_call_names_its_agent() {
    for agent in ["", "reviewer"] {
        let mut bench = Bench::new().await;
        let start = AttemptStart {
            agent: agent.to_owned(),
            ..tool_step(Effect::Pure)
        };
        let mut owner = bench.start(start).await;
        let called = bench.called().await;
        assert_eq!(called.request.agent, agent);
        called.answer(Ok(ToolResult::default()));
        owner.report().await;
        owner.end(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_be_repeated_is_sent_again_with_its_key() {
    for effect in [Effect::Pure, Effect::Idempotent] {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(effect)).await;
        bench
            .called()
            .await
            .answer(Err(Status::unavailable("restarting")));
        let again = bench.called().await;
        check_request(&again);
        again.output("done");
        assert_eq!(outputs(&owner.report().await), [(0, "done")]);
        owner.end(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_call_that_is_never_answered_breaks_the_stream() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(tool_step(Effect::Pure)).await;
    for _ in 0..4 {
        bench
            .called()
            .await
            .answer(Err(Status::unavailable("gone")));
    }
    let error = owner.error().await;
    assert_eq!(
        (error.kind(), error.reason_name()),
        (ErrorKind::Unavailable, "CALL_LOST")
    );
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_effectful_call_without_an_answer_is_never_repeated() {
    for code in [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
        Code::Unknown,
        Code::Internal,
        Code::Aborted,
        // The result may have been too large, or the connection was given up in the middle.
        Code::OutOfRange,
        Code::ResourceExhausted,
    ] {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(Effect::Effectful)).await;
        bench
            .called()
            .await
            .answer(Err(Status::new(code, "who knows")));
        let error = owner.error().await;
        assert_eq!(
            (error.kind(), error.reason_name()),
            (ErrorKind::Unavailable, "CALL_LOST")
        );
        bench.is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_certain_refusal_is_a_result_and_leaves_no_doubt() {
    const WORDS: &str = "certainly not";
    for (code, reason, says) in [
        (Code::InvalidArgument, "InvalidArguments", WORDS),
        (Code::NotFound, "NotFound", WORDS),
        (Code::PermissionDenied, "Denied", WORDS),
        (Code::Unauthenticated, "Denied", WORDS),
        (Code::FailedPrecondition, "ExecutionFailed", WORDS),
        // The words are those of a server without the tools service.
        (Code::Unimplemented, "missing", "missing tool_registry"),
    ] {
        for effect in [Effect::Effectful, Effect::Idempotent] {
            let mut bench = Bench::new().await;
            let mut owner = bench.start(tool_step(effect)).await;
            let refusal = Status::new(code, WORDS);
            bench.called().await.answer(Err(refusal));
            let report = owner.report().await;
            let result = &report.results[0];
            assert_eq!((result.is_error, result.reason.as_str()), (true, reason));
            assert!(result.output.ends_with(says), "{}", result.output);
            owner.end(1).await;
            bench.is_quiet().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_begun_may_be_permitted_anew() {
    for effect in [Effect::Effectful, Effect::Idempotent] {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(effect)).await;
        let late = RpcError::precondition("the call was not begun: too late");
        let late = Status::from(late.reason("NOT_SENT"));
        bench.called().await.answer(Err(late));
        assert_eq!(owner.report().await.results[0].reason, "NotSent");
        let anew = permit(call_ref(0, 0), "send", r#"{"to":"x"}"#, effect);
        owner.ack_with(1, vec![anew], Vec::new());
        bench.called().await.output("done");
        assert_eq!(outputs(&owner.report().await), [(0, "done")]);
        owner.end(2).await;
    }
}

/// The tools service does not read a call with a wrong token, so the call did not begin.
#[tokio::test(start_paused = true)]
async fn a_call_with_a_wrong_token_is_sent_again_and_never_denied() {
    let refusal = |reason| {
        let error = RpcError::new(ErrorKind::Unauthenticated, "a token of yesterday");
        Err(Status::from(error.reason(reason)))
    };
    for reason in [RequireToken::WRONG, RequireToken::MISSING] {
        for effect in [Effect::Effectful, Effect::Idempotent] {
            let mut bench = Bench::new().await;
            let mut owner = bench.start(tool_step(effect)).await;
            bench.called().await.answer(refusal(reason));
            bench.called().await.output("done");
            assert_eq!(outputs(&owner.report().await), [(0, "done")], "{effect:?}");
            owner.end(1).await;
        }
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(Effect::Effectful)).await;
        for _ in 0..4 {
            bench.called().await.answer(refusal(reason));
        }
        assert_eq!(owner.report().await.results[0].reason, "NotSent");
        let mut bench = Bench::new().await;
        let mut owner = bench.start(tool_step(Effect::Idempotent)).await;
        for _ in 0..4 {
            bench.called().await.answer(refusal(reason));
        }
        assert_eq!(owner.error().await.reason_name(), "TOOLS_UNREACHABLE");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_call_that_is_refused_has_an_error_as_its_result() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(tool_step(Effect::Idempotent)).await;
    bench
        .called()
        .await
        .answer(Err(Status::out_of_range("too large")));
    let report = owner.report().await;
    let result = &report.results[0];
    assert_eq!(
        (result.is_error, result.reason.as_str()),
        (true, "ExecutionFailed")
    );
    assert!(result.output.ends_with("too large"), "{}", result.output);
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_is_made_when_it_is_permitted_anew() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(tool_step(Effect::Effectful)).await;
    bench.called().await.answer(Ok(ToolResult {
        output: "too late".to_owned(),
        is_error: true,
        reason: "NotSent".to_owned(),
        ..ToolResult::default()
    }));
    assert_eq!(owner.report().await.results[0].reason, "NotSent");
    let anew = permit(call_ref(0, 0), "send", r#"{"to":"x"}"#, Effect::Effectful);
    owner.ack_with(1, vec![anew.clone()], Vec::new());
    let again = bench.called().await;
    check_request(&again);
    again.output("done");
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "done")]));
    // A call that has been made is not made again, whatever is permitted.
    owner.ack_with(2, vec![anew], Vec::new());
    bench.is_quiet().await;
    owner.end(2).await;
}

#[tokio::test]
async fn an_effectful_call_that_never_left_is_not_sent() {
    let folder = std::env::temp_dir().join(format!("cairn-executor-{}", std::process::id()));
    let address = Address::unix(folder.join("no-such-socket"));
    let tools = Link::remote(&address);
    let (client, _running) = executor(Config::default(), ModelRegistry::new(), tools).await;
    let start = tool_step(Effect::Effectful);
    let mut owner = crate::owner::Owner::open(&client, start)
        .await
        .expect("a slot");
    let report = owner.report().await;
    let result = &report.results[0];
    assert_eq!((result.is_error, result.reason.as_str()), (true, "NotSent"));
    owner.end(1).await;
}
