//! Hooks: their questions, the answers, and what other events say of them.

use super::{
    ATTEMPT, CALL, Kinds, Order, USAGE, agents, failure, plan, reply, result_with_media, unlimited,
};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::Settlement;
use cairn_engine::conversation::Op;
use cairn_engine::event::{
    self, AgentDefined, AttemptRef, CallFinished, Effect, EventKind, HeldPlan, ReplyReceived,
    WaitReason,
};
use cairn_engine::failure::FailureKind;
use cairn_engine::hooks::{
    Answered, Gate, HookFailure, Mutation, Outcome, PinnedHook, Point, Points, VerdictKind,
};
use cairn_engine::message::{Message, Usage};
use cairn_engine::pending::{PendingId, Subject};
use std::sync::Arc;

const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn pinned() -> Vec<PinnedHook> {
    let guard = PinnedHook {
        name: "guard".into(),
        digest: DIGEST.into(),
        points: Points::default()
            .with(Point::PreToolCall)
            .with(Point::PostToolCall),
        tools: vec!["shell_exec".into(), "github__*".into()],
    };
    let every = PinnedHook {
        name: "audit".into(),
        digest: DIGEST.into(),
        points: Point::ALL.iter().copied().collect(),
        tools: Vec::new(),
    };
    vec![guard, every]
}

fn gate(point: Point, turn: u32, index: u32) -> Gate {
    Gate {
        index,
        ..Gate::of_attempt(point, ATTEMPT, turn)
    }
}

fn of_plan() -> Gate {
    let attempt = AttemptRef {
        run: 2,
        ..AttemptRef::default()
    };
    Gate {
        index: 1,
        ..Gate::of_attempt(Point::OnPlanProposed, attempt, 0)
    }
}

fn held_plan(request: Option<u64>) -> Option<Box<HeldPlan>> {
    Some(Box::new(HeldPlan {
        plan: plan(Order::Graph),
        request,
        usage: USAGE,
        duration_ms: 2_345,
    }))
}

pub(super) fn events() -> Kinds {
    let retried = failure(FailureKind::Llm, "RateLimit");
    let blocked = failure(FailureKind::HookBlocked, "HOOK_BLOCKED");
    kinds! {
        "hooks_asked": HooksAsked {
            gate: gate(Point::OnStepStart, 0, 0), failure: None, plan: None
        }
        "hooks_asked.retry": HooksAsked {
            gate: gate(Point::OnRetry, 4, 2), failure: Some(retried), plan: None
        }
        "hooks_asked.plan": HooksAsked { gate: of_plan(), failure: None, plan: held_plan(None) }
        "hooks_asked.requested_plan": HooksAsked {
            gate: of_plan(), failure: None, plan: held_plan(Some(306))
        }
        "hooks_changed": HooksChanged {
            run: 2, missing: vec!["guard".into()], changed: vec!["audit".into(), "notify".into()]
        }
        "hooks_pinned": HooksPinned { run: 2, hooks: pinned() }
        "hooks_dropped": HooksDropped {}
        "run_ending": RunEnding { run: 2, failure: blocked.clone(), usage: None }
        "run_ending.planning": RunEnding { run: 2, failure: blocked, usage: Some(USAGE) }
        "run_waiting.hook": RunWaiting { run: 2, reason: WaitReason::Hook }
        "decided.hook": Decided {
            pending: PendingId { subject: Subject::Hook { run: 2 }, time: 2 },
            settlement: Settlement::Approve,
            settle_after: 0,
            responses: String::new(),
        }
    }
}

fn answered(verdict: VerdictKind, failure: Option<HookFailure>) -> Answered {
    Answered {
        hook: "guard".into(),
        verdict,
        reason: "no force pushes".into(),
        failure,
        duration_ms: 12,
    }
}

/// What follows from one answer.
fn outcome(index: u32, verdict: VerdictKind, mutation: Option<Mutation>) -> Outcome {
    Outcome {
        index,
        verdict,
        hook: "guard".into(),
        text: String::new(),
        mutation,
        answers: vec![answered(verdict, None)],
    }
}

/// One outcome for each kind of answer, and one for each failure.
fn of_calls() -> Vec<Outcome> {
    use VerdictKind::{Block, Mutate, Proceed, RequireApproval, Skip};
    let arguments = Mutation::Arguments(r#"{"command":"git push"}"#.into());
    let worded = |index, verdict| Outcome {
        text: "no force pushes".into(),
        ..outcome(index, verdict, None)
    };
    let failures = [
        HookFailure::Late,
        HookFailure::Wrong,
        HookFailure::Unreachable,
        HookFailure::Missing,
    ];
    let failed = Outcome {
        answers: failures
            .map(|failure| answered(Proceed, Some(failure)))
            .into(),
        hook: String::new(),
        ..outcome(5, Proceed, None)
    };
    vec![
        outcome(0, Proceed, None),
        outcome(1, Mutate, Some(arguments)),
        worded(2, Skip),
        worded(3, RequireApproval),
        worded(4, Block),
        failed,
    ]
}

pub(super) fn answers() -> Kinds {
    let ops = vec![
        Op::Append(Message::user("Be brief.")),
        Op::Update {
            number: 7,
            message: Message::user("Count the files."),
        },
        Op::Remove { number: 8 },
        Op::Notice("The tests fail.".into()),
    ];
    let changes = [
        (
            "hooks_answered.output",
            Gate::of_result(CALL),
            Mutation::Output("seen".into()),
        ),
        (
            "hooks_answered.text",
            gate(Point::PostRequest, 4, 0),
            Mutation::Text("12 files".into()),
        ),
        (
            "hooks_answered.ops",
            gate(Point::PreRequest, 5, 0),
            Mutation::Ops(ops),
        ),
        (
            "hooks_answered.plan",
            of_plan(),
            Mutation::Plan(plan(Order::Graph)),
        ),
        (
            "hooks_answered.prompt",
            gate(Point::OnCompaction, 5, 1),
            Mutation::Prompt("Keep the names.".into()),
        ),
    ];
    let changed = changes.map(|(name, gate, mutation)| {
        let outcomes = vec![outcome(0, VerdictKind::Mutate, Some(mutation))];
        let answered = event::HooksAnswered { gate, outcomes };
        (name, EventKind::from(answered))
    });
    let mut answers = kinds! {
        "hooks_answered": HooksAnswered {
            gate: gate(Point::PreToolCall, 4, 0), outcomes: of_calls()
        }
    };
    answers.extend(changed);
    answers
}

/// What events of other kinds say of hooks.
pub(super) fn marks() -> Kinds {
    let mut replied = ReplyReceived {
        held: true,
        usage: Usage::default(),
        ..reply()
    };
    for call in &mut replied.calls {
        call.hooked = call.effect != Effect::State;
    }
    let finished = CallFinished {
        held: true,
        ..result_with_media()
    };
    let agent = AgentDefinition {
        hooks: vec!["audit".into(), "guard".into()],
        ..agents::reviewer()
    };
    let defined = AgentDefined {
        agent: Arc::new(agent),
        digest: DIGEST.into(),
        capabilities: String::new(),
    };
    let mut marks = kinds! {
        "run_started.hooks": RunStarted {
            run: 2,
            goal: "Push it".into(),
            limits: unlimited(),
            model: String::new(),
            trace_parent: String::new(),
            turn: None,
            agent: None,
            hooks: pinned(),
        }
        "step_started.hooked": StepStarted {
            attempt: ATTEMPT,
            tool_effect: Some(Effect::Effectful),
            tool_digest: "0a1b2c".into(),
            tool_previews: false,
            tool_hooked: true,
            context: String::new(),
        }
        "step_skipped.hook": StepSkipped {
            run: 2,
            step: ATTEMPT.step,
            reason: "not on a Friday".into(),
            by_person: true,
            hook: "guard".into(),
        }
    };
    marks.extend([
        ("reply_received.held", EventKind::from(replied)),
        ("call_finished.held", finished.into()),
        ("agent_defined.hooks", defined.into()),
    ]);
    marks
}
