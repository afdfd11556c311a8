//! Hooks: what journals keep of their questions, and how services answer these.

use super::error::{ConvertError, repeated, required};
use super::wire::{OnWire, known, record};
use crate::event::{self as proto, hook_mutation::Change};
use crate::hook::{self as wire, ask_request, ask_response::Answer};
use crate::json::to_struct;
use cairn_engine::event::HeldPlan;
use cairn_engine::hooks::{
    Answered, AskedCall, EndStatus, Gate, HookFailure, Mutation, NextRequest, Outcome, Payload,
    PinnedHook, Point, Points, Question, Verdict, VerdictKind,
};

/// An enum whose values have the same names on both sides. Every value has to be set.
macro_rules! values {
    ($engine:ident => $module:ident::$wire:ident { $($value:ident),* }) => {
        impl From<$engine> for $module::$wire {
            fn from(value: $engine) -> Self {
                match value {
                    $($engine::$value => Self::$value,)*
                }
            }
        }

        impl OnWire<i32> for $engine {
            fn to_wire(self) -> i32 {
                $module::$wire::from(self).into()
            }

            fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
                Ok(match known(wire, field)? {
                    $($module::$wire::$value => Self::$value,)*
                    $module::$wire::Unspecified => return Err(ConvertError::missing(field)),
                })
            }
        }
    };
}

values! {
    Point => proto::HookPoint {
        OnRunStart, OnRunEnd, OnPlanProposed, OnStepStart, OnTurnStart, PreRequest, OnRetry, PostRequest, PreToolCall,
        PostToolCall, OnCompaction, OnError, OnTurnEnd, OnPlanStepComplete
    }
}
values! { VerdictKind => proto::HookVerdict { Proceed, Mutate, Skip, RequireApproval, Block } }
values! { EndStatus => wire::EndStatus { Completed, Failed, Skipped } }

record! { Gate => proto::HookGate { point, attempt, turn, index } }
record! { Outcome => proto::HookOutcome { index, verdict, hook, text, mutation, answers } }
record! { Answered => proto::HookAnswer { hook, verdict, reason, failure, duration_ms } }

/// Most hooks answer.
impl OnWire<i32> for Option<HookFailure> {
    fn to_wire(self) -> i32 {
        use proto::HookFailure as Wire;
        let wire = match self {
            None => Wire::Unspecified,
            Some(HookFailure::Late) => Wire::Late,
            Some(HookFailure::Wrong) => Wire::Wrong,
            Some(HookFailure::Unreachable) => Wire::Unreachable,
            Some(HookFailure::Missing) => Wire::Missing,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        use proto::HookFailure as Wire;
        Ok(match known(wire, field)? {
            Wire::Unspecified => None,
            Wire::Late => Some(HookFailure::Late),
            Wire::Wrong => Some(HookFailure::Wrong),
            Wire::Unreachable => Some(HookFailure::Unreachable),
            Wire::Missing => Some(HookFailure::Missing),
        })
    }
}

impl From<PinnedHook> for proto::PinnedHook {
    fn from(pinned: PinnedHook) -> Self {
        let points = Point::ALL.iter().copied();
        Self {
            name: pinned.name,
            digest: pinned.digest,
            points: points
                .filter(|&point| pinned.points.has(point))
                .map(OnWire::<i32>::to_wire)
                .collect(),
            tools: pinned.tools,
        }
    }
}

impl TryFrom<proto::PinnedHook> for PinnedHook {
    type Error = ConvertError;

    fn try_from(pinned: proto::PinnedHook) -> Result<Self, ConvertError> {
        let points = pinned.points.into_iter().enumerate();
        let points = points.map(|(at, point)| Point::from_wire(point, &format!("points[{at}]")));
        Ok(Self {
            name: pinned.name,
            digest: pinned.digest,
            points: points.collect::<Result<Points, ConvertError>>()?,
            tools: pinned.tools,
        })
    }
}

impl From<HeldPlan> for proto::HeldPlan {
    fn from(held: HeldPlan) -> Self {
        Self {
            plan: held.plan.to_wire(),
            request: held.request,
            usage: held.usage.to_wire(),
            duration_ms: held.duration_ms,
        }
    }
}

impl TryFrom<proto::HeldPlan> for HeldPlan {
    type Error = ConvertError;

    fn try_from(held: proto::HeldPlan) -> Result<Self, ConvertError> {
        Ok(Self {
            plan: required("plan", held.plan)?,
            request: held.request,
            usage: required("usage", held.usage)?,
            duration_ms: held.duration_ms,
        })
    }
}

/// What only questions about plans have.
impl OnWire<Option<proto::HeldPlan>> for Option<Box<HeldPlan>> {
    fn to_wire(self) -> Option<proto::HeldPlan> {
        self.map(|held| (*held).into())
    }

    fn from_wire(wire: Option<proto::HeldPlan>, field: &str) -> Result<Self, ConvertError> {
        let held = wire.map(|wire| required(field, Some(wire)).map(Box::new));
        held.transpose()
    }
}

impl From<Mutation> for proto::HookMutation {
    fn from(mutation: Mutation) -> Self {
        let change = match mutation {
            Mutation::Arguments(arguments) => Change::ArgumentsJson(arguments),
            Mutation::Output(output) => Change::Output(output),
            Mutation::Text(text) => Change::Text(text),
            Mutation::Ops(ops) => Change::Ops(proto::ConversationOps { ops: ops.to_wire() }),
            Mutation::Plan(plan) => Change::Plan(plan.into()),
            Mutation::Prompt(prompt) => Change::Prompt(prompt),
        };
        Self {
            change: Some(change),
        }
    }
}

impl TryFrom<proto::HookMutation> for Mutation {
    type Error = ConvertError;

    fn try_from(mutation: proto::HookMutation) -> Result<Self, ConvertError> {
        let change = mutation.change;
        Ok(
            match change.ok_or_else(|| ConvertError::no_choice("change"))? {
                Change::ArgumentsJson(arguments) => Self::Arguments(arguments),
                Change::Output(output) => Self::Output(output),
                Change::Text(text) => Self::Text(text),
                Change::Ops(changes) => Self::Ops(repeated("ops.ops", changes.ops)?),
                Change::Plan(plan) => Self::Plan(required("plan", Some(plan))?),
                Change::Prompt(prompt) => Self::Prompt(prompt),
            },
        )
    }
}

/// Most answers change nothing.
impl OnWire<Option<proto::HookMutation>> for Option<Mutation> {
    fn to_wire(self) -> Option<proto::HookMutation> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::HookMutation>, field: &str) -> Result<Self, ConvertError> {
        wire.map(|wire| required(field, Some(wire))).transpose()
    }
}

/// An answer without any choice, or one that this version does not know, is wrong.
impl TryFrom<wire::AskResponse> for Verdict {
    type Error = ConvertError;

    fn try_from(response: wire::AskResponse) -> Result<Self, ConvertError> {
        let answer = response.answer;
        Ok(
            match answer.ok_or_else(|| ConvertError::no_choice("answer"))? {
                Answer::Proceed(wire::Proceed {}) => Self::Proceed,
                Answer::Mutate(mutation) => Self::Mutate(required("mutate", Some(mutation))?),
                Answer::Skip(skip) => Self::Skip(skip.result),
                Answer::RequireApproval(asked) => Self::RequireApproval(asked.reason),
                Answer::Block(block) => Self::Block(block.reason),
            },
        )
    }
}

/// As a service in Rust gives it.
impl From<Verdict> for wire::AskResponse {
    fn from(verdict: Verdict) -> Self {
        let answer = match verdict {
            Verdict::Proceed => Answer::Proceed(wire::Proceed {}),
            Verdict::Mutate(mutation) => Answer::Mutate(mutation.into()),
            Verdict::Skip(result) => Answer::Skip(wire::Skip { result }),
            Verdict::RequireApproval(reason) => {
                Answer::RequireApproval(wire::RequireApproval { reason })
            }
            Verdict::Block(reason) => Answer::Block(wire::Block { reason }),
        };
        Self {
            answer: Some(answer),
        }
    }
}

/// Without the key and without the names of the hook, the namespace and the session, which the caller sets.
impl From<Question> for wire::AskRequest {
    fn from(question: Question) -> Self {
        let gate = question.gate;
        Self {
            point: gate.point.to_wire(),
            attempt: gate.attempt.to_wire(),
            context: question.context,
            agent: question.agent,
            model: question.model,
            turn_index: question.turn_index,
            plan_step_index: question.step_index,
            payload: Some(question.payload.into()),
            ..Self::default()
        }
    }
}

/// Rows of payloads whose fields have the same names on both sides; the others are spelled out.
macro_rules! payloads {
    ($($payload:ident: $message:ident { $($field:ident),* })*) => {
        impl From<Payload> for ask_request::Payload {
            fn from(payload: Payload) -> Self {
                match payload {
                    $(Payload::$payload { $($field),* } => Self::$payload(wire::$message {
                        $($field: $field.to_wire()),*
                    }),)*
                    Payload::TurnStart { message } => Self::TurnStart(wire::TurnStartPayload {
                        message: message.map(Into::into),
                    }),
                    Payload::Request(next) => Self::Request((*next).into()),
                    Payload::Call(call) => Self::Call(call.into()),
                    Payload::Result { call, output, is_error, reason, duration_ms } => {
                        let call = Some(call.into());
                        Self::Result(wire::ResultPayload { call, output, is_error, reason, duration_ms })
                    }
                    Payload::Error(failure) => Self::Error(failure.into()),
                }
            }
        }
    };
}

payloads! {
    RunStart: RunStartPayload { goal, is_turn }
    RunEnd: RunEndPayload { status, failure, usage }
    PlanProposed: PlanPayload { plan, feedback }
    StepStart: StepStartPayload { title, description, tool }
    Retry: RetryPayload { tool_turn, attempt, failure }
    Reply: ReplyPayload { tool_turn, text, calls, usage }
    Compaction: CompactionPayload { is_requested, prompt }
    TurnEnd: TurnEndPayload { response, summary, usage }
    StepEnd: StepEndPayload { title, description, status, summary, failure }
}

impl From<NextRequest> for wire::RequestPayload {
    fn from(next: NextRequest) -> Self {
        let new = next.new_messages().cloned();
        Self {
            new_messages: new.map(Into::into).collect(),
            tool_turn: next.tool_turn,
            messages: next.messages(),
            bytes: next.bytes(),
        }
    }
}

/// Arguments that are no JSON object are left out; the tool refuses the call.
impl From<AskedCall> for wire::CallPayload {
    fn from(asked: AskedCall) -> Self {
        Self {
            call: asked.call.to_wire(),
            tool: asked.tool,
            arguments: to_struct(&asked.arguments),
            asked_arguments_json: asked.asked.unwrap_or_default(),
            effect: asked.effect.to_wire(),
        }
    }
}
