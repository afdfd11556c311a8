//! Questions as services get them, and their answers.

use crate::strategies;
use cairn_engine::decide::Retry;
use cairn_engine::event::{AttemptRef, CallRef, Effect};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{
    AskedCall, EndStatus, Gate, Mutation, Payload, Point, Question, Verdict,
};
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::StepNo;
use cairn_proto::convert::ConvertError;
use cairn_proto::hook::{self as wire, AskRequest, AskResponse, ask_request, ask_response};
use cairn_proto::json::to_struct;
use cairn_proto::{event as proto, executor};
use proptest::prelude::*;
use proptest::test_runner::Config;

const ATTEMPT: AttemptRef = AttemptRef {
    run: 2,
    step: StepNo::new(3),
    attempt: 1,
};

fn question(point: Point, payload: Payload) -> Question {
    Question {
        gate: Gate::of_attempt(point, ATTEMPT, 4),
        index: 0,
        tool: None,
        context: "draft".to_owned(),
        agent: "reviewer".to_owned(),
        model: "offline".to_owned(),
        turn_index: Some(0),
        step_index: None,
        payload,
    }
}

/// What a service gets as the payload.
fn sent(payload: Payload) -> ask_request::Payload {
    let request = AskRequest::from(question(Point::OnError, payload));
    request.payload.unwrap()
}

fn asked(arguments: &str) -> AskedCall {
    AskedCall {
        call: CallRef {
            attempt: ATTEMPT,
            tool_turn: 4,
            index: 1,
        },
        tool: "shell_exec".to_owned(),
        arguments: arguments.to_owned(),
        asked: Some(r#"{"command":"git push --force"}"#.to_owned()),
        effect: Effect::Effectful,
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Llm, "RateLimit", "slow down")
}

#[test]
fn a_request_names_the_question_and_leaves_names_to_its_caller() {
    let payload = Payload::RunStart {
        goal: "Push it".to_owned(),
        is_turn: true,
    };
    let expected = AskRequest {
        point: proto::HookPoint::OnRunStart.into(),
        attempt: Some(proto::AttemptRef {
            run: 2,
            step: 3,
            attempt: 1,
        }),
        context: "draft".to_owned(),
        agent: "reviewer".to_owned(),
        model: "offline".to_owned(),
        turn_index: Some(0),
        plan_step_index: None,
        payload: Some(ask_request::Payload::RunStart(wire::RunStartPayload {
            goal: "Push it".to_owned(),
            is_turn: true,
        })),
        ..AskRequest::default()
    };
    let request = AskRequest::from(question(Point::OnRunStart, payload));
    assert_eq!(request, expected);
}

#[test]
fn a_call_has_its_arguments_as_a_struct_and_as_the_model_wrote_them() {
    let arguments = r#"{"command":"git push","list":[1,2.5,true,null,{"a":""}]}"#;
    let expected = wire::CallPayload {
        call: Some(proto::CallRef {
            attempt: Some(proto::AttemptRef {
                run: 2,
                step: 3,
                attempt: 1,
            }),
            tool_turn: 4,
            index: 1,
        }),
        tool: "shell_exec".to_owned(),
        arguments: to_struct(arguments),
        asked_arguments_json: r#"{"command":"git push --force"}"#.to_owned(),
        effect: proto::Effect::Effectful.into(),
    };
    let fields = expected.arguments.as_ref().expect("an object");
    let names: Vec<_> = fields.fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["command", "list"]);
    let call = sent(Payload::Call(asked(arguments)));
    assert_eq!(call, ask_request::Payload::Call(expected.clone()));
    let ended = Payload::Result {
        call: asked(arguments),
        output: "done".to_owned(),
        is_error: true,
        reason: "Timeout".to_owned(),
        duration_ms: 7,
    };
    let expected = wire::ResultPayload {
        call: Some(expected),
        output: "done".to_owned(),
        is_error: true,
        reason: "Timeout".to_owned(),
        duration_ms: 7,
    };
    assert_eq!(sent(ended), ask_request::Payload::Result(expected));
}

#[test]
fn arguments_that_are_no_object_are_left_out() {
    for arguments in ["", "[1]", r#"{"command":"#, "7"] {
        assert_eq!(to_struct(arguments), None, "{arguments}");
        match sent(Payload::Call(asked(arguments))) {
            ask_request::Payload::Call(call) => assert_eq!(call.arguments, None),
            other => panic!("another payload: {other:?}"),
        }
    }
}

#[test]
fn every_value_of_a_struct_is_that_of_the_json() {
    use prost_types::value::Kind;
    let fields = to_struct(r#"{"a":1.5,"b":"x","c":false,"d":null,"e":[2],"f":{"g":1e999}}"#);
    let fields = fields.expect("an object").fields;
    let kind = |name: &str| fields[name].kind.clone().expect("a value");
    assert_eq!(kind("a"), Kind::NumberValue(1.5));
    assert_eq!(kind("b"), Kind::StringValue("x".to_owned()));
    assert_eq!(kind("c"), Kind::BoolValue(false));
    assert_eq!(kind("d"), Kind::NullValue(0));
    match kind("e") {
        Kind::ListValue(list) => assert_eq!(list.values[0].kind, Some(Kind::NumberValue(2.0))),
        other => panic!("{other:?}"),
    }
    match kind("f") {
        Kind::StructValue(inner) => assert!(inner.fields["g"].kind.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ends_have_their_status() {
    use ask_request::Payload as Sent;
    for (status, expected) in [
        (EndStatus::Completed, wire::EndStatus::Completed),
        (EndStatus::Failed, wire::EndStatus::Failed),
        (EndStatus::Skipped, wire::EndStatus::Skipped),
    ] {
        let ended = Payload::RunEnd {
            status,
            failure: Some(failure()),
            usage: Usage::default(),
        };
        let run_end = wire::RunEndPayload {
            status: expected.into(),
            failure: Some(failure().into()),
            usage: Some(proto::Usage::default()),
        };
        assert_eq!(sent(ended), Sent::RunEnd(run_end));
        let ended = Payload::StepEnd {
            title: "Survey".to_owned(),
            description: "List the files.".to_owned(),
            status,
            summary: "12 files".to_owned(),
            failure: None,
        };
        let step_end = wire::StepEndPayload {
            title: "Survey".to_owned(),
            description: "List the files.".to_owned(),
            status: expected.into(),
            summary: "12 files".to_owned(),
            failure: None,
        };
        assert_eq!(sent(ended), Sent::StepEnd(step_end));
    }
}

#[test]
fn the_other_payloads_have_all_their_fields() {
    use ask_request::Payload as Sent;
    let message = Message::user("Count the files.");
    let turn_start = Payload::TurnStart {
        message: Some(message.clone()),
    };
    let expected = wire::TurnStartPayload {
        message: Some(message.into()),
    };
    assert_eq!(sent(turn_start), Sent::TurnStart(expected));
    let proposed = Payload::PlanProposed {
        plan: PlanDraft::default(),
        feedback: "shorter".to_owned(),
    };
    let expected = wire::PlanPayload {
        plan: Some(PlanDraft::default().into()),
        feedback: "shorter".to_owned(),
    };
    assert_eq!(sent(proposed), Sent::PlanProposed(expected));
    let retry = Payload::Retry {
        tool_turn: 4,
        attempt: 2,
        failure: failure(),
    };
    let expected = wire::RetryPayload {
        tool_turn: 4,
        attempt: 2,
        failure: Some(failure().into()),
    };
    assert_eq!(sent(retry), Sent::Retry(expected));
    let call = ToolCall {
        id: "id-0".to_owned(),
        name: "read_file".to_owned(),
        arguments: "{}".to_owned(),
    };
    let reply = Payload::Reply {
        tool_turn: 4,
        text: "I look.".to_owned(),
        calls: vec![call.clone()],
        usage: Usage::default(),
    };
    let expected = wire::ReplyPayload {
        tool_turn: 4,
        text: "I look.".to_owned(),
        calls: vec![call.into()],
        usage: Some(proto::Usage::default()),
    };
    assert_eq!(sent(reply), Sent::Reply(expected));
    assert_eq!(
        sent(Payload::Error(failure())),
        Sent::Error(failure().into())
    );
}

#[test]
fn an_answer_without_a_choice_is_wrong() {
    let error = Verdict::try_from(AskResponse::default());
    assert_eq!(error, Err(ConvertError::no_choice("answer")));
    let mutation = AskResponse {
        answer: Some(ask_response::Answer::Mutate(proto::HookMutation::default())),
    };
    let error = Verdict::try_from(mutation).expect_err("no change");
    assert_eq!(error.field, "mutate.change");
}

#[test]
fn a_retry_has_its_failure() {
    let report = executor::RetryReport {
        tool_turn: 4,
        attempt: 2,
        failure: Some(failure().into()),
    };
    let retry = Retry::try_from(report).expect("a retry");
    assert_eq!((retry.tool_turn, retry.attempt), (4, 2));
    assert_eq!(retry.failure, failure());
    let error = Retry::try_from(executor::RetryReport::default());
    assert_eq!(error, Err(ConvertError::missing("failure")));
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Proceed),
        strategies::mutation().prop_map(Verdict::Mutate),
        any::<String>().prop_map(Verdict::Skip),
        any::<String>().prop_map(Verdict::RequireApproval),
        any::<String>().prop_map(Verdict::Block),
    ]
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(128) })]

    #[test]
    fn answers_come_back_as_they_were(verdict in verdict()) {
        let wire = AskResponse::from(verdict.clone());
        prop_assert_eq!(Verdict::try_from(wire), Ok(verdict));
    }

    /// As the operator's service may write it.
    #[test]
    fn changes_come_back_as_they_were(mutation in strategies::mutation()) {
        let wire = proto::HookMutation::from(mutation.clone());
        prop_assert_eq!(Mutation::try_from(wire), Ok(mutation));
    }
}
