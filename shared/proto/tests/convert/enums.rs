//! Every value of every enum of the contract has its counterpart, and numbers from newer versions
//! do no harm.

use cairn_engine::command::{LimitOverrides, SubmitTurn, TurnOptions};
use cairn_engine::conversation::{Entry, Layer};
use cairn_engine::event::{self, Effect, Event, EventKind, RequestedCall};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{Answered, Gate, PinnedHook};
use cairn_engine::message::Message;
use cairn_engine::plan::PlanDraft;
use cairn_engine::refusal::Refusal;
use cairn_proto::convert::{ConvertError, Decoded};
use cairn_proto::event::{self as proto, event::Kind};
use prost_reflect::{DescriptorPool, EnumDescriptor};
use std::collections::BTreeSet;

/// A number that no enum has.
const FUTURE: i32 = 4711;

type Reading = fn(i32) -> Result<i32, ConvertError>;

/// Reads a number from a message and writes it back, by enum.
const READINGS: [(&str, Reading); 21] = [
    ("WhenBusy", when_busy),
    ("WhenFull", when_full),
    ("AtLimit", at_limit),
    ("Keep", keep),
    ("Authentication", authentication),
    ("Budget", budget),
    ("Effect", effect),
    ("WaitReason", wait_reason),
    ("ShortageKind", shortage_kind),
    ("Order", order),
    ("Role", role),
    ("FailureKind", failure_kind),
    ("OnFailure", on_failure),
    ("FinishReason", finish),
    ("LayerKind", layer_kind),
    ("Mode", mode),
    ("CompactionKind", compaction_kind),
    ("FullCause", full_cause),
    ("HookPoint", hook_point),
    ("HookVerdict", hook_verdict),
    ("HookFailure", hook_failure),
];

fn when_busy(when_busy: i32) -> Result<i32, ConvertError> {
    let turn = SubmitTurn::try_from(proto::SubmitTurn {
        when_busy,
        ..Default::default()
    })?;
    Ok(proto::SubmitTurn::from(turn).when_busy)
}

fn when_full(when_full: i32) -> Result<i32, ConvertError> {
    let options = TurnOptions::try_from(proto::TurnOptions {
        when_full,
        ..Default::default()
    })?;
    Ok(proto::TurnOptions::from(options).when_full)
}

fn at_limit(at_limit: i32) -> Result<i32, ConvertError> {
    let engine = LimitOverrides::try_from(proto::LimitOverrides {
        at_limit,
        ..Default::default()
    })?;
    Ok(proto::LimitOverrides::from(engine).at_limit)
}

fn keep(keep: i32) -> Result<i32, ConvertError> {
    let options = TurnOptions::try_from(proto::TurnOptions {
        keep,
        ..Default::default()
    })?;
    Ok(proto::TurnOptions::from(options).keep)
}

fn finish(finish: i32) -> Result<i32, ConvertError> {
    let reply = Kind::ReplyReceived(proto::ReplyReceived {
        attempt: Some(proto::AttemptRef::default()),
        usage: Some(proto::Usage::default()),
        finish,
        ..Default::default()
    });
    match again(reply)? {
        Kind::ReplyReceived(reply) => Ok(reply.finish),
        other => panic!("another kind: {other:?}"),
    }
}

fn layer_kind(kind: i32) -> Result<i32, ConvertError> {
    let layer = Layer::try_from(proto::Layer {
        kind,
        ..Default::default()
    })?;
    Ok(proto::Layer::from(layer).kind)
}

fn mode(mode: i32) -> Result<i32, ConvertError> {
    let set = Kind::ModeSet(proto::ModeSet { mode });
    match again(set)? {
        Kind::ModeSet(set) => Ok(set.mode),
        other => panic!("another kind: {other:?}"),
    }
}

fn compaction_kind(kind: i32) -> Result<i32, ConvertError> {
    let compacted = Kind::ContextCompacted(proto::ContextCompacted {
        attempt: Some(proto::AttemptRef::default()),
        messages: Some(proto::CompactedMessages::default()),
        usage: Some(proto::Usage::default()),
        kind,
        ..Default::default()
    });
    match again(compacted)? {
        Kind::ContextCompacted(compacted) => Ok(compacted.kind),
        other => panic!("another kind: {other:?}"),
    }
}

fn full_cause(cause: i32) -> Result<i32, ConvertError> {
    let full = Kind::ContextFull(proto::ContextFull {
        attempt: Some(proto::AttemptRef::default()),
        usage: Some(proto::Usage::default()),
        cause,
        ..Default::default()
    });
    match again(full)? {
        Kind::ContextFull(full) => Ok(full.cause),
        other => panic!("another kind: {other:?}"),
    }
}

fn hook_point(point: i32) -> Result<i32, ConvertError> {
    let gate = Gate::try_from(proto::HookGate {
        point,
        attempt: Some(proto::AttemptRef::default()),
        ..Default::default()
    })?;
    Ok(proto::HookGate::from(gate).point)
}

/// Of a list, whose order is that of the points.
fn pinned_point(point: i32) -> Result<i32, ConvertError> {
    let pinned = PinnedHook::try_from(proto::PinnedHook {
        points: vec![point],
        ..Default::default()
    })?;
    Ok(proto::PinnedHook::from(pinned).points[0])
}

fn answer(answer: proto::HookAnswer) -> Result<proto::HookAnswer, ConvertError> {
    Answered::try_from(answer).map(Into::into)
}

fn hook_verdict(verdict: i32) -> Result<i32, ConvertError> {
    let answer = answer(proto::HookAnswer {
        verdict,
        ..Default::default()
    })?;
    Ok(answer.verdict)
}

fn hook_failure(failure: i32) -> Result<i32, ConvertError> {
    let answer = answer(proto::HookAnswer {
        verdict: proto::HookVerdict::Block.into(),
        failure,
        ..Default::default()
    })?;
    Ok(answer.failure)
}

/// Of a message in a conversation, which may stand as it was said.
fn compaction(compaction: i32) -> Result<i32, ConvertError> {
    let role = proto::Role::User.into();
    let entry = Entry::try_from(proto::NumberedMessage {
        number: 1,
        message: Some(proto::Message {
            role,
            ..Default::default()
        }),
        compaction,
    })?;
    Ok(proto::NumberedMessage::from(entry).compaction)
}

fn authentication(authentication: i32) -> Result<i32, ConvertError> {
    let event = proto::Event {
        at_unix_ms: 1,
        principal: Some(proto::Principal {
            authentication,
            ..Default::default()
        }),
        kind: Some(Kind::MemoryCleared(proto::MemoryCleared {})),
        ..Default::default()
    };
    match event.try_into()? {
        Decoded::Event(event) => {
            let principal = proto::Event::from(event).principal;
            Ok(principal.unwrap().authentication)
        }
        other => panic!("not an event: {other:?}"),
    }
}

fn effect(effect: i32) -> Result<i32, ConvertError> {
    let call = Some(proto::ToolCall::default());
    let engine = RequestedCall::try_from(proto::RequestedCall {
        tool_digest: String::new(),
        call,
        effect,
        previews: false,
        hooked: false,
    })?;
    Ok(proto::RequestedCall::from(engine).effect)
}

fn wait_reason(reason: i32) -> Result<i32, ConvertError> {
    let kind = Kind::RunWaiting(proto::RunWaiting { run: 1, reason });
    match again(kind)? {
        Kind::RunWaiting(waiting) => Ok(waiting.reason),
        other => panic!("another kind: {other:?}"),
    }
}

fn shortage_kind(kind: i32) -> Result<i32, ConvertError> {
    let short = Kind::CapabilityShort(proto::CapabilityShort {
        attempt: Some(proto::AttemptRef::default()),
        kind,
        ..Default::default()
    });
    match again(short)? {
        Kind::CapabilityShort(short) => Ok(short.kind),
        other => panic!("another kind: {other:?}"),
    }
}

fn budget(budget: i32) -> Result<i32, ConvertError> {
    let kind = Kind::BudgetExhausted(proto::BudgetExhausted { run: 1, budget });
    match again(kind)? {
        Kind::BudgetExhausted(exhausted) => Ok(exhausted.budget),
        other => panic!("another kind: {other:?}"),
    }
}

fn order(order: i32) -> Result<i32, ConvertError> {
    let steps = Vec::new();
    let engine = PlanDraft::try_from(proto::Plan { order, steps })?;
    Ok(proto::Plan::from(engine).order)
}

fn on_failure(on_failure: i32) -> Result<i32, ConvertError> {
    let engine = LimitOverrides::try_from(proto::LimitOverrides {
        on_failure,
        ..Default::default()
    })?;
    Ok(proto::LimitOverrides::from(engine).on_failure)
}

fn role(role: i32) -> Result<i32, ConvertError> {
    let engine = Message::try_from(proto::Message {
        role,
        ..Default::default()
    })?;
    Ok(proto::Message::from(engine).role)
}

fn failure_kind(kind: i32) -> Result<i32, ConvertError> {
    let engine = Failure::from(proto::Failure {
        kind,
        ..Default::default()
    });
    Ok(proto::Failure::from(engine).kind)
}

fn tool_effect(tool_effect: i32) -> Option<Effect> {
    let attempt = Some(proto::AttemptRef::default());
    let kind = Kind::StepStarted(proto::StepStarted {
        tool_digest: String::new(),
        attempt,
        tool_effect,
        tool_previews: false,
        tool_hooked: false,
        context: String::new(),
    });
    match engine(kind) {
        Ok(EventKind::StepStarted(event::StepStarted { tool_effect, .. })) => tool_effect,
        other => panic!("another kind: {other:?}"),
    }
}

fn engine(kind: Kind) -> Result<EventKind, ConvertError> {
    let event = proto::Event {
        at_unix_ms: 1,
        kind: Some(kind),
        ..Default::default()
    };
    match event.try_into()? {
        Decoded::Event(Event { kind, .. }) => Ok(kind),
        other => panic!("not an event: {other:?}"),
    }
}

fn again(kind: Kind) -> Result<Kind, ConvertError> {
    engine(kind).map(Kind::from)
}

fn enums() -> Vec<EnumDescriptor> {
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).unwrap();
    let all = pool.all_enums();
    all.filter(|e| e.package_name() == "cairn.event.v1")
        .collect()
}

#[test]
fn every_value_has_its_counterpart() {
    for descriptor in enums() {
        let reading = READINGS.iter().find(|(name, _)| *name == descriptor.name());
        let (_, reading) = reading.unwrap_or_else(|| panic!("{} is not read", descriptor.name()));
        for value in descriptor.values().filter(|value| value.number() != 0) {
            assert_eq!(
                reading(value.number()),
                Ok(value.number()),
                "{}",
                value.name()
            );
        }
    }
    let names: BTreeSet<String> = enums().iter().map(|e| e.name().to_owned()).collect();
    assert_eq!(names.len(), READINGS.len());
}

#[test]
fn unspecified_values_are_read_as_the_contract_says_or_are_missing() {
    assert_eq!(effect(0), Ok(proto::Effect::Effectful.into()));
    assert_eq!(on_failure(0), Ok(0));
    assert_eq!(when_full(0), Ok(0));
    assert_eq!(at_limit(0), Ok(0));
    assert_eq!(keep(0), Ok(0));
    assert_eq!(compaction(0), Ok(0));
    assert_eq!(hook_failure(0), Ok(0));
    assert_eq!(order(0), Ok(proto::Order::Chain.into()));
    assert_eq!(failure_kind(0), Ok(proto::FailureKind::Other.into()));
    assert_eq!(role(0), Err(ConvertError::missing("role")));
    assert!(!ConvertError::missing("role").is_newer);
    assert_eq!(
        authentication(0),
        Err(ConvertError::missing("principal.authentication"))
    );
    assert_eq!(
        wait_reason(0),
        Err(ConvertError::missing("run_waiting.reason"))
    );
    assert_eq!(
        compaction_kind(0),
        Err(ConvertError::missing("context_compacted.kind"))
    );
    assert_eq!(
        full_cause(0),
        Err(ConvertError::missing("context_full.cause"))
    );
    assert_eq!(mode(0), Err(ConvertError::missing("mode_set.mode")));
    assert_eq!(hook_point(0), Err(ConvertError::missing("point")));
    assert_eq!(pinned_point(0), Err(ConvertError::missing("points[0]")));
    assert_eq!(hook_verdict(0), Err(ConvertError::missing("verdict")));
    assert_eq!(
        shortage_kind(0),
        Err(ConvertError::missing("capability_short.kind"))
    );
}

#[test]
fn values_from_newer_versions_are_taken_for_the_worst_or_refused() {
    assert_eq!(effect(FUTURE), Ok(proto::Effect::Effectful.into()));
    assert_eq!(failure_kind(FUTURE), Ok(proto::FailureKind::Other.into()));
    for (reading, field) in [
        (order as Reading, "order"),
        (role, "role"),
        (authentication, "principal.authentication"),
        (on_failure, "on_failure"),
        (wait_reason, "run_waiting.reason"),
        (budget, "budget_exhausted.budget"),
        (when_full, "when_full"),
        (at_limit, "at_limit"),
        (keep, "keep"),
        (compaction, "compaction"),
        (compaction_kind, "context_compacted.kind"),
        (full_cause, "context_full.cause"),
        (mode, "mode_set.mode"),
        (shortage_kind, "capability_short.kind"),
        (hook_point, "point"),
        (pinned_point, "points[0]"),
        (hook_verdict, "verdict"),
        (hook_failure, "failure"),
    ] {
        let error = reading(FUTURE).expect_err(field);
        assert_eq!(error.field, field);
        assert!(error.is_newer, "{error}");
        assert!(error.problem.contains("4711"), "{error}");
    }
}

#[test]
fn a_reason_from_a_newer_version_is_refused() {
    let refused = |reason: &str| {
        Kind::CommandRefused(proto::CommandRefused {
            reason: reason.to_owned(),
            ..Default::default()
        })
    };
    for reason in Refusal::ALL {
        assert_eq!(again(refused(reason.name())), Ok(refused(reason.name())));
    }
    for reason in ["", "FUTURE"] {
        let error = again(refused(reason)).expect_err(reason);
        assert_eq!(error.field, "command_refused.reason");
        assert_eq!(error.is_newer, !reason.is_empty(), "{error}");
    }
}

#[test]
fn a_message_that_stands_for_others_says_of_which_kind_it_is() {
    for kind in [
        proto::CompactionKind::History,
        proto::CompactionKind::Summary,
    ] {
        assert_eq!(compaction(kind.into()), Ok(kind.into()));
    }
}

#[test]
fn a_step_without_a_tool_has_no_effect_and_one_with_a_tool_has_one() {
    assert_eq!(tool_effect(0), None);
    assert_eq!(tool_effect(proto::Effect::Pure.into()), Some(Effect::Pure));
    assert_eq!(tool_effect(FUTURE), Some(Effect::Effectful));
}

#[test]
fn whether_a_failure_is_recoverable_is_reported_and_not_believed() {
    let reported = proto::Failure::from(Failure::new(FailureKind::Llm, "RateLimit", "slow down"));
    assert!(reported.recoverable);
    let lie = proto::Failure {
        kind: proto::FailureKind::Config.into(),
        recoverable: true,
        ..Default::default()
    };
    assert!(!proto::Failure::from(Failure::from(lie)).recoverable);
}
