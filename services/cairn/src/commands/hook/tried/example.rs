//! The example that `cairn hook try` asks a hook about.

use super::Args;
use cairn_engine::conversation::Conversation;
use cairn_engine::event::{AttemptRef, CallRef, Effect};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{AskedCall, EndStatus, Gate, NextRequest, Payload, Point, Question};
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_engine::plan::{PlanDraft, StepDraft};
use cairn_hooks::Asked;

/// The run of the example.
const RUN: u32 = 1;

/// The question to the hook.
pub(super) fn asked(args: &Args) -> Asked {
    let question = question(args);
    let (namespace, session) = ("default".to_owned(), "s-example".to_owned());
    Asked {
        key: question.gate.key(&namespace, &session, &args.name),
        namespace,
        session,
        hook: args.name.clone(),
        question,
        trace: None,
    }
}

fn question(args: &Args) -> Question {
    let of_run = matches!(
        args.point,
        Point::OnRunStart | Point::OnRunEnd | Point::OnPlanProposed
    );
    let gate = match of_run {
        true => Gate::of_run(args.point, RUN),
        false => Gate::of_attempt(args.point, attempt(), 0),
    };
    let of_call = matches!(args.point, Point::PreToolCall | Point::PostToolCall);
    Question {
        gate,
        index: 0,
        tool: of_call.then(|| args.tool.clone()),
        context: String::new(),
        agent: "default".to_owned(),
        model: String::new(),
        turn_index: (!of_run).then_some(0),
        step_index: (!of_run).then_some(0),
        payload: payload(args),
    }
}

fn payload(args: &Args) -> Payload {
    let text = args.text.clone();
    let usage = Usage::default();
    let title = || "An example".to_owned();
    match args.point {
        Point::OnRunStart => Payload::RunStart {
            goal: text,
            is_turn: false,
        },
        Point::OnRunEnd => Payload::RunEnd {
            status: EndStatus::Completed,
            failure: None,
            usage,
        },
        Point::OnPlanProposed => Payload::PlanProposed {
            plan: plan(text),
            feedback: String::new(),
        },
        Point::OnStepStart => Payload::StepStart {
            title: title(),
            description: text,
            tool: String::new(),
        },
        Point::OnTurnStart => Payload::TurnStart {
            message: Some(Message::user(text)),
        },
        Point::PreRequest | Point::OnRetry | Point::PostRequest => of_request(args),
        Point::PreToolCall => Payload::Call(call(args)),
        Point::PostToolCall => Payload::Result {
            call: call(args),
            output: text,
            is_error: false,
            reason: String::new(),
            duration_ms: 10,
        },
        Point::OnCompaction => Payload::Compaction {
            is_requested: false,
            prompt: String::new(),
        },
        Point::OnError => Payload::Error(failure(text)),
        Point::OnTurnEnd => Payload::TurnEnd {
            summary: text.clone(),
            response: text,
            usage,
        },
        Point::OnPlanStepComplete => Payload::StepEnd {
            title: title(),
            description: title(),
            status: EndStatus::Completed,
            summary: text,
            failure: None,
        },
    }
}

/// A question about a request of the model.
fn of_request(args: &Args) -> Payload {
    let text = args.text.clone();
    match args.point {
        Point::OnRetry => Payload::Retry {
            tool_turn: 0,
            attempt: 1,
            failure: failure(text),
        },
        Point::PostRequest => Payload::Reply {
            tool_turn: 0,
            text,
            calls: vec![ToolCall {
                id: "call".to_owned(),
                name: args.tool.clone(),
                arguments: args.arguments.clone(),
            }],
            usage: Usage::default(),
        },
        _ => {
            let conversation = Conversation::beginning_with([Message::user(text)]);
            Payload::Request(Box::new(NextRequest::first(conversation)))
        }
    }
}

fn plan(description: String) -> PlanDraft {
    let step = StepDraft {
        description,
        ..StepDraft::default()
    };
    PlanDraft {
        steps: vec![step],
        ..PlanDraft::default()
    }
}

fn attempt() -> AttemptRef {
    AttemptRef {
        run: RUN,
        step: 1.into(),
        attempt: 1,
    }
}

fn failure(message: String) -> Failure {
    Failure::new(FailureKind::Llm, "Timeout", message)
}

fn call(args: &Args) -> AskedCall {
    AskedCall {
        call: CallRef {
            attempt: attempt(),
            tool_turn: 0,
            index: 0,
        },
        tool: args.tool.clone(),
        arguments: args.arguments.clone(),
        asked: None,
        effect: Effect::Effectful,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;
    use cairn_engine::hooks::{Verdict, fault_of};

    #[test]
    fn each_point_has_an_example_that_proceed_fits() {
        for point in Point::ALL {
            let asked = asked(&args(*point));
            assert_eq!(asked.question.gate.point, *point);
            let fault = fault_of(*point, &Verdict::Proceed, asked.question.conversation());
            assert_eq!(fault, None, "{point:?}");
        }
    }
}
